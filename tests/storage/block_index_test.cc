#include "storage/block_index.h"

#include <gtest/gtest.h>

#include <vector>

namespace dovetail::storage {
namespace {

// Looks at the list per block, over adding and finding all of them: the measure of how well ids
// spread.
double LooksPerBlock(const std::vector<int64_t>& ids) {
  BlockIndex index;
  int64_t looks = 0;
  const auto id_at = [&](uint32_t i) {
    ++looks;
    return ids[i];
  };
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_FALSE(index.Find(ids[i], i, id_at));
    index.Added(i + 1, id_at);
  }
  for (uint32_t i = 0; i < ids.size(); ++i) EXPECT_EQ(index.Find(ids[i], ids.size(), id_at), i);
  return static_cast<double>(looks) / static_cast<double>(ids.size());
}

TEST(BlockIndex, SparksIdsSpread) {
  std::vector<int64_t> one_task;
  std::vector<int64_t> many_tasks;
  for (int64_t i = 0; i < 100'000; ++i) {
    one_task.push_back((i << 42) | (int64_t{3} << 22) | 5);
    many_tasks.push_back((int64_t{3} << 22) | i);
  }
  EXPECT_LT(LooksPerBlock(one_task), 20);
  EXPECT_LT(LooksPerBlock(many_tasks), 20);
}

// Ids that a fixed multiplicative hash would put into one place.
TEST(BlockIndex, IdsThatCollideCannotBeComputed) {
  uint64_t inverse = 1;  // of the golden-ratio multiplier, by Newton's iteration
  for (int i = 0; i < 6; ++i) inverse *= 2 - 0x9E3779B97F4A7C15ULL * inverse;
  std::vector<int64_t> ids;
  for (uint64_t high = 0; high < 50'000; ++high) {
    const uint64_t hash = (high << 32) | high;  // its halves cancel out
    ids.push_back(static_cast<int64_t>(hash * inverse));
  }
  EXPECT_LT(LooksPerBlock(ids), 20);
}

}  // namespace
}  // namespace dovetail::storage
