#include "config/advertise_host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "config/host_address.h"

namespace dovetail::config {
namespace {

struct BestRoute {
  std::optional<std::string> interface_name;
  uint64_t metric = 0;

  void Offer(const std::string& name, uint64_t flags, uint64_t offered_metric) {
    constexpr uint64_t kUsable = RTF_UP;
    if ((flags & kUsable) == 0 || (flags & RTF_REJECT) != 0 || name == "lo") return;
    if (interface_name && metric <= offered_metric) return;
    interface_name = name;
    metric = offered_metric;
  }
};

std::optional<uint64_t> ParseNumber(const std::string& text, int base) {
  uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::vector<std::string>> Table(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words),
                      std::istream_iterator<std::string>());
  }
  return rows;
}

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// First address of the family on an interface that others can use; link-local ones need a zone and
// do not count.
std::optional<std::string> AddressOf(const std::string& interface_name, int family) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return std::nullopt;
  std::optional<std::string> found;
  for (const ifaddrs* entry = list; entry != nullptr && !found; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
    if (interface_name != entry->ifa_name || (entry->ifa_flags & IFF_UP) == 0) continue;
    const void* address = nullptr;
    if (family == AF_INET) {
      address = &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    } else {
      const in6_addr& ipv6 = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&ipv6)) continue;
      address = &ipv6;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (inet_ntop(family, address, text.data(), text.size()) != nullptr) found = text.data();
  }
  freeifaddrs(list);
  return found;
}

std::optional<AdvertiseHost> FromInterface(const std::optional<std::string>& interface_name,
                                           int family) {
  if (!interface_name) return std::nullopt;
  const std::optional<std::string> address = AddressOf(*interface_name, family);
  if (!address) return std::nullopt;
  return AdvertiseHost{*address, "address of " + *interface_name + ", which has the default route"};
}

}  // namespace

// Columns: interface destination gateway flags refcount use metric mask; addresses and flags in
// hexadecimal.
std::optional<std::string> DefaultInterfaceIpv4(std::string_view route_table) {
  BestRoute best;
  for (const std::vector<std::string>& row : Table(route_table)) {
    if (row.size() < 8 || row[1] != "00000000" || row[7] != "00000000") continue;
    const auto flags = ParseNumber(row[3], 16);
    const auto metric = ParseNumber(row[6], 10);
    if (flags && metric) best.Offer(row[0], *flags, *metric);
  }
  return best.interface_name;
}

// Columns: destination its_prefix source its_prefix next_hop metric refcount use flags interface;
// all hexadecimal.
std::optional<std::string> DefaultInterfaceIpv6(std::string_view route_table) {
  BestRoute best;
  for (const std::vector<std::string>& row : Table(route_table)) {
    if (row.size() < 10 || row[0] != std::string(32, '0') || row[1] != "00") continue;
    const auto flags = ParseNumber(row[8], 16);
    const auto metric = ParseNumber(row[5], 16);
    if (flags && metric) best.Offer(row[9], *flags, *metric);
  }
  return best.interface_name;
}

AdvertiseHost FindAdvertiseHost(const std::string& bind_address) {
  if (!IsWildcardAddress(bind_address)) {
    return AdvertiseHost{bind_address, "bind_address, the only one that listens"};
  }
  if (auto host = FromInterface(DefaultInterfaceIpv4(ReadAll("/proc/net/route")), AF_INET)) {
    return *host;
  }
  if (auto host = FromInterface(DefaultInterfaceIpv6(ReadAll("/proc/net/ipv6_route")), AF_INET6)) {
    return *host;
  }
  return AdvertiseHost{"127.0.0.1", "no default route, so only this machine can be a client"};
}

}  // namespace dovetail::config
