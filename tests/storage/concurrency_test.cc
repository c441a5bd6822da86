// Everybody at once on few shuffles, and at the end nothing is left. Run under ThreadSanitizer as
// well.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/storage/store_fixture.h"

namespace dovetail::storage {
namespace {

class ConcurrencyTest : public StoreTest {
 protected:
  static constexpr int kShuffles = 3;
  static constexpr int kPartitions = 4;

  // One writer's life: sends to random shuffles, that may end at any moment.
  void Write(unsigned seed, int rounds) {
    std::mt19937 random(seed);
    for (int i = 0; i < rounds; ++i) {
      const auto shuffle = static_cast<int32_t>(random() % kShuffles);
      BatchBuilder batch;
      for (int32_t p = 0; p < kPartitions; ++p) {
        batch.Add(p, (int64_t{seed} << 32) | static_cast<int64_t>(random() % 5000),
                  1 + static_cast<int32_t>(random() % 3000), static_cast<char>('a' + p));
      }
      const Status sent = Send(batch, "app", shuffle);
      if (sent) continue;
      EXPECT_TRUE(sent.error().code == ErrorCode::kNotFound ||
                  sent.error().code == ErrorCode::kNoBuffer ||
                  sent.error().code == ErrorCode::kInvalid)  // the ticket of a former life
          << ToString(sent.error().code);
    }
  }

  // One reader's life: pages through, every byte must be the partition's own.
  void ReadAll(unsigned seed, int rounds) {
    std::mt19937 random(seed);
    for (int i = 0; i < rounds; ++i) {
      const auto shuffle = static_cast<int32_t>(random() % kShuffles);
      const auto partition = static_cast<int32_t>(random() % kPartitions);
      int64_t last = -1;
      for (int page = 0; page < 20; ++page) {
        Result<MemoryAnswer> answer = Read(partition, last, 20'000, nullptr, "app", shuffle);
        if (!answer || answer->page.blocks.empty()) break;
        const std::string bytes = Bytes(answer->page);
        ASSERT_EQ(bytes.find_first_not_of(static_cast<char>('a' + partition)), std::string::npos);
        last = answer->page.blocks.back().meta.block_id;
      }
    }
  }

  void Churn(unsigned seed, int rounds) {
    std::mt19937 random(seed);
    for (int i = 0; i < rounds; ++i) {
      const auto shuffle = static_cast<int32_t>(random() % kShuffles);
      store_->Unregister("app", shuffle);
      Register("app", shuffle, kPartitions - 1);
      now_ms_ += 1000;
      store_->ExpireTickets();
      const std::vector<int64_t> ids{static_cast<int64_t>(random())};
      const PartitionReport report{0, ids};
      (void)store_->Report("app", shuffle, std::span(&report, 1));
      std::promise<void> read;
      store_->ReadReports("app", shuffle, {0}, [&read](auto) { read.set_value(); });
      read.get_future().get();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    }
  }
};

TEST_F(ConcurrencyTest, SendsReadsReportsAndRemovalsLeaveNothingBehind) {
  StoreOptions options = SmallOptions();
  options.memory.capacity_bytes = 4 << 20;
  options.memory.require_wait_ms = 5;
  Open(options);
  for (int32_t shuffle = 0; shuffle < kShuffles; ++shuffle) Register("app", shuffle, 3);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i) threads.emplace_back([this, i] { Write(i + 1, 300); });
  for (unsigned i = 0; i < 2; ++i) threads.emplace_back([this, i] { ReadAll(i + 10, 300); });
  threads.emplace_back([this] { Churn(99, 150); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(store_->stats().received_blocks_total.load(), 0);
  EXPECT_GT(store_->stats().memory_read_blocks_total.load(), 0);
}

// The promise that readers live by: what was acknowledged is there, while others write and read.
TEST_F(ConcurrencyTest, EveryAckedBlockIsReadable) {
  StoreOptions options = SmallOptions();
  options.memory.capacity_bytes = 64 << 20;
  Open(options);
  Register("app", 0, 0);
  constexpr int kWriters = 4;
  constexpr int kBlocks = 500;
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([this, w] {
      for (int i = 0; i < kBlocks; ++i) {
        const int64_t id = (int64_t{w} << 32) | i;
        ASSERT_TRUE(Send(BatchBuilder().Add(0, id, 100 + i, static_cast<char>('a' + w))));
        const Result<MemoryAnswer> after = Read(0, id, 1);  // starts behind it: so it is there
        ASSERT_TRUE(after);
        if (!after->page.blocks.empty()) {
          ASSERT_NE(after->page.blocks[0].meta.block_id, id);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<int64_t, int> seen;
  int64_t last = -1;
  while (true) {
    const Result<MemoryAnswer> page = Read(0, last, 50'000);
    ASSERT_TRUE(page);
    if (page->page.blocks.empty()) break;
    for (const PageBlock& block : page->page.blocks) ++seen[block.meta.block_id];
    last = page->page.blocks.back().meta.block_id;
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kWriters * kBlocks));
  for (const auto& [id, count] : seen) EXPECT_EQ(count, 1) << id;
}

}  // namespace
}  // namespace dovetail::storage
