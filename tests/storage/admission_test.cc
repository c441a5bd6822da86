#include <gtest/gtest.h>

#include "storage/memory_budget.h"
#include "storage/read_budget.h"
#include "tests/storage/store_fixture.h"

namespace dovetail::storage {
namespace {

TEST(MemoryBudget, PromisesUpToItsCapacity) {
  MemoryBudget budget(100);
  EXPECT_TRUE(budget.TryPromise(60));
  EXPECT_FALSE(budget.TryPromise(41));
  EXPECT_FALSE(budget.TryPromise(INT64_MAX));
  EXPECT_TRUE(budget.TryPromise(40));
  budget.Redeem(60, 80);  // stored blocks cost more than their ticket: counted, not refused
  EXPECT_EQ(budget.figures().used_bytes, 80);
  EXPECT_FALSE(budget.TryPromise(1));
  budget.ReturnPromise(40);
  budget.Free(80);
  EXPECT_TRUE(budget.TryPromise(100));
  budget.ReturnPromise(100);
}

TEST(MemoryBudgetDeathTest, NeverClamps) {
  EXPECT_DEATH(
      {
        MemoryBudget budget(100);
        budget.Free(1);
      },
      "CHECK failed");
  EXPECT_DEATH(
      {
        MemoryBudget budget(100);
        (void)budget.TryPromise(10);
        budget.ReturnPromise(11);
      },
      "CHECK failed");
  EXPECT_DEATH(
      {
        MemoryBudget budget(100);
        (void)budget.TryPromise(10);
      },
      "CHECK failed");
}

TEST_F(StoreTest, ATicketWaitsForRoomAndGetsIt) {
  StoreOptions options = SmallOptions();
  options.memory.require_wait_ms = 60'000;
  Open(options);
  Register("app", 0);
  Register("app", 1);
  const Result<int64_t> all = Require(1 << 20, "app", 1);
  ASSERT_TRUE(all);
  std::future<Result<int64_t>> waiting = RequireLater(1000);
  EXPECT_EQ(store_->require_waiting(), 1);
  store_->Unregister("app", 1);
  const Result<int64_t> got = waiting.get();
  ASSERT_TRUE(got);
  EXPECT_EQ(store_->require_waiting(), 0);
}

TEST_F(StoreTest, WithoutRoomTheWaitEndsInNoBuffer) {
  Register();
  ASSERT_TRUE(Require(1 << 20));
  EXPECT_EQ(Require(1).error().code, ErrorCode::kNoBuffer);
  EXPECT_EQ(store_->stats().require_no_buffer_total.load(), 1);
  EXPECT_EQ(store_->require_waiting(), 0);
}

TEST_F(StoreTest, MoreThanTheCapacityIsRefusedAtOnce) {
  StoreOptions options = SmallOptions();
  options.memory.require_wait_ms = 3'600'000;  // it would hang if it were parked
  Open(options);
  Register();
  EXPECT_EQ(Require((1 << 20) + 1).error().code, ErrorCode::kInvalid);
}

TEST_F(StoreTest, AFullQueueRefusesAtOnce) {
  StoreOptions options = SmallOptions();
  options.memory.require_wait_ms = 3'600'000;
  options.memory.require_queue_max = 2;
  Open(options);
  Register();
  ASSERT_TRUE(Require(1 << 20));
  auto first = RequireLater(1);
  auto second = RequireLater(1);
  EXPECT_EQ(Require(1).error().code, ErrorCode::kNoBuffer);
  store_->Close();
  EXPECT_EQ(first.get().error().code, ErrorCode::kShutdown);
  EXPECT_EQ(second.get().error().code, ErrorCode::kShutdown);
}

TEST_F(StoreTest, WhoWaitsForAnEndedShuffleGetsNoTicket) {
  StoreOptions options = SmallOptions();
  options.memory.require_wait_ms = 60'000;
  Open(options);
  Register("app", 0);
  Register("app", 1);
  ASSERT_TRUE(Require(1 << 20, "app", 1));
  auto waiting = RequireLater(1000, "app", 0);
  store_->Unregister("app", 0);
  store_->Unregister("app", 1);
  EXPECT_EQ(waiting.get().error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, ALargeRequestIsNotOvertakenBySmallOnes) {
  StoreOptions options = SmallOptions();
  options.memory.require_wait_ms = 60'000;
  Open(options);
  Register("app", 0);
  Register("app", 1);
  ASSERT_TRUE(Require(1 << 19, "app", 1));
  auto large = RequireLater(1 << 20);  // needs everything
  auto small = RequireLater(1000);     // would fit now
  EXPECT_EQ(small.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  store_->Unregister("app", 1);
  const Result<int64_t> ticket = large.get();
  ASSERT_TRUE(ticket);
  EXPECT_EQ(small.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  { EXPECT_TRUE(store_->AdmitSend("app", 0, *ticket)); }
  EXPECT_TRUE(small.get());
}

TEST_F(StoreTest, ReadsDrawOnTheirBudgetAndWait) {
  StoreOptions options = SmallOptions();
  options.memory.read_bytes_max = 1000;
  options.memory.read_wait_ms = 60'000;
  Open(options);
  Register();
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 600, 'x')));
  std::optional<Result<MemoryAnswer>> first = Read(1);
  ASSERT_TRUE(*first);
  EXPECT_EQ(store_->read_budget().bytes_in_flight(), 600 + Partition::kSegmentBytes);
  auto second = ReadLater({"app", 0, 1, -1, 1 << 20, nullptr});
  EXPECT_EQ(store_->read_budget().waiting(), 1);
  first.reset();  // the answer has gone out
  EXPECT_EQ(second.get()->page.data_bytes, 600);
}

TEST_F(StoreTest, ReadsThatWaitInVainGetNoBuffer) {
  StoreOptions options = SmallOptions();
  options.memory.read_bytes_max = 1000;
  Open(options);
  Register();
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 600, 'x')));
  const Result<MemoryAnswer> first = Read(1);
  ASSERT_TRUE(first);
  EXPECT_EQ(Read(1).error().code, ErrorCode::kNoBuffer);
  EXPECT_EQ(store_->stats().read_no_buffer_total.load(), 1);
}

