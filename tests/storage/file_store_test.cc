// The store with files below: what is flushed reads back, what fails loses nothing, what ends
// leaves nothing.
#include <gtest/gtest.h>

#include <algorithm>

#include "storage/segment_format.h"
#include "tests/fakes/fault_engine.h"
#include "tests/fakes/mem_engine.h"
#include "tests/storage/store_fixture.h"

namespace dovetail::storage {
namespace {

class FileStoreTest : public StoreTest {
 protected:
  static constexpr int kDisks = 2;

  StoreOptions FileOptions() {
    StoreOptions options = SmallOptions();
    options.local_file.data_paths = {"/disk0", "/disk1"};
    options.local_file.data_paths.resize(static_cast<size_t>(disk_count_));
    options.memory.require_wait_ms = 10'000;
    options.local_file.flush_group_bytes_max = 128 << 10;
    return options;
  }

  void SetUp() override { Open(FileOptions()); }

  void Reopen(int disks) {
    disk_count_ = disks;
    Open(FileOptions());
  }

  std::vector<std::unique_ptr<engine::Engine>> MakeEngines() override {
    faults_.clear();
    memory_.clear();
    std::vector<std::unique_ptr<engine::Engine>> engines;
    for (int i = 0; i < disk_count_; ++i) {
      memory_.push_back(std::make_unique<fakes::MemEngine>());
      auto fault = std::make_unique<fakes::FaultEngine>(*memory_.back(), fakes::FaultOptions{});
      faults_.push_back(fault.get());
      engines.push_back(std::move(fault));
    }
    return engines;
  }

  void TearDown() override {
    for (fakes::FaultEngine* fault : faults_) fault->Heal();
    if (store_) {
      store_->Close();
      store_->Clear();
      EXPECT_TRUE(Eventually([this] { return store_->stats().removals_pending.load() == 0; }));
      // Nothing is left behind (faults.md 11).
      for (const auto& memory : memory_) {
        EXPECT_TRUE(memory->disk()->Files().empty());
        const std::vector<std::string> folders = memory->disk()->Folders();
        EXPECT_TRUE(folders.empty() || folders == std::vector<std::string>{"apps"})
            << testing::PrintToString(folders);
      }
    }
    for (fakes::FaultEngine* fault : faults_) {
      EXPECT_TRUE(fault->Stop(std::chrono::steady_clock::now() + std::chrono::seconds(10)));
    }
    StoreTest::TearDown();
  }

  // Everything that memory and files hold of a partition, as a reader takes it: memory to its end,
  // then index and data. Block id -> bytes. Checks the rules a reader lives by on the way.
  std::map<int64_t, std::string> ReadAll(int32_t partition, int64_t page_bytes = 1 << 20) {
    std::map<int64_t, std::string> blocks;
    int64_t last = -1;
    while (true) {
      Result<MemoryAnswer> answer = Read(partition, last, page_bytes);
      EXPECT_TRUE(answer);
      if (!answer || answer->page.blocks.empty()) break;
      const std::string bytes = Bytes(answer->page);
      for (const PageBlock& block : answer->page.blocks) {
        blocks[block.meta.block_id] =
            bytes.substr(static_cast<size_t>(block.offset), static_cast<size_t>(block.meta.length));
      }
      last = answer->page.blocks.back().meta.block_id;
      if (answer->page.is_end) break;
    }
    Result<FileAnswer> index = ReadIndex(partition);
    EXPECT_TRUE(index);
    if (!index) return blocks;
    const std::string records = Bytes(index->bytes);
    EXPECT_EQ(records.size() % kIndexRecordBytes, 0u);
    int64_t expected_offset = 0;
    for (size_t at = 0; at < records.size(); at += kIndexRecordBytes) {
      const IndexRecord record =
          ReadIndexRecord(reinterpret_cast<const std::byte*>(records.data()) + at);
      EXPECT_EQ(record.logical_offset, expected_offset);  // gap-free from 0
      expected_offset += record.meta.length;
    }
    EXPECT_EQ(index->data_bytes, expected_offset);
    if (expected_offset == 0) return blocks;
    Result<FileAnswer> data = ReadData(partition, 0, expected_offset);
    EXPECT_TRUE(data);
    const std::string bytes = Bytes(data->bytes);
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), expected_offset);
    for (size_t at = 0; at < records.size(); at += kIndexRecordBytes) {
      const IndexRecord record =
          ReadIndexRecord(reinterpret_cast<const std::byte*>(records.data()) + at);
      std::string block = bytes.substr(static_cast<size_t>(record.logical_offset),
                                       static_cast<size_t>(record.meta.length));
      const auto known = blocks.find(record.meta.block_id);
      if (known != blocks.end()) {
        EXPECT_EQ(known->second, block);
      }
      blocks[record.meta.block_id] = std::move(block);
    }
    return blocks;
  }

