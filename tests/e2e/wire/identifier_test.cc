// Identifiers are hostile strings: no path, no prefix match, no collision of different ids.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/e2e/wire/methods.h"
#include "tests/e2e/wire/reader.h"

namespace dovetail::e2e {
namespace {

class IdentifierTest : public DaemonSuite<IdentifierTest> {
 public:
  static Settings MakeSettings() { return {"memory_store.capacity=64M", "log.log_level=DEBUG"}; }
};

std::vector<std::string> HostileIds() {
  return {"app",
          "app/",
          "app_1",
          "app_10",
          "application_1_0001_a",
          "application_1_0001_b",
          "application_1_1_a",
          "APP",
          " app",
          "app ",
          ".",
          "..",
          "../../etc/passwd",
          "/",
          "//",
          "/app",
          "%2e%2e%2f",
          "*",
          "app*",
          "a\nb",
          "a\r\nb",
          "\x01\x7f",
          "{}",
          "%s%n",
          "\"quoted\\\"",
          "-1",
          "null",
          "\xc3\xa9",          // é composed
          "e\xcc\x81",         // and decomposed: another string
          "\xf0\x9f\x83\x8f",  // outside the basic plane
          std::string(255, 'x'),
          std::string(254, 'x') + "y",
          std::string(254, 'x')};
}

TEST_F(IdentifierTest, EachIsItsOwn) {
  const std::vector<std::string> ids = HostileIds();
  const auto bytes_of = [](size_t i) { return i + 1; };
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(client().Register({ids[i], 3}, 2), wire::SUCCESS) << i;
    ASSERT_EQ(client().Store({ids[i], 3}, {MakeBlocks(1, 0, 1, bytes_of(i))}), wire::SUCCESS) << i;
  }
  EXPECT_EQ(Metric("dovetail_apps"), static_cast<double>(ids.size()));
  // Ended one by one: each time only that one is gone.
  for (size_t gone = 0; gone < ids.size(); ++gone) {
    ASSERT_EQ(client().UnregisterApp(ids[gone]), wire::SUCCESS);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto page = ReadPage(client(), {.target = {ids[i], 3}, .partition = 1, .filter = {}});
      ASSERT_EQ(page.status(), i <= gone ? wire::NO_REGISTER : wire::SUCCESS) << i << " " << gone;
      ASSERT_EQ(page.data().size(), i <= gone ? 0 : bytes_of(i));
    }
  }
}

TEST_F(IdentifierTest, ShufflesAndPartitionsToo) {
  const std::string app = NewTarget().app;
  const std::vector<int32_t> numbers = {0, 1, 10, 11, 110, INT32_MAX};
  for (const int32_t shuffle : numbers) {
    wire::ShuffleRegisterRequest request;
    request.set_appid(app);
    request.set_shuffleid(shuffle);
    request.add_partitionranges()->set_end(INT32_MAX);
    ASSERT_EQ(client().Register(request), wire::SUCCESS);
    for (const int32_t partition : numbers) {
      const int64_t id = BlockId(1, shuffle % 1000, partition % 1000);
      ASSERT_EQ(client().Store({app, shuffle}, {MakeGroup(partition, {MakeBlock(id, 50)})}),
                wire::SUCCESS);
    }
  }
  EXPECT_EQ(client().Unregister({app, 11}), wire::SUCCESS);
  for (const int32_t shuffle : numbers) {
    for (const int32_t partition : numbers) {
      const auto page =
          ReadPage(client(), {.target = {app, shuffle}, .partition = partition, .filter = {}});
      ASSERT_EQ(page.status(), shuffle == 11 ? wire::NO_REGISTER : wire::SUCCESS);
      if (shuffle == 11) continue;
      ASSERT_EQ(page.shuffledatablocksegments_size(), 1);
      EXPECT_EQ(page.shuffledatablocksegments(0).blockid(),
                BlockId(1, shuffle % 1000, partition % 1000));
    }
  }
}

// Text that is no UTF-8 is no protobuf string: refused by every method, and nothing begins.
TEST_F(IdentifierTest, NoUtf8) {
  for (const std::string bad : {"\xff", "a\xc3", "\xed\xa0\x80"}) {
    for (const MethodRule& method : ShuffleMethods()) {
      std::string bytes = method.make({"@", 1}, 0);
      bytes.replace(bytes.find("\x01@"), 2, std::string(1, static_cast<char>(bad.size())) + bad);
      const RawAnswer answer = client().Raw(method.path, bytes);
      ASSERT_TRUE(answer.status.ok()) << method.path;
      const wire::StatusCode status = method.status(answer.bytes);
      EXPECT_TRUE(status == wire::INVALID_REQUEST || status == wire::NO_REGISTER) << method.path;
    }
  }
  EXPECT_EQ(Metric("dovetail_apps"), 0);
}

// A line break in a name does not make a line of its own in the log.
TEST_F(IdentifierTest, CannotForgeTheLog) {
  const std::string forged = "x\n2026-01-01T00:00:00.000+00:00 error forged";
  client().Register({forged, 0}, 1);
  wire::ShuffleServerHeartBeatRequest heartbeat;
  heartbeat.mutable_serverid()->set_id(forged);
  heartbeat.mutable_serverid()->set_ip(forged);
  heartbeat.mutable_serverid()->set_port(1);
  heartbeat.mutable_ishealthy()->set_value(false);
  heartbeat.add_tags(forged);
  client().AskCoordinator(&wire::CoordinatorServer::Stub::heartbeat, heartbeat);
  EXPECT_TRUE(daemon().WaitLog("forged")) << "the server is logged as new";
  EXPECT_EQ(daemon().Log().find("\n2026-01-01T00:00:00.000+00:00 error"), std::string::npos);
}

}  // namespace
}  // namespace dovetail::e2e