TEST_F(StoreTest, AnAnswerLargerThanTheReadBudgetGoesAlone) {
  StoreOptions options = SmallOptions();
  options.memory.read_bytes_max = 1000;
  options.memory.read_wait_ms = 60'000;
  Open(options);
  Register();
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 5000, 'x').Add(2, 2, 10, 'y')));
  std::optional<Result<MemoryAnswer>> small = Read(2);
  ASSERT_TRUE(*small);
  auto large = ReadLater({"app", 0, 1, -1, 1 << 20, nullptr});
  EXPECT_EQ(large.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  small.reset();
  Result<MemoryAnswer> answer = large.get();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->page.data_bytes, 5000);
  auto next = ReadLater({"app", 0, 2, -1, 1 << 20, nullptr});
  EXPECT_EQ(next.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  answer = Fail(ErrorCode::kBusy, "let go");
  EXPECT_TRUE(next.get());
}

TEST_F(StoreTest, AReadThatWaitedStaysWithinItsShare) {
  StoreOptions options = SmallOptions();
  options.memory.read_bytes_max = 1000;
  options.memory.read_wait_ms = 60'000;
  Open(options);
  Register();
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 600, 'x')));
  std::optional<Result<MemoryAnswer>> first = Read(1);
  auto second = ReadLater({"app", 0, 1, -1, 1 << 20, nullptr});
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 2, 300, 'y')));  // arrives while the read waits
  first.reset();
  Result<MemoryAnswer> answer = second.get();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->page.data_bytes, 300);  // the newest first; both would be more than its share
  EXPECT_FALSE(answer->page.is_end);
  EXPECT_EQ(answer->grant->bytes(), 600 + Partition::kSegmentBytes);
}

TEST_F(StoreTest, AReadWhoseShuffleEndedWhileItWaitedIsNotFound) {
  StoreOptions options = SmallOptions();
  options.memory.read_bytes_max = 1000;
  options.memory.read_wait_ms = 60'000;
  Open(options);
  Register();
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 600, 'x')));
  std::optional<Result<MemoryAnswer>> first = Read(1);
  auto second = ReadLater({"app", 0, 1, -1, 1 << 20, nullptr});
  store_->Unregister("app", 0);
  ASSERT_TRUE(Eventually([&] { return store_->budget().figures().used_bytes == 0; }));
  first.reset();
  EXPECT_EQ(second.get().error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace dovetail::storage