  // Sends `blocks` blocks of `length` bytes to each partition and remembers them.
  void Fill(int partitions, int blocks, int32_t length) {
    for (int b = 0; b < blocks; ++b) {
      BatchBuilder batch;
      for (int32_t p = 0; p < partitions; ++p) {
        const int64_t id = (int64_t{next_id_++} << 22) | p;
        const char fill = static_cast<char>('a' + (id ^ (id >> 22)) % 26);
        batch.Add(p, id, length + b, fill, /*task=*/blocks - b);
        expected_[p][id] = std::string(static_cast<size_t>(length + b), fill);
      }
      ASSERT_TRUE(Send(batch));
    }
  }

  void ExpectAll() {
    for (const auto& [partition, blocks] : expected_) {
      EXPECT_EQ(ReadAll(partition), blocks) << "partition " << partition;
    }
  }

  int disk_count_ = kDisks;
  int64_t next_id_ = 1;
  std::map<int32_t, std::map<int64_t, std::string>> expected_;
  std::vector<std::unique_ptr<fakes::MemEngine>> memory_;
  std::vector<fakes::FaultEngine*> faults_;  // owned by the store's disks
};

TEST_F(FileStoreTest, WhatPassesTheWatermarkIsFlushedAndReadBack) {
  Register();
  Fill(20, 40, 5000);  // 4 MB through 1 MiB
  EXPECT_GT(store_->stats().flushed_bytes_total.load(), 2 << 20);
  ExpectAll();
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

TEST_F(FileStoreTest, AFailedFlushLosesNothingAndGoesOnWhenTheCauseIsGone) {
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

TEST_F(FileStoreTest, AFullDiskServesReadsAndWritersGetNoBuffer) {
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

TEST_F(FileStoreTest, TheOtherDiskTakesWhatABrokenOneCannot) {
  Register();
  faults_[0]->FailAll(fakes::Call::kAppend, EIO);
  Fill(20, 40, 5000);
  EXPECT_TRUE(store_->disks()[0]->broken());
  EXPECT_EQ(store_->disks()[0]->stats().appended_bytes_total.load(), 0);
  EXPECT_GT(store_->disks()[1]->stats().appended_bytes_total.load(), 0);
  ExpectAll();
}

TEST_F(FileStoreTest, APartitionMayLieOnSeveralDisks) {
  Register();
  Fill(3, 60, 5000);
  ASSERT_TRUE(Eventually([&] { return store_->stats().frozen_bytes.load() == 0; }));
  faults_[0]->FailAll(fakes::Call::kAppend, EIO);
  Fill(3, 120, 5000);
  EXPECT_GT(store_->stats().extents.load(), 6);
  ExpectAll();
  // A range that begins and ends inside of blocks, over the seams of extents.
  const Result<FileAnswer> whole = ReadData(1, 0, 500'000);
  const Result<FileAnswer> part = ReadData(1, 1234, 400'000);
  ASSERT_TRUE(whole && part);
  EXPECT_EQ(Bytes(part->bytes), Bytes(whole->bytes).substr(1234, 400'000));
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

TEST_F(FileStoreTest, UnreadableDataIsLostForGood) {
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

TEST_F(FileStoreTest, AFlippedByteInAnIndexIsFound) {
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

TEST_F(FileStoreTest, EndingAShuffleInTheMiddleOfAFlushLeavesNothing) {
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
  for (int round = 0; round < 4000 && acked.load() < 2000; ++round) {
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
