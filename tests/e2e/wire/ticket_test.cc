// Tickets: single use, given back exactly once on every path.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/e2e/wire/reader.h"

namespace dovetail::e2e {
namespace {

// Tickets live long enough here for every test but the one that waits for the end of one.
class TicketTest : public DaemonSuite<TicketTest> {
 public:
  static Settings MakeSettings() { return {"memory_store.capacity=64M"}; }

 protected:
  static wire::StatusCode SendOne(const Target& target, int64_t ticket, int64_t sequence = 0) {
    return client().Send(MakeSend(target, ticket, {MakeBlocks(0, sequence, 1, 100)})).status();
  }
};

class ShortTicketTest : public DaemonSuite<ShortTicketTest> {
 public:
  static Settings MakeSettings() {
    return {"memory_store.capacity=64M", "memory_store.buffer_ticket_timeout_sec=1",
            "memory_store.buffer_ticket_check_interval_sec=1"};
  }
};

TEST_F(TicketTest, CountsWhatIsPromisedAndWhatArrives) {
  const Target target = Registered(1);
  const int64_t ticket = client().Ticket(target, 1000);
  EXPECT_EQ(Metric("dovetail_memory_promised_bytes"), 1000);
  EXPECT_EQ(Metric("dovetail_tickets"), 1);
  EXPECT_EQ(SendOne(target, ticket), wire::SUCCESS);
  // Sent short: the rest of the promise is free, what arrived is counted.
  EXPECT_EQ(Metric("dovetail_memory_promised_bytes"), 0);
  EXPECT_EQ(Metric("dovetail_tickets"), 0);
  EXPECT_EQ(Metric("dovetail_memory_used_bytes"), 100 + kStoredOverheadBytes);
}

TEST_F(TicketTest, IsGoodForOneSend) {
  const Target target = Registered(1);
  const int64_t ticket = client().Ticket(target, 1000);
  EXPECT_EQ(SendOne(target, ticket, 1), wire::SUCCESS);
  EXPECT_EQ(SendOne(target, ticket, 2), wire::INTERNAL_ERROR);
  EXPECT_EQ(ReadPages(client(), {.target = target, .filter = {}}).blocks.size(), 1u);
}

TEST_F(TicketTest, AFailedSendUsesItUp) {
  const Target target = Registered(1);
  const std::vector<wire::ShuffleData> too_much = {MakeBlocks(0, 0, 2, 500)};
  const int64_t ticket = client().Ticket(target, TicketBytes(too_much) - 1);
  EXPECT_EQ(client().Send(MakeSend(target, ticket, too_much)).status(), wire::INVALID_REQUEST);
  EXPECT_EQ(Metric("dovetail_memory_promised_bytes"), 0);
  EXPECT_EQ(SendOne(target, ticket), wire::INTERNAL_ERROR);
  EXPECT_EQ(client().Store(target, too_much), wire::SUCCESS) << "the exact size is enough";
}

TEST_F(TicketTest, UnknownOnes) {
  const Target target = Registered(1);
  for (const int64_t ticket : {int64_t{0}, int64_t{-1}, int64_t{999'999'999}, INT64_MAX, INT64_MIN})
    EXPECT_EQ(SendOne(target, ticket), wire::INTERNAL_ERROR);
}

TEST_F(TicketTest, OfAnotherOwnerStaysUntouched) {
  const Target owner = Registered(1);
  const Target other_app = Registered(1);
  const Target other_shuffle{owner.app, 1};
  EXPECT_EQ(client().Register(other_shuffle, 1), wire::SUCCESS);
  const int64_t ticket = client().Ticket(owner, 1000);
  EXPECT_EQ(SendOne(other_app, ticket), wire::INTERNAL_ERROR);
  EXPECT_EQ(SendOne(other_shuffle, ticket), wire::INTERNAL_ERROR);
  EXPECT_EQ(Metric("dovetail_memory_promised_bytes"), 1000);
  EXPECT_EQ(client().UnregisterApp(other_app.app), wire::SUCCESS);
  EXPECT_EQ(client().Unregister(other_shuffle), wire::SUCCESS);
  EXPECT_EQ(SendOne(owner, ticket), wire::SUCCESS);
}

TEST_F(TicketTest, EndsWithItsShuffle) {
  const Target target = Registered(1);
  const Target other{target.app, 1};
  EXPECT_EQ(client().Register(other, 1), wire::SUCCESS);
  client().Ticket(target, 1000);
  client().Ticket(target, 2000);
  client().Ticket(other, 500);
  EXPECT_EQ(client().Unregister(target), wire::SUCCESS);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_memory_promised_bytes", 500));
  EXPECT_EQ(client().UnregisterApp(target.app), wire::SUCCESS);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_memory_promised_bytes", 0));
  EXPECT_EQ(Metric("dovetail_tickets_expired_total"), 0);
}

TEST_F(TicketTest, OfTwoSendsWithOneTicketOneWins) {
  const Target target = Registered(1);
  for (int round = 0; round < 50; ++round) {
    const int64_t ticket = client().Ticket(target, 1000);
    std::atomic<int> successes{0};
    std::atomic<int> refusals{0};
    std::vector<std::jthread> senders;
    for (int sender = 0; sender < 4; ++sender) {
      senders.emplace_back([&, sender] {
        const wire::StatusCode status = SendOne(target, ticket, round * 4 + sender);
        (status == wire::SUCCESS ? successes : refusals) += 1;
        EXPECT_TRUE(status == wire::SUCCESS || status == wire::INTERNAL_ERROR);
      });
    }
    senders.clear();
    ASSERT_EQ(successes, 1);
    ASSERT_EQ(refusals, 3);
  }
  EXPECT_EQ(ReadPages(client(), {.target = target, .filter = {}}).blocks.size(), 50u);
}

TEST_F(TicketTest, NoTwoAreTheSame) {
  const Target target = Registered(1);
  std::set<int64_t> seen;
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(seen.insert(client().Ticket(target, 100)).second);
  EXPECT_EQ(Metric("dovetail_tickets"), 500);
  EXPECT_EQ(Metric("dovetail_memory_promised_bytes"), 50'000);
}

TEST_F(ShortTicketTest, ExpiresAndIsRefusedThen) {
  const Target target = Registered(1);
  const int64_t ticket = client().Ticket(target, 1000);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_memory_promised_bytes", 0));
  EXPECT_EQ(Metric("dovetail_tickets"), 0);
  EXPECT_EQ(Metric("dovetail_tickets_expired_total"), 1);
  EXPECT_EQ(client().Send(MakeSend(target, ticket, {MakeBlocks(0, 0, 1, 100)})).status(),
            wire::INTERNAL_ERROR);
  // The client takes a new one.
  EXPECT_EQ(client().Store(target, {MakeBlocks(0, 0, 1, 100)}), wire::SUCCESS);
}

// The client is gone before the ticket comes: nobody will use it, so it expires.
TEST_F(ShortTicketTest, OfAClientThatIsGone) {
  const Target target = Registered(1);
  {
    WireClient gone(daemon().grpc_port());
    gone.Ticket(target, 5000);
  }
  EXPECT_TRUE(daemon().WaitMetric("dovetail_memory_promised_bytes", 0));
}

}  // namespace
}  // namespace dovetail::e2e
