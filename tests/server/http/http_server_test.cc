#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/server/http/raw_client.h"

namespace dovetail::server {
namespace {

std::string Exchange(int port, std::string_view request) {
  RawClient client(port);
  if (!client.connected()) return "not connected";
  client.Send(request);
  return client.ReadAll();
}

std::string Get(int port, const std::string& path) {
  return Exchange(port, "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
}

int StatusOf(const std::string& reply) {
  if (!reply.starts_with("HTTP/1.1 ") || reply.size() < 12) return -1;
  return std::atoi(reply.c_str() + 9);
}

std::string BodyOf(const std::string& reply) {
  const size_t end = reply.find("\r\n\r\n");
  return end == std::string::npos ? "" : reply.substr(end + 4);
}

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override {
    server_.Route("/page", [this] {
      ++calls_;
      return HttpReply{.body = "hello\n"};
    });
    server_.Route("/sick", [] { return HttpReply{.status = 503, .body = "not ready\n"}; });
    server_.Route("/large", [this] { return HttpReply{.body = large_}; });
    options_.bind_address = "127.0.0.1";
  }

  void Start() {
    const Status started = server_.Start(options_);
    ASSERT_TRUE(started.has_value()) << server_.start_failure();
    ASSERT_GT(server_.port(), 0);
  }

  HttpServerOptions options_;
  std::atomic<int> calls_ = 0;
  std::string large_ = std::string(16 << 20, 'x');
  // Last, so that its threads end before what the handlers use.
  HttpServer server_;
};

TEST_F(HttpServerTest, ServesAPageWithItsLengthAndType) {
  Start();
  const std::string reply = Get(server_.port(), "/page");
  EXPECT_EQ(StatusOf(reply), 200);
  EXPECT_EQ(BodyOf(reply), "hello\n");
  EXPECT_NE(reply.find("Content-Length: 6\r\n"), std::string::npos);
  EXPECT_NE(reply.find("Content-Type: text/plain; charset=utf-8\r\n"), std::string::npos);
  EXPECT_NE(reply.find("Connection: close\r\n"), std::string::npos);
}

TEST_F(HttpServerTest, PassesOnTheHandlersStatus) {
  Start();
  const std::string reply = Get(server_.port(), "/sick");
  EXPECT_EQ(StatusOf(reply), 503);
  EXPECT_EQ(BodyOf(reply), "not ready\n");
}

TEST_F(HttpServerTest, AQueryDoesNotChangeThePage) {
  Start();
  EXPECT_EQ(BodyOf(Get(server_.port(), "/page?name[]=a%00")), "hello\n");
}

TEST_F(HttpServerTest, HeadHasTheHeadersOfGetAndNoBody) {
  Start();
  const std::string reply = Exchange(server_.port(), "HEAD /page HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(StatusOf(reply), 200);
  EXPECT_NE(reply.find("Content-Length: 6\r\n"), std::string::npos);
  EXPECT_EQ(BodyOf(reply), "");
  EXPECT_EQ(calls_, 1);
}

TEST_F(HttpServerTest, OtherPathsAreNotFound) {
  Start();
  for (const char* path :
       {"/", "/page/", "/pag", "/pagee", "/PAGE", "/./pag", "/%70age", "/page%00", "/page;a",
        "/../../etc/passwd", "/etc/passwd", "/./", "/index.html", "/page.cgi/x"}) {
    EXPECT_EQ(StatusOf(Get(server_.port(), path)), 404) << path;
  }
  EXPECT_EQ(calls_, 0);
}

TEST_F(HttpServerTest, NoFileOfTheWorkingDirectoryIsServed) {
  Start();
  const auto entry = *std::filesystem::directory_iterator(std::filesystem::current_path());
  EXPECT_EQ(StatusOf(Get(server_.port(), "/" + entry.path().filename().string())), 404);
}

TEST_F(HttpServerTest, OtherMethodsAreNotAllowed) {
  Start();
  for (const std::string method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const std::string reply = Exchange(
        server_.port(), method + " /page HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    EXPECT_EQ(StatusOf(reply), 405) << method;
    EXPECT_NE(reply.find("Allow: GET, HEAD\r\n"), std::string::npos) << method;
  }
  EXPECT_EQ(calls_, 0);
}

TEST_F(HttpServerTest, UpgradesAndPreflightsAreNotServed) {
  Start();
  const std::string upgrade =
      Exchange(server_.port(),
               "GET /socket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n");
  EXPECT_EQ(StatusOf(upgrade), 404);
  const std::string preflight =
      Exchange(server_.port(),
               "OPTIONS /page HTTP/1.1\r\nHost: x\r\nOrigin: http://evil\r\n"
               "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(StatusOf(preflight), 405);
}

TEST_F(HttpServerTest, JunkIsRefusedAndTheServerGoesOn) {
  options_.request_timeout_ms = 300;
  Start();
  const std::vector<std::string> junk = {
      "\r\n\r\n",
      "GET\r\n\r\n",
      "GET /page\r\n\r\n",
      "/page HTTP/1.1\r\n\r\n",
      "GET /page HTTP/9.9\r\n\r\n",
      "GET  /page HTTP/1.1\r\n\r\n",
      "GET page HTTP/1.1\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
      "OPTIONS * HTTP/1.0\r\n\r\n",
      "GET * HTTP/1.1\r\nHost: x\r\n\r\n",
      "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET http://other/page HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET http:// HTTP/1.1\r\n\r\n",
      "BREW /page HTTP/1.1\r\n\r\n",
      "GET /page HTTP/1.1\r\nno colon\r\n\r\n",
      "GET /page HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
      "GET /page HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
      "GET /page HTTP/1.1\r\nContent-Length: x\r\n\r\n",
      "GET /page HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
      std::string("GET /\0 HTTP/1.1\r\n\r\n", 19),
      std::string(64, '\0'),
      std::string(64, '\xff') + "\r\n\r\n",
  };
  for (size_t i = 0; i < junk.size(); ++i) {
    RawClient client(server_.port());
    ASSERT_TRUE(client.connected());
    client.Send(junk[i]);
    bool closed = false;
    (void)client.ReadAll(&closed);
    EXPECT_TRUE(closed) << "kept open: " << i;
    EXPECT_EQ(StatusOf(Get(server_.port(), "/page")), 200) << "after: " << i;
  }
}

TEST_F(HttpServerTest, HeadersBeyondTheLimitAreRefused) {
  options_.request_bytes_max = 4096;
  options_.request_timeout_ms = 60'000;
  Start();
  const std::string fits = std::string(2000, 'a');
  EXPECT_EQ(StatusOf(Exchange(server_.port(), "GET /page HTTP/1.1\r\nX: " + fits + "\r\n\r\n")),
            200);
  EXPECT_EQ(calls_, 1);
  // Without an end, so that only the limit can end it; sending may fail once it is refused.
  RawClient client(server_.port());
  client.Send("GET /page HTTP/1.1\r\nX: ");
  client.Send(std::string(1 << 20, 'a'));
  bool closed = false;
  const std::string reply = client.ReadAll(&closed);
  EXPECT_TRUE(closed);
  EXPECT_NE(StatusOf(reply), 200);
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(StatusOf(Get(server_.port(), "/page")), 200);
}

TEST_F(HttpServerTest, MoreHeadersThanAnyoneNeedsDoNoHarm) {
  Start();
  std::string many = "GET /page HTTP/1.1\r\n";
  for (int i = 0; i < 1000; ++i) many += "A: b\r\n";
  EXPECT_GT(StatusOf(Exchange(server_.port(), many + "\r\n")), 0);
  EXPECT_EQ(StatusOf(Get(server_.port(), "/page")), 200);
}

TEST_F(HttpServerTest, ClientsThatNeverFinishTheirRequestAreClosed) {
  options_.request_timeout_ms = 300;
  Start();
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 12; ++i) {
    slow.push_back(std::make_unique<RawClient>(server_.port()));
    ASSERT_TRUE(slow.back()->connected());
    if (i % 2 == 0) slow.back()->Send("GET /page HTT");
  }
  // More than there are threads, and yet this one is served when they are gone.
  EXPECT_EQ(StatusOf(Get(server_.port(), "/page")), 200);
  for (auto& client : slow) {
    bool closed = false;
    (void)client->ReadAll(&closed);
    EXPECT_TRUE(closed);
  }
  EXPECT_EQ(calls_, 1);
}

// One byte now and then must not keep a request alive beyond its time.
TEST_F(HttpServerTest, ATricklingRequestIsClosed) {
  options_.request_timeout_ms = 300;
  Start();
  RawClient client(server_.port());
  client.Send("GET /page HTTP/1.1\r\nX: ");
  bool sent = true;
  for (int i = 0; i < 600 && sent; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    sent = client.Send("a");
  }
  EXPECT_FALSE(sent);
}

// A body is never waited for: the reply comes at once and the connection ends.
TEST_F(HttpServerTest, ABodyThatNeverComesHoldsNothing) {
  options_.request_timeout_ms = 60'000;
  Start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_.port()));
    clients.back()->Send("GET /page HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nabc");
  }
  for (auto& client : clients) {
    bool closed = false;
    EXPECT_EQ(StatusOf(client->ReadAll(&closed)), 200);
    EXPECT_TRUE(closed);
  }
}

TEST_F(HttpServerTest, LargeRepliesArriveWhole) {
  Start();
  const std::string reply = Get(server_.port(), "/large");
  EXPECT_EQ(BodyOf(reply).size(), large_.size());
}

TEST_F(HttpServerTest, ClientsThatDoNotReadOrGoAwayHarmNobody) {
  options_.request_timeout_ms = 300;
  Start();
  std::vector<std::unique_ptr<RawClient>> stuck;
  for (int i = 0; i < 8; ++i) {
    stuck.push_back(std::make_unique<RawClient>(server_.port(), 4096));
    stuck.back()->Send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  for (int i = 0; i < 8; ++i) {
    RawClient gone(server_.port());
    gone.Send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    gone.Close();
  }
  EXPECT_EQ(StatusOf(Get(server_.port(), "/page")), 200);
}

TEST_F(HttpServerTest, ManyClientsAtOnce) {
  Start();
  std::atomic<int> good = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      for (int j = 0; j < 25; ++j) {
        if (BodyOf(Get(server_.port(), "/page")) == "hello\n") ++good;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 200);
  EXPECT_EQ(calls_, 200);
}

TEST_F(HttpServerTest, APortThatIsTakenIsAnErrorWithItsReason) {
  Start();
  HttpServer second;
  const Status started = second.Start({.bind_address = "127.0.0.1", .port = server_.port()});
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().code, ErrorCode::kBusy);
  EXPECT_EQ(started.error().os_error, EADDRINUSE);
  EXPECT_NE(second.start_failure().find(std::to_string(server_.port())), std::string::npos)
      << second.start_failure();
  EXPECT_EQ(second.port(), 0);
  // The first is unharmed, and the second gets the port when it is free.
  EXPECT_EQ(StatusOf(Get(server_.port(), "/page")), 200);
  const int port = server_.port();
  server_.Stop();
  const Status again = second.Start({.bind_address = "127.0.0.1", .port = port});
  EXPECT_TRUE(again.has_value()) << second.start_failure();
}

TEST_F(HttpServerTest, AddressesThatCannotBeListenedOnAreErrors) {
  for (const char* address : {"", "127.0.0.1,0.0.0.0", "0.0.0.0:1", "127.0.0.1 ", "+", "192.0.2.1",
                              "no-such-host.invalid"}) {
    const Status started = server_.Start({.bind_address = address});
    ASSERT_FALSE(started.has_value()) << address;
    EXPECT_FALSE(server_.start_failure().empty()) << address;
  }
  for (const int64_t port : {-1, 65'536}) {
    EXPECT_FALSE(server_.Start({.bind_address = "127.0.0.1", .port = port}).has_value()) << port;
  }
  Start();
  EXPECT_EQ(StatusOf(Get(server_.port(), "/page")), 200);
}

// Debian's civetweb has no IPv6: then the refusal must say so; where it has, it must work.
TEST_F(HttpServerTest, AnIpv6AddressWorksOrIsRefusedWithTheReason) {
  const Status started = server_.Start({.bind_address = "::1"});
  if (!started.has_value()) {
    EXPECT_EQ(started.error().code, ErrorCode::kUnsupported) << server_.start_failure();
    EXPECT_NE(server_.start_failure().find("IPv6"), std::string::npos);
    return;
  }
  const int client = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  address.sin6_port = htons(static_cast<uint16_t>(server_.port()));
  EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(client);
}

TEST_F(HttpServerTest, StopWaitsForTheHandlersAndCanBeRepeated) {
  std::atomic<bool> inside = false;
  std::atomic<bool> finished = false;
  server_.Route("/slow", [&] {
    inside = true;
    inside.notify_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    finished = true;
    return HttpReply{};
  });
  Start();
  const int port = server_.port();
  RawClient client(port);
  client.Send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
  inside.wait(false);
  server_.Stop();
  EXPECT_TRUE(finished);
  EXPECT_EQ(server_.port(), 0);
  EXPECT_FALSE(RawClient(port).connected());
  server_.Stop();
}

}  // namespace
}  // namespace dovetail::server
