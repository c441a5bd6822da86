// A store with its threads, for tests: options to change, a clock to move, batches to make, and the
// check that nothing is left when everything was unregistered.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/shuffle_store.h"

namespace dovetail::storage {

// Owns the bytes of a batch.
class BatchBuilder {
 public:
  // fill: every byte of the block; task: its low bits would be the task in a real id.
  BatchBuilder& Add(int32_t partition, int64_t block_id, int32_t length, char fill,
                    int64_t task = 0) {
    data_.push_back(std::make_unique<std::string>(static_cast<size_t>(length), fill));
    if (batch_.groups.empty() || batch_.groups.back().partition != partition) {
      batch_.groups.push_back({partition, static_cast<uint32_t>(batch_.blocks.size()), 0});
    }
    ++batch_.groups.back().block_count;
    IncomingBlock block;
    block.meta = {.block_id = block_id,
                  .crc = block_id * 7 + 1,
                  .task_attempt_id = task,
                  .length = length,
                  .uncompress_length = length * 2};
    block.first_piece = static_cast<uint32_t>(batch_.pieces.size());
    // Two pieces where there can be two, as gRPC's slices cut blocks anywhere.
    const auto* bytes = reinterpret_cast<const std::byte*>(data_.back()->data());
    const size_t first = static_cast<size_t>(length) / 2;
    if (first > 0) batch_.pieces.emplace_back(bytes, first);
    batch_.pieces.emplace_back(bytes + first, static_cast<size_t>(length) - first);
    block.piece_count = static_cast<uint32_t>(batch_.pieces.size()) - block.first_piece;
    batch_.blocks.push_back(block);
    ticket_bytes_ += length + kTicketOverheadBytes;
    return *this;
  }

  const IncomingBatch& batch() const { return batch_; }
  IncomingBatch& batch() { return batch_; }
  int64_t ticket_bytes() const { return ticket_bytes_; }

 private:
  std::vector<std::unique_ptr<std::string>> data_;
  IncomingBatch batch_;
  int64_t ticket_bytes_ = 0;
};

inline std::string Bytes(const SliceChain& chain) {
  std::string all;
  for (const Slice& slice : chain) {
    all.append(reinterpret_cast<const char*>(slice.bytes.data()), slice.bytes.size());
  }
  return all;
}

inline std::string Bytes(const MemoryPage& page) { return Bytes(page.data); }

class StoreTest : public ::testing::Test {
 protected:
  static StoreOptions SmallOptions() {
    StoreOptions options;
    options.memory.capacity_bytes = 1 << 20;
    options.memory.require_wait_ms = 50;
    options.memory.read_wait_ms = 50;
    return options;
  }

  void SetUp() override { Open(SmallOptions()); }

  // Memory only; the tests of files give engines.
  virtual std::vector<std::unique_ptr<engine::Engine>> MakeEngines() { return {}; }

  void Open(const StoreOptions& options) {
    Drop();
    ticker_ = std::make_unique<Ticker>();
    store_ = std::make_unique<ShuffleStore>(
        options, arena_, executor_, *ticker_,
        [this] { return TimePoint(std::chrono::milliseconds(now_ms_.load())); }, MakeEngines());
  }

  void TearDown() override {
    Drop();
    executor_.Stop();
  }

  void Drop() {
    if (!store_) return;
    store_->Close();
    store_->Clear();
    // The background lets go of what it just answered a moment after the answer.
    EXPECT_TRUE(Eventually([this] {
      return store_->stats().removals_pending.load() == 0 && store_->stats().shuffles.load() == 0 &&
             store_->read_budget().bytes_in_flight() == 0;
    }));
    ExpectIdle();
    ticker_->Stop();
    store_.reset();
  }

  // Idle means zero (faults.md 11).
  void ExpectIdle() {
    EXPECT_EQ(store_->budget().figures().promised_bytes, 0);
    EXPECT_EQ(store_->budget().figures().used_bytes, 0);
    EXPECT_EQ(store_->stats().tickets.load(), 0);
    EXPECT_EQ(store_->stats().apps.load(), 0);
    EXPECT_EQ(store_->stats().shuffles.load(), 0);
    EXPECT_EQ(store_->stats().partitions.load(), 0);
    EXPECT_EQ(store_->stats().report_bytes.load(), 0);
    EXPECT_EQ(store_->stats().ranges.load(), 0);
    EXPECT_EQ(store_->budget().figures().metadata_bytes, 0);
    EXPECT_EQ(store_->read_budget().bytes_in_flight(), 0);
    EXPECT_TRUE(Eventually([this] { return store_->arena().used_bytes() == 0; }));
    EXPECT_EQ(store_->stats().frozen_bytes.load(), 0);
    EXPECT_EQ(store_->stats().extents.load(), 0);
    EXPECT_EQ(store_->index_cache().figures().bytes, 0);
  }

