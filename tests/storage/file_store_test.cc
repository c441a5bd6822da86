// The store with files below: what is flushed reads back, alone and as one with memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <thread>

#include "tests/storage/file_fixture.h"

namespace dovetail::storage {
namespace {

TEST_F(FileStoreTest, WhatPassesTheWatermarkIsFlushedAndReadBack) {
  Register();
  Fill(20, 40, 5000);  // 4 MB through 1 MiB
  EXPECT_GT(store_->stats().flushed_bytes_total.load(), 2 << 20);
  ExpectAll();
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 0; }));
  EXPECT_EQ(store_->budget().figures().metadata_bytes,
            store_->stats().partitions.load() * kPartitionOverheadBytes +
                store_->stats().extents.load() * kExtentOverheadBytes);
  // Both disks took part.
  for (const auto& disk : store_->disks()) {
    EXPECT_GT(disk->stats().appended_bytes_total.load(), 0);
  }
}

TEST_F(FileStoreTest, ARequestLargerThanWhatIsFreeMakesRoomForItself) {
  Register();
  Fill(5, 20, 5000);  // half of the budget, below the watermark
  EXPECT_EQ(store_->stats().flushed_bytes_total.load(), 0);
  const Result<int64_t> ticket = Require((1 << 20) - (64 << 10));
  ASSERT_TRUE(ticket);
  EXPECT_EQ(store_->budget().figures().used_bytes, 0);
  { EXPECT_TRUE(store_->AdmitSend("app", 0, *ticket)); }
  ExpectAll();
}

TEST_F(FileStoreTest, ALargePartitionIsFlushedAlone) {
  StoreOptions options = FileOptions();
  options.hybrid.memory_single_buffer_max_spill_size = 100'000;
  Open(options);
  Register();
  Fill(1, 30, 5000);
  ASSERT_TRUE(Eventually([&] { return store_->stats().flushed_bytes_total.load() > 0; }));
  ExpectAll();
}

TEST_F(FileStoreTest, DuplicatesOfWhatIsBeingFlushedAreDropped) {
  Reopen(1);
  Register();
  faults_[0]->HangAll(fakes::Call::kAppend);
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 77, 900'000, 'x')));
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 900'000; }));
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 77, 10'000, 'y').Add(1, 78, 10, 'z')));
  EXPECT_EQ(store_->stats().duplicate_blocks_total.load(), 1);
  faults_[0]->Heal();
  const auto blocks = ReadAll(1);
  EXPECT_EQ(blocks.at(77), std::string(900'000, 'x'));
  EXPECT_EQ(blocks.at(78), std::string(10, 'z'));
}

TEST_F(FileStoreTest, APartitionMayLieOnSeveralDisks) {
  Register();
  Fill(3, 60, 5000);
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 0; }));
  faults_[0]->FailAll(fakes::Call::kAppend, EIO);
  const int64_t on_both = store_->stats().extents.load();
  for (int i = 0; i < 20 && store_->stats().extents.load() < on_both + 6; ++i) Fill(3, 60, 5000);
  EXPECT_GE(store_->stats().extents.load(), on_both + 6);
  ExpectAll();
  // A range that begins and ends inside of blocks, over the seams of extents.
  const Result<FileAnswer> whole = ReadData(1, 0, 500'000);
  const Result<FileAnswer> part = ReadData(1, 1234, 400'000);
  ASSERT_TRUE(whole && part);
  EXPECT_EQ(Bytes(part->bytes), Bytes(whole->bytes).substr(1234, 400'000));
}

// A reader that stands at a block which is sent again after it went to disk must not skip what lies
// between.
TEST_F(FileStoreTest, ABlockSentAgainAfterItsFlushHidesNothing) {
  Reopen(1);
  Register();
  faults_[0]->HangAll(fakes::Call::kAppend);
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 70, 400'000, 'a').Add(1, 71, 450'000, 'x')));
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 850'000; }));
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 72, 1000, 'b').Add(1, 73, 1000, 'c')));
  // Two pages: the new blocks, then the one that is being flushed; the reader stops behind 70.
  Result<MemoryAnswer> page = Read(1, -1, 2000);
  ASSERT_TRUE(page);
  page = Read(1, page->page.blocks.back().meta.block_id, 1000);
  ASSERT_TRUE(page);
  const int64_t last = page->page.blocks.back().meta.block_id;
  EXPECT_EQ(last, 70);
  std::set<int64_t> seen;
  faults_[0]->Heal();
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 0; }));
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 74, 500, 'd')));
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 70, 400'000, 'a')));
  Result<MemoryAnswer> rest = Read(1, last);
  ASSERT_TRUE(rest);
  for (const PageBlock& block : rest->page.blocks) seen.insert(block.meta.block_id);
  EXPECT_TRUE(seen.contains(74));
  EXPECT_TRUE(rest->page.is_end);
}

