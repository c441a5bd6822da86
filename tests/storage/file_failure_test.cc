// Disks that fail, fill up, hang or lie: nothing is lost that memory still has, what is lost is
// said, and everything goes on when the cause is gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "tests/storage/file_fixture.h"

namespace dovetail::storage {
namespace {

using FileFailureTest = FileStoreTest;

TEST_F(FileFailureTest, AFailedFlushLosesNothingAndGoesOnWhenTheCauseIsGone) {
  for (const int os_error : {ENOSPC, EIO}) {
    for (const int64_t after : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{100},
                                int64_t{4096}, int64_t{50'001}}) {
      SCOPED_TRACE(testing::Message() << "errno " << os_error << " after " << after);
      expected_.clear();
      Reopen(1);
      Register();
      faults_[0]->FailNext(fakes::Call::kAppend, os_error, after);
      Fill(10, 18, 5000);  // just above the watermark: flushes, fails, stays in memory
      ASSERT_TRUE(Eventually(
          [&] { return store_->disks()[0]->stats().append_failures_total.load() == 1; }));
      EXPECT_EQ(store_->disks()[0]->full(), os_error == ENOSPC);
      EXPECT_EQ(store_->disks()[0]->broken(), os_error == EIO);
      ExpectAll();
      store_->CheckDisks();
      ASSERT_TRUE(Eventually([&] { return store_->disks()[0]->usable(); }));
      ASSERT_TRUE(Eventually([&] { return store_->stats().flushed_bytes_total.load() > 0; }));
      ExpectAll();
    }
  }
}

TEST_F(FileFailureTest, AFullDiskServesReadsAndWritersGetNoBuffer) {
  StoreOptions options = FileOptions();
  disk_count_ = 1;
  options.local_file.data_paths.resize(1);
  options.memory.require_wait_ms = 20;
  Open(options);
  Register();
  Fill(4, 60, 5000);
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 0; }));
  faults_[0]->FailAll(fakes::Call::kAppend, ENOSPC);
  faults_[0]->FailAll(fakes::Call::kReserve, ENOSPC);
  faults_[0]->FailAll(fakes::Call::kSpace, EIO);  // nothing says that there is space again
  Status sent;
  for (int i = 0; sent && i < 400; ++i) {
    const int64_t id = (int64_t{next_id_++} << 22) | 1;
    sent = Send(BatchBuilder().Add(1, id, 5000, 'q'));
    if (sent) expected_[1][id] = std::string(5000, 'q');
  }
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kNoBuffer);
  EXPECT_TRUE(store_->disks()[0]->full());
  EXPECT_FALSE(store_->disks()[0]->broken());
  EXPECT_FALSE(store_->EnoughDisks());
  ExpectAll();
  faults_[0]->Heal();
  EXPECT_TRUE(Eventually([&] {
    store_->CheckDisks();
    const int64_t id = (int64_t{next_id_++} << 22) | 1;
    const Status again = Send(BatchBuilder().Add(1, id, 5000, 'r'));
    if (again) expected_[1][id] = std::string(5000, 'r');
    return again.has_value();
  }));
  EXPECT_TRUE(store_->EnoughDisks());
  ExpectAll();
}

TEST_F(FileFailureTest, TheOtherDiskTakesWhatABrokenOneCannot) {
  Register();
  faults_[0]->FailAll(fakes::Call::kAppend, EIO);
  Fill(20, 40, 5000);
  EXPECT_TRUE(store_->disks()[0]->broken());
  EXPECT_EQ(store_->disks()[0]->stats().appended_bytes_total.load(), 0);
  EXPECT_GT(store_->disks()[1]->stats().appended_bytes_total.load(), 0);
  ExpectAll();
}

