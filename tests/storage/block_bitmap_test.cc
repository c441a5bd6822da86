#include "storage/block_bitmap.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/task_filter.h"
#include "tests/golden/roaring64_cases.h"

namespace dovetail::storage {
namespace {

using Ids = std::vector<int64_t>;

BlockBitmap Of(const Ids& ids) {
  BlockBitmap bitmap;
  bitmap.Add(ids);
  return bitmap;
}

// Ids of many shapes: dense, sparse, spread over words, of both signs.
Ids RandomIds(std::mt19937_64& random, size_t count) {
  const uint64_t shape = random() % 4;
  Ids ids;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t word = random();
    switch (shape) {
      case 0:
        ids.push_back(static_cast<int64_t>(word));
        break;
      case 1:
        ids.push_back(static_cast<int64_t>(word % 20'000));
        break;
      case 2:
        ids.push_back(static_cast<int64_t>(word % 5 << 42 | (word >> 8) % 9'000 * 4));
        break;
      default:
        ids.push_back(-static_cast<int64_t>(word % 300'000));
        break;
    }
  }
  return ids;
}

TEST(BlockBitmapTest, EmptyIsZeroBytesAndZeroMemory) {
  BlockBitmap bitmap;
  EXPECT_EQ(bitmap.Add({}), 0);
  EXPECT_TRUE(bitmap.Empty());
  EXPECT_EQ(bitmap.Cardinality(), 0);
  EXPECT_EQ(bitmap.MemoryBytes(), 0);
  EXPECT_EQ(bitmap.Serialize(), "");
  EXPECT_FALSE(bitmap.Contains(0));
}

TEST(BlockBitmapTest, AddCountsOnlyNewIds) {
  BlockBitmap bitmap;
  EXPECT_EQ(bitmap.Add(Ids{5, 3, 5, -1, 3}), 3);
  EXPECT_EQ(bitmap.Add(Ids{3, -1, 5}), 0);
  EXPECT_EQ(bitmap.Add(Ids{4, 5}), 1);
  EXPECT_EQ(bitmap.Cardinality(), 4);
  for (const int64_t id : {-1, 3, 4, 5}) EXPECT_TRUE(bitmap.Contains(id)) << id;
  for (const int64_t id : {-2, 0, 2, 6}) EXPECT_FALSE(bitmap.Contains(id)) << id;
}

TEST(BlockBitmapTest, TakesEveryInt64) {
  const Ids ids = {std::numeric_limits<int64_t>::min(), -1, 0, 1LL << 32,
                   std::numeric_limits<int64_t>::max()};
  const BlockBitmap bitmap = Of(ids);
  EXPECT_EQ(bitmap.Cardinality(), 5);
  for (const int64_t id : ids) EXPECT_TRUE(bitmap.Contains(id)) << id;
  EXPECT_FALSE(bitmap.Contains(std::numeric_limits<int64_t>::min() + 1));
  EXPECT_FALSE(bitmap.Contains((1LL << 32) - 1));
}

TEST(BlockBitmapTest, AgreesWithASetWhateverTheOrderOfReports) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    BlockBitmap bitmap;
    std::set<int64_t> expected;
    for (int report = 0; report < 12; ++report) {
      Ids ids = RandomIds(random, 1 + random() % 1500);
      if (random() % 2 == 0) std::ranges::sort(ids);
      const size_t before = expected.size();
      expected.insert(ids.begin(), ids.end());
      ASSERT_EQ(bitmap.Add(ids), static_cast<int64_t>(expected.size() - before));
      ASSERT_EQ(bitmap.Cardinality(), static_cast<int64_t>(expected.size()));
    }
    for (const int64_t id : expected) {
      ASSERT_TRUE(bitmap.Contains(id));
      ASSERT_EQ(bitmap.Contains(id + 1), expected.contains(id + 1));
    }
    const auto reread = TaskFilter::Parse(bitmap.Serialize());
    ASSERT_TRUE(reread.has_value());
    for (const int64_t id : expected) {
      ASSERT_TRUE(reread->Contains(id));
      ASSERT_EQ(reread->Contains(id + 1), expected.contains(id + 1));
    }
  }
}

TEST(BlockBitmapTest, UnionIsTheSameAsAddingAll) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Ids left_ids = RandomIds(random, 6'000);
    const Ids right_ids = RandomIds(random, 6'000);
    BlockBitmap left = Of(left_ids);
    const BlockBitmap right = Of(right_ids);
    const std::string right_bytes = right.Serialize();
    left.Union(right);
    EXPECT_EQ(right.Serialize(), right_bytes);

    BlockBitmap expected = Of(left_ids);
    expected.Add(right_ids);
    EXPECT_EQ(left.Cardinality(), expected.Cardinality());
    EXPECT_EQ(left.Serialize(), expected.Serialize());
    EXPECT_GE(left.MemoryBytes(), static_cast<int64_t>(left.Serialize().size()));
  }
  BlockBitmap from_nothing;
  from_nothing.Union(BlockBitmap{});
  EXPECT_TRUE(from_nothing.Empty());
  EXPECT_EQ(from_nothing.MemoryBytes(), 0);
}

TEST(BlockBitmapTest, MovedFromIsEmptyAndUsable) {
  BlockBitmap source = Of({1, 2, 3});
  const int64_t bytes = source.MemoryBytes();
  BlockBitmap target = Of({9});
  target = std::move(source);
  EXPECT_EQ(target.Cardinality(), 3);
  EXPECT_EQ(target.MemoryBytes(), bytes);
  EXPECT_FALSE(target.Contains(9));
  EXPECT_EQ(source.Cardinality(), 0);  // NOLINT(bugprone-use-after-move): this is what is promised
  EXPECT_EQ(source.MemoryBytes(), 0);
  EXPECT_EQ(source.Add(Ids{7}), 1);
}

TEST(BlockBitmapTest, MemoryIsNeverBelowTheSerializedSize) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    BlockBitmap bitmap;
    for (int report = 0; report < 20; ++report) {
      const Ids ids = RandomIds(random, 1 + random() % 800);
      bitmap.Add(ids);
      const int64_t bytes = bitmap.MemoryBytes();
      ASSERT_EQ(bitmap.Add(ids), 0);
      ASSERT_EQ(bitmap.MemoryBytes(), bytes);
      ASSERT_GE(bitmap.MemoryBytes(), static_cast<int64_t>(bitmap.Serialize().size()));
    }
  }
  // Containers that were left as they are, without runs.
  EXPECT_GE(Of(golden::IdsOf("range 0 4000 16777216")).MemoryBytes(), 4000 * 27);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// A sanitizer's allocator does not answer mallinfo2.
TEST(BlockBitmapTest, MemoryIsCloseToWhatTheAllocatorGaveOut) {
  for (const char* recipe :
       {"spark 21/20/22 7 4000 1 4", "spark 21/20/22 7 2000 10 4", "spark 21/20/22 7 1 200000 4",
        "range 0 60000 65537", "range 0 3000 1099511627776", "range -400000 800000 1"}) {
    SCOPED_TRACE(recipe);
    Ids ids = golden::IdsOf(recipe);
    const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    auto bitmap = std::make_unique<BlockBitmap>();
    // In small reports, as tasks send them.
    for (size_t i = 0; i < ids.size(); i += 100) {
      bitmap->Add(std::span(ids).subspan(i, std::min<size_t>(100, ids.size() - i)));
    }
    const auto real = static_cast<double>(mallinfo2().uordblks + mallinfo2().hblkhd - before);
    EXPECT_GT(static_cast<double>(bitmap->MemoryBytes()), 0.8 * real);
    EXPECT_LT(static_cast<double>(bitmap->MemoryBytes()), 1.5 * real);
  }
}
#endif

TEST(BlockBitmapTest, BytesAreThoseOfTheJavaClient) {
  // What Java writes after runOptimize where it makes runs, and without it otherwise.
  std::map<std::string, golden::BitmapCase> expected;
  for (const golden::BitmapCase& one : golden::ReadBitmapCases(DOVETAIL_SOURCE_DIR)) {
    if (one.Signed()) continue;
    if (one.Runs() || !expected.contains(one.name)) expected[one.name] = one;
  }
  ASSERT_GE(expected.size(), 30U);
  for (const auto& [name, one] : expected) {
    SCOPED_TRACE(name);
    const BlockBitmap bitmap = Of(golden::IdsOf(one.recipe));
    EXPECT_EQ(bitmap.Cardinality(), one.cardinality);
    const std::string bytes = bitmap.Serialize();
    if (bitmap.Empty()) continue;  // 0 bytes where Java writes a count of 0: see protocol
    ASSERT_EQ(bytes.size(), one.size);
    EXPECT_EQ(golden::Fnv1a64(bytes), one.hash);
    if (!one.bytes.empty()) {
      EXPECT_EQ(bytes, one.bytes);
    }
  }
}

TEST(BlockBitmapTest, FourMillionIdsOfSparksLayout) {
  const Ids ids = golden::IdsOf("spark 21/20/22 12 40 100000 4");
  ASSERT_EQ(ids.size(), 4'000'000U);
  const BlockBitmap bitmap = Of(ids);
  EXPECT_EQ(bitmap.Cardinality(), 4'000'000);
  const auto reread = TaskFilter::Parse(bitmap.Serialize());
  ASSERT_TRUE(reread.has_value());
  for (size_t i = 0; i < ids.size(); i += 997) {
    ASSERT_TRUE(reread->Contains(ids[i]));
    ASSERT_FALSE(reread->Contains(ids[i] + 1));
  }
}

// A union that fills a container comes out of the library as a run container.
TEST(BlockBitmap, FullContainersAreNothingSpecial) {
  const auto range = [](int64_t from, int64_t to) {
    std::vector<int64_t> ids;
    for (int64_t id = from; id < to; ++id) ids.push_back(id);
    return ids;
  };
  BlockBitmap low;
  low.Add(range(0, 40'000));
  BlockBitmap high;
  high.Add(range(30'000, 65'536));
  BlockBitmap both;
  both.Union(low);
  both.Union(high);
  EXPECT_EQ(both.Cardinality(), 65'536);
  EXPECT_EQ(both.Add(range(65'000, 66'000)), 464);
  both.Union(high);
  EXPECT_EQ(both.Cardinality(), 66'000);
  BlockBitmap at_once;
  at_once.Add(range(0, 66'000));
  EXPECT_EQ(at_once.Cardinality(), 66'000);
  EXPECT_EQ(both.Serialize(), at_once.Serialize());
  EXPECT_GT(both.MemoryBytes(), 0);
}

}  // namespace
}  // namespace dovetail::storage
