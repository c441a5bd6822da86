// Heads of batches in memory: as many as fit, the longest unused goes first, nothing stays.
#include "storage/index_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace dovetail::storage {
namespace {

using EntryRef = std::shared_ptr<IndexCache::Entry>;

GroupHeads Head(size_t bytes, int fill = 0) {
  return std::make_shared<const std::vector<std::byte>>(bytes, std::byte(fill));
}

// What one head of 840 bytes costs.
constexpr int64_t kCost = 1000;
constexpr size_t kBytes = 840;

TEST(IndexCache, KeepsWhatFits) {
  IndexCache cache(3 * kCost);
  std::vector<EntryRef> entries;
  for (int i = 0; i < 3; ++i) entries.push_back(cache.Add(Head(kBytes, i)));
  EXPECT_EQ(cache.figures().entries, 3);
  EXPECT_EQ(cache.figures().bytes, 3 * kCost) << "exactly the limit is no more than it";
  EXPECT_EQ(cache.figures().evictions_total, 0);
  for (int i = 0; i < 3; ++i) {
    const GroupHeads head = entries[static_cast<size_t>(i)]->Get();
    ASSERT_TRUE(head);
    EXPECT_EQ(head->at(0), std::byte(i));
    EXPECT_EQ(head->size(), kBytes);
  }
  EXPECT_EQ(cache.figures().hits_total, 3);
  EXPECT_EQ(cache.figures().misses_total, 0);
}

TEST(IndexCache, TheLongestUnusedGoesFirst) {
  IndexCache cache(3 * kCost);
  std::vector<EntryRef> entries;
  for (int i = 0; i < 3; ++i) entries.push_back(cache.Add(Head(kBytes)));
  EXPECT_TRUE(entries[0]->Get());  // now 1 is the one unused for longest
  entries.push_back(cache.Add(Head(kBytes)));
  EXPECT_EQ(cache.figures().entries, 3);
  EXPECT_EQ(cache.figures().evictions_total, 1);
  EXPECT_FALSE(entries[1]->Get());
  for (const size_t i : {0u, 2u, 3u}) EXPECT_TRUE(entries[i]->Get()) << i;
  EXPECT_EQ(cache.figures().misses_total, 1);
  EXPECT_FALSE(entries[1]->Get()) << "gone is gone";
  EXPECT_EQ(cache.figures().misses_total, 2);
}

TEST(IndexCache, ALargeOneDrivesOutSeveralAndATooLargeOneItself) {
  IndexCache cache(3 * kCost);
  std::vector<EntryRef> entries;
  for (int i = 0; i < 3; ++i) entries.push_back(cache.Add(Head(kBytes)));
  const EntryRef large = cache.Add(Head(kBytes + kCost));
  EXPECT_EQ(cache.figures().entries, 2);
  EXPECT_EQ(cache.figures().bytes, 3 * kCost);
  EXPECT_TRUE(large->Get());
  EXPECT_TRUE(entries[2]->Get());
  const EntryRef too_large = cache.Add(Head(3 * kCost));
  EXPECT_FALSE(too_large->Get());
  EXPECT_EQ(cache.figures().bytes, 0);
  EXPECT_EQ(cache.figures().entries, 0);
}

TEST(IndexCache, WithoutALimitForItNothingIsKept) {
  IndexCache cache(0);
  const EntryRef entry = cache.Add(Head(1));
  EXPECT_FALSE(entry->Get());
  EXPECT_EQ(cache.figures().bytes, 0);
  EXPECT_EQ(cache.figures().evictions_total, 1);
}

TEST(IndexCache, AHeadThatWasGotOutlivesItsPlace) {
  IndexCache cache(kCost);
  const EntryRef entry = cache.Add(Head(kBytes, 5));
  const GroupHeads head = entry->Get();
  const EntryRef other = cache.Add(Head(kBytes, 6));
  EXPECT_FALSE(entry->Get());
  EXPECT_EQ(head->at(kBytes - 1), std::byte(5));
}

TEST(IndexCache, EntriesEndInAnyOrderAndLeaveNothing) {
  std::mt19937_64 random(3);
  IndexCache cache(20 * kCost);
  std::vector<EntryRef> entries;
  int64_t ended_while_kept = 0;
  for (int step = 0; step < 5000; ++step) {
    if (entries.size() < 40 && random() % 2 == 0) {
      entries.push_back(cache.Add(Head(kBytes - random() % 400)));
    } else if (!entries.empty()) {
      const size_t i = random() % entries.size();
      if (random() % 2 == 0) {
        entries[i]->Get();
      } else {
        const int64_t before = cache.figures().entries;
        entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
        ended_while_kept += before - cache.figures().entries;
      }
    }
    ASSERT_LE(cache.figures().bytes, 20 * kCost);
    ASSERT_LE(cache.figures().entries, static_cast<int64_t>(entries.size()));
  }
  EXPECT_GT(ended_while_kept, 100);
  EXPECT_GT(cache.figures().evictions_total, 100);
  entries.clear();
  EXPECT_EQ(cache.figures().bytes, 0);
  EXPECT_EQ(cache.figures().entries, 0);
}

TEST(IndexCache, ManyThreadsShareIt) {
  IndexCache cache(10 * kCost);
  std::vector<std::thread> threads;
  std::atomic<int64_t> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, &wrong, t] {
      std::vector<EntryRef> mine;
      for (int i = 0; i < 2000; ++i) {
        mine.push_back(cache.Add(Head(kBytes, t)));
        if (mine.size() > 8) mine.erase(mine.begin() + i % 8);
        const GroupHeads head = mine[static_cast<size_t>(i) % mine.size()]->Get();
        if (head && head->at(0) != std::byte(t)) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(cache.figures().bytes, 0);
  EXPECT_EQ(cache.figures().hits_total + cache.figures().misses_total, 4 * 2000);
}

}  // namespace
}  // namespace dovetail::storage