TEST_F(FileFailureTest, UnreadableDataIsLostForGood) {
  Reopen(1);
  Register();
  Fill(2, 60, 20'000);
  ASSERT_TRUE(Eventually([&] { return store_->stats().flushed_bytes_total.load() > 0; }));
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 0; }));
  faults_[0]->FailNext(fakes::Call::kRead, EIO);
  EXPECT_EQ(ReadData(0, 0, 100).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(ReadData(0, 0, 100).error().code,
            ErrorCode::kCorrupt);  // though the disk is well again
  EXPECT_EQ(ReadIndex(0).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(Read(0).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(Reported({0}).error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(ReadData(1, 0, 100));  // its neighbour is not
}

TEST_F(FileFailureTest, AFlippedByteInAnIndexIsFound) {
  disk_count_ = 1;
  StoreOptions options = FileOptions();
  options.local_file.index_cache_bytes_max = 0;  // the index is read from the disk
  Open(options);
  Register();
  Fill(1, 60, 20'000);
  ASSERT_TRUE(Eventually([&] {
    return store_->stats().frozen_bytes.load() == 0 &&
           store_->stats().flushed_bytes_total.load() > 0;
  }));
  memory_[0]->disk()->FlipByte(memory_[0]->disk()->Files().at(0), kBatchHeaderBytes + 17);
  EXPECT_EQ(ReadIndex(0).error().code, ErrorCode::kCorrupt);
}

// What a slow disk had begun goes to the other one; when it answers after all, nothing comes of it.
TEST_F(FileFailureTest, ASlowDiskHandsItsFlushesToAnother) {
  Register();
  faults_[0]->HangAll(fakes::Call::kAppend);
  Fill(20, 9, 5000);  // just above the watermark
  ASSERT_TRUE(Eventually([&] { return store_->stats().flushed_bytes_total.load() > 0; }));
  ASSERT_GT(store_->stats().frozen_bytes.load(), 0);
  // Nothing else is under way when the clock jumps.
  ASSERT_TRUE(Eventually([&] { return store_->disks()[1]->engine().in_flight() == 0; }));
  now_ms_ += 61'000;
  store_->CheckDisks();
  EXPECT_TRUE(store_->disks()[0]->slow());
  EXPECT_FALSE(store_->EnoughDisks());
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 0; }));
  ASSERT_GT(store_->disks()[0]->stats().groups_abandoned_total.load(), 0);
  Fill(20, 30, 5000);
  ExpectAll();
  EXPECT_EQ(store_->disks()[0]->stats().appended_bytes_total.load(), 0);
  faults_[0]->Heal();
  ASSERT_TRUE(Eventually([&] {
    store_->CheckDisks();
    return store_->disks()[0]->usable();
  }));
  ExpectAll();
  EXPECT_EQ(store_->disks()[0]->stats().appended_bytes_total.load(), 0);
  Fill(20, 30, 5000);
  ASSERT_TRUE(
      Eventually([&] { return store_->disks()[0]->stats().appended_bytes_total.load() > 0; }));
  ExpectAll();
}

// A read that hangs gives back its share of the read budget when its disk is found slow; the data
// is not lost, and the client is told to come again.
TEST_F(FileFailureTest, AReadOfASlowDiskEndsAndHoldsNothing) {
  Reopen(1);
  Register();
  Fill(2, 60, 20'000);
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 0; }));
  ASSERT_GT(store_->stats().flushed_bytes_total.load(), 0);
  faults_[0]->HangAll(fakes::Call::kRead);
  std::promise<Result<FileAnswer>> promise;
  std::future<Result<FileAnswer>> answer = promise.get_future();
  store_->ReadData("app", 0, 0, 0, 100,
                   [&](Result<FileAnswer> read) { promise.set_value(std::move(read)); });
  EXPECT_EQ(store_->read_budget().bytes_in_flight(), 100);
  now_ms_ += 61'000;
  store_->CheckDisks();
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(answer.get().error().code, ErrorCode::kNoBuffer);
  EXPECT_TRUE(Eventually([&] { return store_->read_budget().bytes_in_flight() == 0; }));
  EXPECT_EQ(ReadData(0, 0, 100).error().code, ErrorCode::kNoBuffer);  // at once, while it is slow
  EXPECT_TRUE(Read(0));                                               // memory does not care
  faults_[0]->Heal();
  ASSERT_TRUE(Eventually([&] {
    store_->CheckDisks();
    return store_->disks()[0]->usable();
  }));
  ExpectAll();
}

// A file that lost its name or its length under the daemon takes nothing but itself with it.
TEST_F(FileFailureTest, ADamagedSegmentIsLeftForANewOne) {
  Reopen(1);
  Register();
  Fill(3, 60, 5000);
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 0; }));
  const int64_t created = store_->disks()[0]->stats().segments_created_total.load();
  faults_[0]->FailNext(fakes::Call::kAppend, ENOENT);
  Fill(3, 120, 5000);
  ASSERT_TRUE(Eventually(
      [&] { return store_->disks()[0]->stats().segments_created_total.load() > created; }));
  EXPECT_TRUE(store_->disks()[0]->usable());
  ExpectAll();
}

// Whatever is counted when a batch becomes visible must be counted before: a purge gives it back.
TEST_F(FileFailureTest, EndingShufflesWhileTheirFlushesAreCommitted) {
  StoreOptions options = FileOptions();
  options.hybrid.memory_spill_high_watermark = 1e-6;
  options.hybrid.memory_spill_low_watermark = 0;
  Open(options);
  for (int round = 0; round < 300; ++round) {
    Register("app", round, 400);
    BatchBuilder batch;
    for (int32_t p = 0; p < 400; ++p) batch.Add(p, 1, 10, 'x');
    ASSERT_TRUE(Send(batch, "app", round));
    if (round % 3 != 0) std::this_thread::sleep_for(std::chrono::microseconds(round * 7 % 900));
    store_->Unregister("app", round);
  }
  EXPECT_TRUE(Eventually([&] { return store_->stats().removals_pending.load() == 0; }));
  EXPECT_EQ(store_->budget().figures().metadata_bytes, 0);
  EXPECT_GT(store_->stats().flushed_bytes_total.load(), 0);
}

TEST_F(FileFailureTest, EndingAShuffleInTheMiddleOfAFlushLeavesNothing) {
  Register();
  for (fakes::FaultEngine* fault : faults_) fault->HangAll(fakes::Call::kAppend);
  Fill(4, 45, 5000);
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() > 0; }));
  store_->Unregister("app", 0);
  ASSERT_TRUE(Eventually([&] { return store_->budget().figures().used_bytes == 0; }));
  Register();  // the same id lives again while the old flush is still under way
  expected_.clear();
  Fill(4, 5, 100);
  for (fakes::FaultEngine* fault : faults_) fault->Heal();
  ASSERT_TRUE(Eventually([&] { return store_->stats().removals_pending.load() == 0; }));
  ExpectAll();
  EXPECT_EQ(store_->stats().frozen_bytes.load(), 0);
}

}  // namespace
}  // namespace dovetail::storage
