// Every field unset, every list empty, any order of calls: a defined status, never a bare error.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/e2e/wire/methods.h"
#include "tests/e2e/wire/reader.h"

namespace dovetail::e2e {
namespace {

class AnyOrderTest : public DaemonSuite<AnyOrderTest> {
 public:
  static Settings MakeSettings() {
    return {"memory_store.capacity=64M", "memory_store.require_wait_ms=0"};
  }
};

const std::string kCoordinator = "/rss.common.CoordinatorServer/";

// Field number and value of the status that a coordinator's method gives to an empty message.
struct CoordinatorRule {
  const char* name;
  uint32_t field;
  wire::StatusCode status;
};

constexpr CoordinatorRule kCoordinatorRules[] = {
    {"heartbeat", 1, wire::INVALID_REQUEST},
    {"getShuffleAssignments", 1, wire::INVALID_REQUEST},
    {"fetchClientConf", 1, wire::SUCCESS},
    {"fetchClientConfV2", 1, wire::SUCCESS},
    {"fetchRemoteStorage", 1, wire::SUCCESS},
    {"registerApplicationInfo", 1, wire::INVALID_REQUEST},
    {"appHeartbeat", 1, wire::INVALID_REQUEST},
    {"accessCluster", 1, wire::SUCCESS},
    {"checkServiceAvailable", 1, wire::SUCCESS},
    {"reportClientOperation", 1, wire::SUCCESS},
};

// All these answers have their status in field 1, a varint below 128, in front when it is not 0.
wire::StatusCode FirstField(const std::string& bytes) {
  return bytes.size() >= 2 && bytes[0] == 8 ? static_cast<wire::StatusCode>(bytes[1])
                                            : wire::SUCCESS;
}

TEST_F(AnyOrderTest, NothingSetInAnyOrder) {
  std::mt19937 random(20);
  std::vector<MethodRule> methods = ShuffleMethods();
  for (int round = 0; round < 20; ++round) {
    std::ranges::shuffle(methods, random);
    for (const MethodRule& method : methods) {
      EXPECT_EQ(CallBytes(client(), method, ""), wire::INVALID_REQUEST) << method.path;
    }
    for (const CoordinatorRule& rule : kCoordinatorRules) {
      const RawAnswer answer = client().Raw(kCoordinator + rule.name, "");
      EXPECT_TRUE(answer.status.ok()) << rule.name << " " << answer.status.error_message();
      EXPECT_EQ(FirstField(answer.bytes), rule.status) << rule.name;
    }
  }
}

TEST_F(AnyOrderTest, MethodsWithoutAStatus) {
  wire::GetShuffleServerNumResponse number;
  RawAnswer answer = client().Raw(kCoordinator + "getShuffleServerNum", "");
  ASSERT_TRUE(answer.status.ok() && number.ParseFromString(answer.bytes));
  EXPECT_EQ(number.num(), 1);
  wire::GetShuffleServerListResponse list;
  answer = client().Raw(kCoordinator + "getShuffleServerList", "");
  ASSERT_TRUE(answer.status.ok() && list.ParseFromString(answer.bytes));
  ASSERT_EQ(list.servers_size(), 1);
  EXPECT_EQ(list.servers(0).port(), daemon().grpc_port());
}

TEST_F(AnyOrderTest, WhatIsNotOffered) {
  for (const char* path : {"/rss.common.CoordinatorServer/getShuffleDataStorageInfo",
                           "/rss.common.ShuffleServerInternal/decommission",
                           "/rss.common.ShuffleServerInternal/cancelDecommission",
                           "/rss.common.ShuffleManager/reportShuffleFetchFailure",
                           "/rss.common.ShuffleServer/noSuchMethod", "/rss.common.ShuffleServer/",
                           "/other.Service/sendShuffleData", "/"}) {
    for (const std::string& bytes : {std::string(), std::string("\x0a\x01x"), std::string(99, 0)}) {
      const RawAnswer answer = client().Raw(path, bytes);
      EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << path;
    }
  }
}

// Each field of each request left out in turn, the others well-formed.
TEST_F(AnyOrderTest, OneFieldUnset) {
  const Target target = Registered(4);
  EXPECT_EQ(client().Store(target, {MakeBlocks(1, 0, 3, 100)}), wire::SUCCESS);
  const std::set<wire::StatusCode> defined = {wire::SUCCESS, wire::NO_REGISTER,
                                              wire::INTERNAL_ERROR, wire::INVALID_REQUEST};
  for (const MethodRule& method : ShuffleMethods()) {
    if (method.path.find("unregister") != std::string::npos) continue;
    const std::string bytes = method.make(target, 1);
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
      // Cut at every place: where that is between two fields the rest of them is unset.
      const RawAnswer answer = client().Raw(method.path, bytes.substr(0, cut));
      ASSERT_TRUE(answer.status.ok()) << method.path << " " << cut;
      EXPECT_TRUE(defined.contains(method.status(answer.bytes))) << method.path << " " << cut;
    }
  }
}

// What a client could do in any order, over few names so that calls meet.
class Wanderer {
 public:
  Wanderer(WireClient& client, uint32_t seed) : client_(client), random_(seed) {}

  wire::StatusCode Step() {
    const Target target{"wanderer-" + std::to_string(Any(2)), Any(2)};
    switch (Any(12)) {
      case 0:
        return client_.Register(target, Any(3));
      case 1: {
        const wire::RequireBufferResponse response = client_.Require(target, Any(5000));
        if (response.status() == wire::SUCCESS) tickets_.push_back(response.requirebufferid());
        return response.status();
      }
      case 2:
      case 3:
      case 4: {
        const int64_t ticket =
            tickets_.empty()
                ? 0
                : tickets_[static_cast<size_t>(Any(static_cast<int>(tickets_.size())))];
        return client_
            .Send(MakeSend(target, ticket,
                           {MakeBlocks(Any(3), Any(50), Any(4), static_cast<size_t>(Any(300)))}))
            .status();
      }
      case 5:
        return client_.Unregister(target);
      default: {
        const std::vector<MethodRule>& methods = ShuffleMethods();
        const auto method = static_cast<size_t>(Any(static_cast<int>(methods.size())));
        return Call(client_, methods[method], target, Any(3));
      }
    }
  }

 private:
  int Any(int below) { return static_cast<int>(random_() % static_cast<uint32_t>(below)); }

  WireClient& client_;
  std::mt19937 random_;
  std::vector<int64_t> tickets_;
};

TEST_F(AnyOrderTest, CallsInAnyOrder) {
  Wanderer wanderer(client(), 7);
  std::map<wire::StatusCode, int> seen;
  for (int step = 0; step < 5000; ++step) ++seen[wanderer.Step()];
  // The walk must have met every kind of answer, or it shows nothing.
  for (const wire::StatusCode status :
       {wire::SUCCESS, wire::NO_REGISTER, wire::INTERNAL_ERROR, wire::INVALID_REQUEST}) {
    EXPECT_GT(seen[status], 20) << wire::StatusCode_Name(status);
    seen.erase(status);
  }
  EXPECT_TRUE(seen.empty()) << wire::StatusCode_Name(seen.begin()->first);
}

}  // namespace
}  // namespace dovetail::e2e
