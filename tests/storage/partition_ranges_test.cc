#include "storage/partition_ranges.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>
#include <vector>

namespace dovetail::storage {
namespace {

TEST(PartitionRanges, AgreesWithASetForRandomRanges) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    PartitionRanges ranges;
    std::set<int32_t> expected;
    for (int i = 0; i < 20; ++i) {
      const auto start = static_cast<int32_t>(random() % 60);
      const auto end = start + static_cast<int32_t>(random() % 6);
      const PartitionRange range{start, end};
      ASSERT_TRUE(ranges.Add(std::span(&range, 1)));
      for (int32_t p = start; p <= end; ++p) expected.insert(p);
    }
    for (int32_t p = -2; p < 70; ++p) EXPECT_EQ(ranges.Contains(p), expected.contains(p)) << p;
  }
}

TEST(PartitionRanges, TheLargestPartitionIsOne) {
  constexpr int32_t kLast = std::numeric_limits<int32_t>::max();
  PartitionRanges ranges;
  const PartitionRange parts[] = {{kLast, kLast}, {kLast - 1, kLast - 1}, {0, 0}};
  ASSERT_TRUE(ranges.Add(parts));
  EXPECT_TRUE(ranges.Contains(kLast));
  EXPECT_TRUE(ranges.Contains(kLast - 1));
  EXPECT_TRUE(ranges.Contains(0));
  EXPECT_FALSE(ranges.Contains(1));
  EXPECT_FALSE(ranges.Contains(kLast - 2));
}

TEST(PartitionRanges, BadOnesChangeNothing) {
  PartitionRanges ranges;
  const PartitionRange bad[] = {{0, 3}, {5, 4}};
  EXPECT_EQ(ranges.Add(bad).error().code, ErrorCode::kInvalid);
  EXPECT_FALSE(ranges.Contains(0));
}

TEST(PartitionRanges, SeparateRangesHaveALimitButNeighboursMerge) {
  constexpr auto kMany = static_cast<int32_t>(PartitionRanges::kRangesMax) + 1;
  std::vector<PartitionRange> neighbours;
  std::vector<PartitionRange> separate;
  for (int32_t i = 0; i < kMany; ++i) {
    neighbours.push_back({i, i});
    separate.push_back({2 * i, 2 * i});
  }
  PartitionRanges ranges;
  EXPECT_TRUE(ranges.Add(neighbours));
  EXPECT_TRUE(ranges.Contains(kMany - 1));
  PartitionRanges limited;
  EXPECT_EQ(limited.Add(separate).error().code, ErrorCode::kBusy);
  EXPECT_FALSE(limited.Contains(0));
}

}  // namespace
}  // namespace dovetail::storage