TEST_F(FileStoreTest, RangesOutsideTheCommittedLogAreInvalid) {
  Reopen(1);
  Register();
  EXPECT_EQ(ReadData(1, 0, 1).error().code, ErrorCode::kInvalid);
  Fill(1, 60, 20'000);
  ASSERT_TRUE(Eventually([&] { return store_->stats().flushed_bytes_total.load() > 0; }));
  const int64_t end = ReadIndex(0)->data_bytes;
  EXPECT_TRUE(ReadData(0, end - 1, 1));
  EXPECT_EQ(ReadData(0, end, 1).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(ReadData(0, 0, end + 1).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(ReadData(0, -1, 1).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(ReadData(0, 0, 0).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(ReadData(0, INT64_MAX, INT64_MAX).error().code, ErrorCode::kInvalid);
}

TEST_F(FileStoreTest, WhatCannotBeRemovedIsRemovedLater) {
  for (const fakes::Call call : {fakes::Call::kRemove, fakes::Call::kRemoveFolder}) {
    SCOPED_TRACE(static_cast<int>(call));
    expected_.clear();
    Reopen(1);
    Register();
    Fill(4, 60, 5000);
    ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 0; }));
    faults_[0]->FailAll(call, EIO);
    store_->Unregister("app", 0);
    for (int64_t rounds = 1; rounds <= 3; ++rounds) {
      ASSERT_TRUE(Eventually([&] {
        store_->CheckDisks();
        return faults_[0]->injected() >= rounds;
      }));
      EXPECT_EQ(store_->stats().removals_pending.load(), 1);
    }
    EXPECT_FALSE(memory_[0]->disk()->Folders().empty());
    faults_[0]->Heal();
    EXPECT_TRUE(Eventually([&] {
      store_->CheckDisks();
      return store_->stats().removals_pending.load() == 0;
    }));
    EXPECT_EQ(memory_[0]->disk()->Files(), std::vector<std::string>());
    EXPECT_EQ(memory_[0]->disk()->Folders(), std::vector<std::string>{"apps"});
    EXPECT_EQ(store_->disks()[0]->stats().segments.load(), 0);
    EXPECT_EQ(store_->disks()[0]->stats().removals_pending.load(), 0);
  }
}

TEST_F(FileStoreTest, AReaderSeesEveryBlockWhileFlushesRun) {
  Register("app", 0, 0);
  std::atomic<bool> stop{false};
  std::atomic<int64_t> acked{0};
  std::thread writer([&] {
    for (int64_t i = 0; !stop.load(); ++i) {
      ASSERT_TRUE(Send(BatchBuilder().Add(0, i, 3000, static_cast<char>('a' + i % 26))));
      acked.store(i + 1);
    }
  });
  const TimePoint deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (acked.load() < 2000 && std::chrono::steady_clock::now() < deadline) {
    const int64_t before = acked.load();
    const auto blocks = ReadAll(0, 20'000);
    for (int64_t i = 0; i < before; ++i) ASSERT_TRUE(blocks.contains(i)) << i << " of " << before;
    for (const auto& [id, bytes] : blocks) {
      ASSERT_EQ(bytes, std::string(3000, static_cast<char>('a' + id % 26)));
    }
  }
  stop.store(true);
  writer.join();
  EXPECT_GT(store_->stats().flushed_bytes_total.load(), 0);
}

}  // namespace
}  // namespace dovetail::storage