  // Until the background has done what was posted before, at most ten seconds.
  template <class Condition>
  static bool Eventually(Condition condition) {
    for (int i = 0; i < 10'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  void Register(const std::string& app = "app", int32_t shuffle = 0, int32_t last_partition = 99) {
    const PartitionRange range{0, last_partition};
    ASSERT_TRUE(store_->Register(app, shuffle, std::span(&range, 1), {}));
  }

  std::future<Result<int64_t>> RequireLater(int64_t bytes, const std::string& app = "app",
                                            int32_t shuffle = 0,
                                            std::vector<int32_t> partitions = {}) {
    auto promise = std::make_shared<std::promise<Result<int64_t>>>();
    store_->Require(app, shuffle, partitions, bytes,
                    [promise](Result<int64_t> ticket) { promise->set_value(std::move(ticket)); });
    return promise->get_future();
  }

  Result<int64_t> Require(int64_t bytes, const std::string& app = "app", int32_t shuffle = 0,
                          std::vector<int32_t> partitions = {}) {
    return RequireLater(bytes, app, shuffle, std::move(partitions)).get();
  }

  Status Send(const BatchBuilder& batch, const std::string& app = "app", int32_t shuffle = 0) {
    Result<int64_t> ticket = Require(batch.ticket_bytes(), app, shuffle);
    if (!ticket) return std::unexpected(ticket.error());
    Result<SendAdmission> admission = store_->AdmitSend(app, shuffle, *ticket);
    if (!admission) return std::unexpected(admission.error());
    return store_->Store(std::move(*admission), batch.batch());
  }

  std::future<Result<MemoryAnswer>> ReadLater(MemoryReadRequest request) {
    auto promise = std::make_shared<std::promise<Result<MemoryAnswer>>>();
    store_->ReadMemory(std::move(request), [promise](Result<MemoryAnswer> answer) {
      promise->set_value(std::move(answer));
    });
    return promise->get_future();
  }

  Result<FileAnswer> ReadIndex(int32_t partition, const std::string& app = "app",
                               int32_t shuffle = 0) {
    std::promise<Result<FileAnswer>> promise;
    store_->ReadIndex(app, shuffle, partition,
                      [&](Result<FileAnswer> answer) { promise.set_value(std::move(answer)); });
    return promise.get_future().get();
  }

  Result<FileAnswer> ReadData(int32_t partition, int64_t offset, int64_t length,
                              const std::string& app = "app", int32_t shuffle = 0) {
    std::promise<Result<FileAnswer>> promise;
    store_->ReadData(app, shuffle, partition, offset, length,
                     [&](Result<FileAnswer> answer) { promise.set_value(std::move(answer)); });
    return promise.get_future().get();
  }

  Result<std::string> Reported(std::vector<int32_t> partitions) {
    auto promise = std::make_shared<std::promise<Result<std::string>>>();
    store_->ReadReports("app", 0, std::move(partitions), [promise](Result<ReportsAnswer> answer) {
      if (answer) return promise->set_value(std::move(answer->bitmap));
      promise->set_value(std::unexpected(answer.error()));
    });
    return promise->get_future().get();
  }

  Result<MemoryAnswer> Read(int32_t partition, int64_t last_block_id = -1,
                            int64_t bytes_soft_max = 1 << 20,
                            std::shared_ptr<const TaskFilter> filter = nullptr,
                            const std::string& app = "app", int32_t shuffle = 0) {
    return ReadLater({app, shuffle, partition, last_block_id, bytes_soft_max, std::move(filter)})
        .get();
  }

  Arena arena_;
  Executor executor_{"test", 2};
  std::unique_ptr<Ticker> ticker_;  // one for each store: it must not call one that is gone
  std::atomic<int64_t> now_ms_{1'000'000};
  std::unique_ptr<ShuffleStore> store_;
};

}  // namespace dovetail::storage
