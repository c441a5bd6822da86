#include "config/advertise_host.h"

#include <gtest/gtest.h>

#include "config/host_address.h"

namespace dovetail::config {
namespace {

constexpr const char* kHead4 =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
constexpr const char* kZeros = "00000000000000000000000000000000";

TEST(DefaultInterfaceIpv4, LowestMetricOfTheUsableDefaultRoutes) {
  const std::string table = std::string(kHead4) +
                            "eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                            "wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
                            "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
                            "eth2\t00000000\t010200C0\t0003\t0\t0\t101\t00000000\t0\t0\t0\n"
                            "down0\t00000000\t010200C0\t0002\t0\t0\t1\t00000000\t0\t0\t0\n"
                            "rej0\t00000000\t010200C0\t0201\t0\t0\t2\t00000000\t0\t0\t0\n"
                            "half0\t00000000\t010200C0\t0003\t0\t0\t3\t00000080\t0\t0\t0\n";
  EXPECT_EQ(DefaultInterfaceIpv4(table), "eth0");
}

TEST(DefaultInterfaceIpv4, NoneWithoutADefaultRoute) {
  EXPECT_EQ(DefaultInterfaceIpv4(""), std::nullopt);
  EXPECT_EQ(DefaultInterfaceIpv4(kHead4), std::nullopt);
  EXPECT_EQ(DefaultInterfaceIpv4("eth0\t00000000\n\n\t\neth0 00000000 x zz 0 0 q 00000000\n"),
            std::nullopt);
}

TEST(DefaultInterfaceIpv6, IgnoresTheRejectingRouteThatAlwaysExists) {
  const std::string zeros = kZeros;
  const std::string reject =
      zeros + " 00 " + zeros + " 00 " + zeros + " ffffffff 00000001 00000000 00200200       lo\n";
  EXPECT_EQ(DefaultInterfaceIpv6(reject), std::nullopt);
  const std::string usable = zeros + " 00 " + zeros +
                             " 00 fd000000000000000000000000000001 00000400 00000002 00000000 "
                             "00000003     eth0\n";
  EXPECT_EQ(DefaultInterfaceIpv6(reject + usable), "eth0");
  const std::string network = "fd" + std::string(30, '0') + " 40 " + zeros + " 00 " + zeros +
                              " 00000001 00000001 00000000 00000001     eth9\n";
  EXPECT_EQ(DefaultInterfaceIpv6(network), std::nullopt);
}

TEST(AdvertiseHost, ASingleBindAddressIsTheOnlyOneThatClientsCanReach) {
  EXPECT_EQ(FindAdvertiseHost("127.0.0.1").host, "127.0.0.1");
  EXPECT_EQ(FindAdvertiseHost("127.0.0.2").host, "127.0.0.2");
  EXPECT_EQ(FindAdvertiseHost("::1").host, "::1");
  EXPECT_EQ(FindAdvertiseHost("10.1.2.3").host, "10.1.2.3");
}

TEST(AdvertiseHost, AWildcardIsNeverAdvertised) {
  for (const char* bind : {"0.0.0.0", "::"}) {
    const AdvertiseHost found = FindAdvertiseHost(bind);
    EXPECT_TRUE(IsAddress(found.host)) << found.host;
    EXPECT_FALSE(IsWildcardAddress(found.host)) << found.host;
    EXPECT_FALSE(found.reason.empty());
  }
}

TEST(HostAddress, KindsAreToldApart) {
  for (const char* text : {"10.0.0.1", "::1", "fd00::2"}) EXPECT_TRUE(IsAddress(text)) << text;
  for (const char* text :
       {"", "localhost", "10.0.0", "10.0.0.256", "1.2.3.4:80", "[::1]", "10.0.0.1 "}) {
    EXPECT_FALSE(IsAddress(text)) << text;
  }
  EXPECT_FALSE(IsAddress(std::string("10.0.0.1\0x", 10)));
  EXPECT_TRUE(IsWildcardAddress("0.0.0.0"));
  EXPECT_TRUE(IsWildcardAddress("0:0::0"));
  EXPECT_FALSE(IsWildcardAddress("10.0.0.1"));
  EXPECT_TRUE(IsLoopbackAddress("127.9.9.9"));
  EXPECT_TRUE(IsLoopbackAddress("::1"));
  EXPECT_FALSE(IsLoopbackAddress("128.0.0.1"));
  for (const char* text : {"a", "shuffle-1.example.org", "10a.x", "my_host"}) {
    EXPECT_TRUE(IsHostName(text)) << text;
  }
  for (const char* text : {"", ".", "a..b", "a.", ".a", "a:1", "http://a", "a b", "10.0.0.300"}) {
    EXPECT_FALSE(IsHostName(text)) << text;
  }
  EXPECT_FALSE(IsHostName(std::string(254, 'a')));
}

}  // namespace
}  // namespace dovetail::config
