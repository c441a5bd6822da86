// A store over two disks in memory that can be made to fail, and a reader that takes memory and
// files as one and checks what a reader lives by.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "storage/segment_format.h"
#include "tests/fakes/fault_engine.h"
#include "tests/fakes/mem_engine.h"
#include "tests/storage/store_fixture.h"

namespace dovetail::storage {

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

}  // namespace dovetail::storage
