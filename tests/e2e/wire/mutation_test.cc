// Thousands of damaged requests for every method, from a fixed seed. The daemon answers each with a
// defined status, stays up, and nothing is left in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/e2e/wire/methods.h"

namespace dovetail::e2e {
namespace {

constexpr int kMutationsPerMethod = 900;

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string Mutate(std::string bytes) {
    for (uint32_t change = 0; change <= random_() % 3; ++change) Change(bytes);
    return bytes;
  }

 private:
  size_t At(const std::string& bytes) { return bytes.empty() ? 0 : random_() % bytes.size(); }

  char Byte() {
    constexpr char kEdges[] = {'\0', '\x01', '\x7f', '\x80', '\xff', '\x08', '\x0a', '\x0b'};
    return random_() % 2 == 0 ? kEdges[random_() % sizeof(kEdges)] : static_cast<char>(random_());
  }

  void Change(std::string& bytes) {
    const size_t at = At(bytes);
    switch (random_() % 7) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ 1 << random_() % 8);
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = Byte();
        break;
      case 2:
        bytes.erase(at, random_() % 8 + 1);
        break;
      case 3:
        bytes.insert(at, random_() % 12 + 1, Byte());
        break;
      case 4:
        bytes.resize(at);
        break;
      case 5:
        bytes.insert(At(bytes), bytes.substr(at, random_() % 64));
        break;
      default:
        // A varint of ten bytes: the largest number there is.
        bytes.insert(at, std::string(9, '\xff') + '\x01');
    }
  }

  std::mt19937 random_;
};

class MutationTest : public DaemonSuite<MutationTest> {
 public:
  static Settings MakeSettings() {
    return {"memory_store.capacity=64M", "memory_store.require_wait_ms=0"};
  }

 protected:
  void Begin() {
    target_ = NewTarget();
    ASSERT_EQ(client().Register(target_, 4), wire::SUCCESS);
    EXPECT_EQ(client().Store(target_, {MakeBlocks(1, 0, 5, 100)}), wire::SUCCESS);
  }

  void End() {
    for (const std::string& app : begun_) client().UnregisterApp(app);
    begun_.clear();
    client().UnregisterAll();
  }

  std::string Request(const MethodRule& method) {
    if (!method.path.ends_with("sendShuffleData")) return method.make(target_, 1);
    const std::vector<wire::ShuffleData> groups = {MakeBlocks(1, 10, 2, 60),
                                                   MakeBlocks(2, 3, 1, 9)};
    return MakeSend(target_, client().Ticket(target_, TicketBytes(groups) + 8), groups)
        .SerializeAsString();
  }

  // A damaged registration may still be one, of whatever name.
  void Remember(const MethodRule& method, const std::string& bytes) {
    wire::ShuffleRegisterRequest request;
    if (method.path.ends_with("registerShuffle") && request.ParseFromString(bytes)) {
      begun_.insert(request.appid());
    }
  }

  Target target_;
  std::set<std::string> begun_;
};

TEST_F(MutationTest, ShuffleServer) {
  Mutator mutator(1);
  const std::set<wire::StatusCode> defined = {
      wire::SUCCESS,        wire::NO_BUFFER,       wire::NO_REGISTER,
      wire::INTERNAL_ERROR, wire::INVALID_REQUEST, wire::INTERNAL_NOT_RETRY_ERROR};
  int refused = 0;
  for (const MethodRule& method : ShuffleMethods()) {
    for (int i = 0; i < kMutationsPerMethod; ++i) {
      if (i % 100 == 0) {
        End();
        Begin();
      }
      const std::string bytes = mutator.Mutate(Request(method));
      const RawAnswer answer = client().Raw(method.path, bytes);
      Remember(method, bytes);
      ASSERT_TRUE(answer.status.ok()) << method.path << " " << answer.status.error_message();
      const wire::StatusCode status = method.status(answer.bytes);
      ASSERT_TRUE(defined.contains(status)) << method.path;
      if (status == wire::INVALID_REQUEST) ++refused;
    }
  }
  End();
  EXPECT_GT(refused, 1000);
}

std::vector<std::pair<std::string, std::string>> CoordinatorRequests() {
  wire::ShuffleServerHeartBeatRequest heartbeat;
  heartbeat.mutable_serverid()->set_id("server-1");
  heartbeat.mutable_serverid()->set_ip("127.0.0.1");
  heartbeat.mutable_serverid()->set_port(1);
  heartbeat.add_tags("ss_v5");
  heartbeat.set_status(wire::UNHEALTHY);
  heartbeat.set_version("0.9.2");
  (*heartbeat.mutable_storageinfo())["/data"].set_capacity(1);
  wire::GetShuffleServerRequest assignment;
  assignment.set_applicationid("app");
  assignment.set_partitionnum(10);
  assignment.set_partitionnumperrange(1);
  assignment.set_datareplica(1);
  assignment.add_requiretags("ss_v5");
  assignment.add_faultyserverids("server-2");
  wire::ApplicationInfoRequest info;
  info.set_appid("app");
  info.set_user("user");
  wire::AccessClusterRequest access;
  access.add_tags("ss_v5");
  (*access.mutable_extraproperties())["a"] = "b";
  wire::FetchClientConfRequest settings;
  settings.set_user("user");
  (*settings.mutable_properties())["a"] = "b";
  wire::ReportShuffleClientOpRequest operation;
  operation.set_operation("x");
  operation.mutable_server()->set_port(2);
  return {{"heartbeat", heartbeat.SerializeAsString()},
          {"getShuffleAssignments", assignment.SerializeAsString()},
          {"fetchClientConf", "x"},
          {"fetchClientConfV2", settings.SerializeAsString()},
          {"fetchRemoteStorage", info.SerializeAsString()},
          {"registerApplicationInfo", info.SerializeAsString()},
          {"appHeartbeat", info.SerializeAsString()},
          {"accessCluster", access.SerializeAsString()},
          {"getShuffleServerList", "x"},
          {"getShuffleServerNum", "x"},
          {"checkServiceAvailable", "x"},
          {"reportClientOperation", operation.SerializeAsString()}};
}

TEST_F(MutationTest, Coordinator) {
  Mutator mutator(2);
  for (const auto& [name, request] : CoordinatorRequests()) {
    for (int i = 0; i < kMutationsPerMethod / 3; ++i) {
      const RawAnswer answer =
          client().Raw("/rss.common.CoordinatorServer/" + name, mutator.Mutate(request));
      ASSERT_TRUE(answer.status.ok()) << name << " " << answer.status.error_message();
    }
  }
  // It still knows its own server, which is still the one that fits.
  wire::GetShuffleServerRequest assignment;
  assignment.set_applicationid("app");
  assignment.set_partitionnum(1);
  assignment.set_partitionnumperrange(1);
  assignment.set_datareplica(1);
  assignment.add_requiretags("GRPC");
  const auto response =
      client().AskCoordinator(&wire::CoordinatorServer::Stub::getShuffleAssignments, assignment);
  ASSERT_EQ(response.status(), wire::SUCCESS) << response.retmsg();
  EXPECT_EQ(response.assignments(0).server(0).port(), daemon().grpc_port());
}

}  // namespace
}  // namespace dovetail::e2e
