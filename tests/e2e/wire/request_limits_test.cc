// Requests that are small on the wire and large as objects, or large and no sends: every method
// refuses them with a status of its own, and the daemon's memory does not follow them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/e2e/wire/methods.h"

namespace dovetail::e2e {
namespace {

constexpr size_t kRequestBytesMax = 32 << 20;
constexpr size_t kEntriesMax = 1 << 20;

class RequestLimitsTest : public DaemonSuite<RequestLimitsTest> {
 public:
  static Settings MakeSettings() { return {"memory_store.capacity=64M"}; }

 protected:
  static bool IsSend(const MethodRule& method) {
    return method.path.find("sendShuffleData") != std::string::npos;
  }
  static std::string Times(size_t count, const std::string& bytes) {
    std::string all;
    for (size_t i = 0; i < count; ++i) all += bytes;
    return all;
  }
};

TEST_F(RequestLimitsTest, OnlySendsMayBeLarge) {
  const Target target = Registered(1);
  // An unknown field of text: well-formed, and of no meaning.
  const std::string padding =
      std::string("\xfa\x7f\x80\x80\x80\x10", 6) + std::string(kRequestBytesMax, 'x');
  for (const MethodRule& method : ShuffleMethods()) {
    const std::string bytes = method.make(target, 0) + padding;
    EXPECT_EQ(CallBytes(client(), method, bytes),
              IsSend(method) ? wire::INTERNAL_ERROR : wire::INVALID_REQUEST)
        << method.path << ": a send is told that it has no ticket";
  }
}

TEST_F(RequestLimitsTest, EntriesOfTwoBytes) {
  const Target target = Registered(1);
  for (const MethodRule& method : ShuffleMethods()) {
    if (IsSend(method)) continue;
    const std::string bytes =
        method.make(target, 0) + Times(kEntriesMax + 1, std::string("\x7a\x00", 2));
    EXPECT_EQ(CallBytes(client(), method, bytes), wire::INVALID_REQUEST) << method.path;
  }
  for (const char* name : {"heartbeat", "registerApplicationInfo", "appHeartbeat", "accessCluster",
                           "fetchClientConfV2", "reportClientOperation", "fetchRemoteStorage"}) {
    const RawAnswer answer = client().Raw(std::string("/rss.common.CoordinatorServer/") + name,
                                          Times(kEntriesMax + 1, std::string("\x7a\x00", 2)));
    EXPECT_TRUE(answer.status.ok()) << name << " " << answer.status.error_message();
    EXPECT_EQ(answer.bytes.substr(0, 2), "\x08\x09") << name;
  }
}

// 32 MiB of such entries would be more than 1 GiB of objects.
TEST_F(RequestLimitsTest, MemoryDoesNotFollow) {
  const Target target = Registered(1);
  const std::string bytes = Times(kRequestBytesMax / 2 - 100, std::string("\x1a\x00", 2));
  const double before = Metric("process_resident_memory_bytes");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(CallBytes(client(), ShuffleMethod("registerShuffle"), bytes), wire::INVALID_REQUEST);
    EXPECT_LT(Metric("process_resident_memory_bytes") - before, 300e6);
  }
}

// The answer is the method's own, not gRPC's.
TEST_F(RequestLimitsTest, WhatDoesNotParseIsAnswered) {
  for (const std::string bad : {"\xff", "\x0a\x7f", "\x0a\x01\xff"}) {
    for (const MethodRule& method : ShuffleMethods()) {
      EXPECT_EQ(CallBytes(client(), method, bad), wire::INVALID_REQUEST)
          << method.path << testing::PrintToString(bad);
    }
  }
}

// A name that would be copied before it is looked at.
TEST_F(RequestLimitsTest, ASendWithAHugeApplication) {
  wire::SendShuffleDataRequest send = MakeSend({std::string(64 << 20, 'a'), 0}, 1, {});
  EXPECT_EQ(CallBytes(client(), ShuffleMethod("sendShuffleData"), send.SerializeAsString()),
            wire::INVALID_REQUEST);
  const std::string repeated = Times(kEntriesMax, std::string("\x22\x00", 2));
  EXPECT_EQ(CallBytes(client(), ShuffleMethod("sendShuffleData"), repeated), wire::INVALID_REQUEST);
}

}  // namespace
}  // namespace dovetail::e2e
