// Limits: who waits, who is refused, and that every refusal lifts when its cause is gone.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/e2e/wire/methods.h"
#include "tests/e2e/wire/reader.h"
#include "tests/e2e/wire/stalled_call.h"

namespace dovetail::e2e {
namespace {

const std::string kRead = "/rss.common.ShuffleServer/getMemoryShuffleData";
const std::string kSend = "/rss.common.ShuffleServer/sendShuffleData";

class WaitingTest : public DaemonSuite<WaitingTest> {
 public:
  static Settings MakeSettings() {
    return {"memory_store.capacity=1M", "memory_store.require_wait_ms=600000"};
  }

 protected:
  static Target Full() {
    const Target target = Registered(1);
    EXPECT_EQ(client().Store(target, {MakeBlocks(0, 0, 9, 100'000)}), wire::SUCCESS);
    return target;
  }
  static std::future<wire::RequireBufferResponse> RequireLater(const Target& target,
                                                               int64_t bytes) {
    return std::async(std::launch::async,
                      [target, bytes] { return client().Require(target, bytes); });
  }
};

TEST_F(WaitingTest, UntilMemoryIsFreed) {
  const Target full = Full();
  const Target target = Registered(1);
  auto waiting = RequireLater(target, 500'000);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_require_waiting", 1));
  EXPECT_EQ(client().Unregister(full), wire::SUCCESS);
  const wire::RequireBufferResponse response = waiting.get();
  EXPECT_EQ(response.status(), wire::SUCCESS);
  EXPECT_EQ(client()
                .Send(MakeSend(target, response.requirebufferid(), {MakeBlocks(0, 0, 4, 100'000)}))
                .status(),
            wire::SUCCESS);
}

TEST_F(WaitingTest, AllWhoFitComeIn) {
  const Target full = Full();
  const Target target = Registered(1);
  std::vector<std::future<wire::RequireBufferResponse>> waiting;
  for (int i = 0; i < 10; ++i) waiting.push_back(RequireLater(target, 150'000));
  EXPECT_TRUE(daemon().WaitMetric("dovetail_require_waiting", 10));
  EXPECT_EQ(client().Unregister(full), wire::SUCCESS);
  // Six of 150,000 fit into 1 MiB; a ticket that is used short lets the next in.
  EXPECT_TRUE(daemon().WaitMetric("dovetail_require_waiting", 4));
  EXPECT_TRUE(daemon().WaitMetric("dovetail_tickets", 6));
  std::vector<std::jthread> senders;
  for (auto& one : waiting) {
    senders.emplace_back([&target, &one] {
      const wire::RequireBufferResponse response = one.get();
      ASSERT_EQ(response.status(), wire::SUCCESS);
      const int64_t ticket = response.requirebufferid();
      EXPECT_EQ(client().Send(MakeSend(target, ticket, {MakeBlocks(0, ticket, 1, 10)})).status(),
                wire::SUCCESS);
    });
  }
  senders.clear();
  EXPECT_EQ(ReadPages(client(), {.target = target, .filter = {}}).blocks.size(), 10u);
}

TEST_F(WaitingTest, ForAShuffleThatEnds) {
  const Target full = Full();
  const Target target = Registered(1);
  auto waiting = RequireLater(target, 500'000);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_require_waiting", 1));
  EXPECT_EQ(client().UnregisterApp(target.app), wire::SUCCESS);
  EXPECT_EQ(client().Unregister(full), wire::SUCCESS);
  const wire::RequireBufferResponse response = waiting.get();
  EXPECT_EQ(response.status(), wire::NO_REGISTER);
  EXPECT_EQ(response.requirebufferid(), -1);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_memory_promised_bytes", 0));
}

// The others are served while hundreds wait.
TEST_F(WaitingTest, HoldsNoThread) {
  const Target full = Full();
  const Target target = Registered(1);
  std::vector<std::future<wire::RequireBufferResponse>> waiting;
  for (int i = 0; i < 100; ++i) waiting.push_back(RequireLater(target, 200'000));
  EXPECT_TRUE(daemon().WaitMetric("dovetail_require_waiting", 100));
  EXPECT_EQ(Call(client(), ShuffleMethod("appHeartbeat"), target), wire::SUCCESS);
  EXPECT_EQ(ReadPages(client(), {.target = full, .filter = {}}).blocks.size(), 9u);
  EXPECT_EQ(client().UnregisterApp(target.app), wire::SUCCESS);
  EXPECT_EQ(client().UnregisterApp(full.app), wire::SUCCESS);
  for (auto& one : waiting) EXPECT_EQ(one.get().status(), wire::NO_REGISTER);
}

class RefusalTest : public DaemonSuite<RefusalTest> {
 public:
  static Settings MakeSettings() {
    return {"memory_store.capacity=1M", "memory_store.require_wait_ms=50",
            "grpc_message_bytes_max=64K"};
  }
};

TEST_F(RefusalTest, LiftsWhenItsCauseIsGone) {
  const Target full = Registered(1);
  for (int i = 0; i < 18; ++i) {
    EXPECT_EQ(client().Store(full, {MakeBlocks(0, i, 1, 50'000)}), wire::SUCCESS);
  }
  const Target target = Registered(1);
  const double before = Metric("dovetail_require_refused_total", {{"reason", "no_room"}});
  const wire::RequireBufferResponse response = client().Require(target, 500'000);
  EXPECT_EQ(response.status(), wire::NO_BUFFER);
  EXPECT_EQ(response.requirebufferid(), -1);
  EXPECT_FALSE(response.retmsg().empty());
  EXPECT_EQ(Metric("dovetail_require_refused_total", {{"reason", "no_room"}}), before + 1);
  EXPECT_EQ(client().Require(target, 10'000).status(), wire::SUCCESS) << "what fits comes in";
  EXPECT_EQ(client().UnregisterApp(full.app), wire::SUCCESS);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_memory_used_bytes", 0));
  EXPECT_EQ(client().Require(target, 500'000).status(), wire::SUCCESS);
}

TEST_F(RefusalTest, MessageAboveTheLimit) {
  const Target target = Registered(1);
  for (const MethodRule& method : ShuffleMethods()) {
    const RawAnswer answer = client().Raw(method.path, std::string((64 << 10) + 1, 'x'));
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << method.path;
  }
  const std::vector<wire::ShuffleData> groups = {MakeBlocks(0, 0, 1, 65'000)};
  EXPECT_EQ(client().Store(target, groups), wire::SUCCESS) << "the connection stays good";
  // The ticket of a send that gRPC refused was not seen: it ends with its shuffle.
  const int64_t ticket = client().Ticket(target, 70'100);
  const RawAnswer answer = client().Raw(
      kSend, MakeSend(target, ticket, {MakeBlocks(0, 1, 1, 70'000)}).SerializeAsString());
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Metric("dovetail_tickets"), 1);
}

class ReadTest : public DaemonSuite<ReadTest> {
 public:
  static Settings MakeSettings() {
    return {"memory_store.capacity=256M", "memory_store.read_bytes_max=64K",
            "memory_store.read_wait_ms=600000"};
  }

 protected:
  static std::string ReadBytes(const Target& target) {
    return ToRequest({.target = target, .read_bytes = INT32_MAX, .filter = {}}).SerializeAsString();
  }
};

TEST_F(ReadTest, LargerThanTheLimitGoesAlone) {
  const Target target = Registered(2);
  const std::vector<wire::ShuffleData> groups = {MakeBlocks(0, 0, 4, 2 << 20),
                                                 MakeBlocks(1, 0, 50, 1'000)};
  EXPECT_EQ(client().Store(target, groups), wire::SUCCESS);
  std::vector<std::jthread> readers;
  for (int reader = 0; reader < 8; ++reader) {
    readers.emplace_back([&, reader] {
      WireClient own(daemon().grpc_port());
      for (int round = 0; round < 5; ++round) {
        const int32_t partition = (reader + round) % 2;
        PageAsk ask{.target = target, .partition = partition, .filter = {}};
        const wire::ShuffleData& group = groups[static_cast<size_t>(partition)];
        ExpectBlocks(ReadPages(own, ask).blocks, {group.block().begin(), group.block().end()});
      }
    });
  }
  readers.clear();
  EXPECT_EQ(Metric("dovetail_read_refused_total"), 0);
}

TEST_F(ReadTest, ClientGoneInTheMiddleOfAnAnswer) {
  const Target target = Registered(1);
  const std::vector<wire::ShuffleData> groups = {MakeBlocks(0, 0, 16, 2 << 20)};
  EXPECT_EQ(client().Store(target, groups), wire::SUCCESS);
  StalledCall stalled(daemon().grpc_port(), kRead, ReadBytes(target));
  ASSERT_TRUE(stalled.sent());
  EXPECT_TRUE(daemon().WaitMetric("dovetail_read_bytes_in_flight", AnswerCost(16, 2 << 20)));
  // The next one waits for its share.
  auto waiting = std::async(std::launch::async, [&] {
    return ReadPages(client(), {.target = target, .filter = {}}).blocks.size();
  });
  EXPECT_TRUE(daemon().WaitMetric("dovetail_read_waiting", 1));
  stalled.Close();
  EXPECT_EQ(waiting.get(), 16u);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_read_bytes_in_flight", 0));
}

TEST_F(ReadTest, ShuffleGoneInTheMiddleOfAnAnswer) {
  const Target target = Registered(1);
  EXPECT_EQ(client().Store(target, {MakeBlocks(0, 0, 4, 1 << 20)}), wire::SUCCESS);
  StalledCall stalled(daemon().grpc_port(), kRead, ReadBytes(target));
  EXPECT_TRUE(daemon().WaitMetric("dovetail_read_bytes_in_flight", AnswerCost(4, 1 << 20)));
  auto waiting = std::async(std::launch::async, [&] {
    return ReadPage(client(), {.target = target, .filter = {}}).status();
  });
  EXPECT_TRUE(daemon().WaitMetric("dovetail_read_waiting", 1));
  EXPECT_EQ(client().Unregister(target), wire::SUCCESS);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_memory_used_bytes", 0));
  EXPECT_GT(Metric("dovetail_arena_used_bytes"), 0) << "the answer keeps its bytes";
  stalled.Close();
  EXPECT_EQ(waiting.get(), wire::NO_REGISTER);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_arena_used_bytes", 0));
}

TEST_F(ReadTest, ClientGoneInTheMiddleOfASend) {
  const Target target = Registered(1);
  const std::vector<wire::ShuffleData> groups = {MakeBlocks(0, 0, 1, 10'000)};
  const int64_t ticket = client().Ticket(target, TicketBytes(groups));
  const std::string send = MakeSend(target, ticket, groups).SerializeAsString();
  for (const size_t sent_bytes : {size_t{0}, size_t{1}, send.size() / 2, send.size() - 1}) {
    StalledCall stalled(daemon().grpc_port(), kSend, send, sent_bytes);
    EXPECT_TRUE(stalled.sent());
  }
  EXPECT_EQ(Metric("dovetail_memory_used_bytes"), 0);
  EXPECT_EQ(client().Send(MakeSend(target, ticket, groups)).status(), wire::SUCCESS)
      << "a send that never came has used nothing up";
}

class ShortReadWaitTest : public DaemonSuite<ShortReadWaitTest> {
 public:
  static Settings MakeSettings() {
    return {"memory_store.capacity=64M", "memory_store.read_bytes_max=64K",
            "memory_store.read_wait_ms=50"};
  }
};

TEST_F(ShortReadWaitTest, NoBufferWhenTheTimeIsUp) {
  const Target target = Registered(1);
  EXPECT_EQ(client().Store(target, {MakeBlocks(0, 0, 4, 1 << 20)}), wire::SUCCESS);
  const PageAsk ask{.target = target, .filter = {}};
  {
    StalledCall stalled(daemon().grpc_port(), kRead, ToRequest(ask).SerializeAsString());
    EXPECT_TRUE(daemon().WaitMetric("dovetail_read_bytes_in_flight", AnswerCost(4, 1 << 20)));
    const auto page = ReadPage(client(), ask);
    EXPECT_EQ(page.status(), wire::NO_BUFFER);
    EXPECT_EQ(page.shuffledatablocksegments_size(), 0);
    EXPECT_FALSE(page.retmsg().empty());
    EXPECT_EQ(Metric("dovetail_read_refused_total"), 1);
  }
  EXPECT_TRUE(daemon().WaitMetric("dovetail_read_bytes_in_flight", 0));
  EXPECT_EQ(ReadPages(client(), ask).blocks.size(), 4u);
}

}  // namespace
}  // namespace dovetail::e2e
