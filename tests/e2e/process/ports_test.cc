// Ports and addresses that cannot be had: exit code 4 and a message that says which and what to do.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/e2e/process/daemon_process.h"

namespace dovetail::e2e {
namespace {

// A listening socket of somebody else.
class TakenPort {
 public:
  TakenPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, generic, size), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    EXPECT_EQ(getsockname(socket_, generic, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { close(socket_); }

  std::string text() const { return std::to_string(port_); }

 private:
  int socket_;
  int port_ = 0;
};

// Exit code 4, and all of these in the log.
void ExpectRefused(const Settings& settings, const std::vector<std::string>& said) {
  DaemonProcess daemon(settings);
  EXPECT_EQ(daemon.process().Wait(std::chrono::seconds(60)), 4) << daemon.Log();
  EXPECT_EQ(daemon.Log().find("ready: "), std::string::npos);
  for (const std::string& text : said) {
    EXPECT_NE(daemon.Log().find(text), std::string::npos) << text << " is not in\n" << daemon.Log();
  }
}

TEST(PortsTest, GrpcPortIsTaken) {
  const TakenPort taken;
  ExpectRefused({"grpc_port=" + taken.text()},
                {"start refused", "gRPC", "127.0.0.1:" + taken.text(), "set grpc_port"});
}

TEST(PortsTest, HttpPortIsTaken) {
  const TakenPort taken;
  ExpectRefused({"http_port=" + taken.text()},
                {"start refused", "HTTP", taken.text(), "http_port"});
}

TEST(PortsTest, AddressOfAnotherMachine) {
  // A documentation address: no machine has it. The last --set of a key counts.
  ExpectRefused({"bind_address=192.0.2.55", "advertise_host=127.0.0.1"},
                {"start refused", "192.0.2.55", "bind_address"});
  ExpectRefused({"bind_address=192.0.2.55", "advertise_host=127.0.0.1", "grpc_port=19999"},
                {"start refused", "192.0.2.55", "bind_address"});
}

TEST(PortsTest, TwoDaemonsOnOnePort) {
  auto first = DaemonProcess::Start();
  ASSERT_TRUE(first);
  ExpectRefused({"grpc_port=" + std::to_string(first->grpc_port())}, {"start refused", "gRPC"});
  ExpectRefused({"http_port=" + std::to_string(first->http_port())}, {"start refused", "HTTP"});
  EXPECT_EQ(first->Get("/readyz").status, 200) << "the first is unharmed";
  EXPECT_EQ(first->Stop(), 0);
}

TEST(PortsTest, AreFreeAgainAtOnce) {
  auto first = DaemonProcess::Start();
  ASSERT_TRUE(first);
  const Settings same = {"grpc_port=" + std::to_string(first->grpc_port()),
                         "http_port=" + std::to_string(first->http_port())};
  // Connections of the first that linger must not be in the way.
  EXPECT_EQ(first->Get("/readyz").status, 200);
  EXPECT_EQ(first->Stop(), 0);
  auto second = DaemonProcess::Start(same);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->grpc_port(), first->grpc_port());
  EXPECT_EQ(second->Stop(), 0);
}

TEST(PortsTest, ManyDaemonsOnFreePorts) {
  std::vector<std::unique_ptr<DaemonProcess>> daemons;
  for (int i = 0; i < 8; ++i) daemons.push_back(std::make_unique<DaemonProcess>(Settings()));
  for (auto& daemon : daemons) EXPECT_TRUE(daemon->WaitReady()) << daemon->Log();
  for (auto& daemon : daemons) EXPECT_EQ(daemon->Stop(), 0);
}

}  // namespace
}  // namespace dovetail::e2e
