#include "storage/task_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/roaring64_builder.h"
#include "tests/golden/roaring64_cases.h"
#include "tests/golden/roaring64_slow_decoder.h"

namespace dovetail::storage {
namespace {

using golden::AppendBig;
using golden::AppendLittle;
using golden::Array;
using golden::Bitmap32;
using golden::Bitmap64;
using golden::Bitset;
using golden::Every;
using golden::OneWord;
using golden::Part;
using golden::Runs;
using golden::SlowDecoder;

bool Parses(std::string bytes) { return TaskFilter::Parse(std::move(bytes)).has_value(); }

// Asks for ids that are in, their neighbours, and others; samples when there are many.
void ExpectSameMembers(const TaskFilter& filter, const std::vector<uint64_t>& ids,
                       std::mt19937_64& random, size_t samples) {
  const auto check = [&](uint64_t id) {
    ASSERT_EQ(filter.Contains(static_cast<int64_t>(id)), std::ranges::binary_search(ids, id))
        << std::hex << id;
  };
  const size_t step = ids.size() / (samples + 1) + 1;
  for (size_t i = 0; i < ids.size(); i += step) {
    for (const uint64_t id :
         {ids[i], ids[i] + 1, ids[i] - 1, ids[i] ^ uint64_t{1} << 16, ids[i] ^ uint64_t{1} << 32,
          ids[i] ^ uint64_t{1} << 63, ids[i] ^ random() % 65536}) {
      check(id);
    }
  }
  for (int i = 0; i < 4; ++i) check(random());
  for (int i = 0; i < 4; ++i) check(random() % 200'000);
}

TEST(TaskFilterTest, AcceptsAllThatJavaWrites) {
  std::mt19937_64 random(1);
  int with_bytes = 0;
  for (const golden::BitmapCase& one : golden::ReadBitmapCases(DOVETAIL_SOURCE_DIR)) {
    SCOPED_TRACE(one.name + " " + one.flags);
    if (one.bytes.empty()) continue;
    ++with_bytes;
    const auto filter = TaskFilter::Parse(one.bytes);
    ASSERT_TRUE(filter.has_value());
    std::vector<uint64_t> ids;
    for (const int64_t id : golden::IdsOf(one.recipe)) ids.push_back(static_cast<uint64_t>(id));
    std::ranges::sort(ids);
    ASSERT_EQ(static_cast<int64_t>(ids.size()), one.cardinality);
    ExpectSameMembers(*filter, ids, random, ids.size());
    EXPECT_EQ(SlowDecoder::Decode(one.bytes), ids);
  }
  EXPECT_GE(with_bytes, 35);
}

TEST(TaskFilterTest, EmptySetsAreValidAndContainNothing) {
  for (const std::string& bytes :
       {Bitmap64({}), Bitmap64({}, 1), Bitmap64({{0, Bitmap32({})}}),
        Bitmap64({{0, Bitmap32({})}, {7, Bitmap32({})}, {0xFFFFFFFF, Bitmap32({})}})}) {
    const auto filter = TaskFilter::Parse(bytes);
    ASSERT_TRUE(filter.has_value());
    for (const int64_t id : {0LL, 1LL, 7LL << 32, -1LL}) EXPECT_FALSE(filter->Contains(id));
  }
  EXPECT_FALSE(Parses(""));
}

TEST(TaskFilterTest, SignedOrderIsSearchedRight) {
  const std::string one = Bitmap32({Array(0, {1})});
  const std::vector<std::pair<uint32_t, std::string>> ascending = {
      {0x80000000, one}, {0xFFFFFFFF, one}, {0, one}, {0x7FFFFFFF, one}};
  const auto filter = TaskFilter::Parse(Bitmap64(ascending, 1));
  ASSERT_TRUE(filter.has_value());
  for (const auto& [high, bitmap] : ascending) {
    EXPECT_TRUE(filter->Contains(static_cast<int64_t>(uint64_t{high} << 32 | 1))) << high;
    EXPECT_FALSE(filter->Contains(static_cast<int64_t>(uint64_t{high} << 32 | 2))) << high;
  }
  EXPECT_FALSE(filter->Contains(1LL << 32 | 1));
  EXPECT_FALSE(Parses(Bitmap64(ascending, 0)));
  EXPECT_FALSE(Parses(Bitmap64({{0, one}, {0xFFFFFFFF, one}}, 1)));
  EXPECT_TRUE(Parses(Bitmap64({{0, one}, {0xFFFFFFFF, one}}, 0)));
  EXPECT_FALSE(Parses(Bitmap64(ascending, 2)));
  EXPECT_FALSE(Parses(Bitmap64({{5, one}, {5, one}})));
  EXPECT_FALSE(Parses(Bitmap64({{5, one}, {5, one}}, 1)));
}

TEST(TaskFilterTest, OffsetsAreOmittedWithRunsAndFewContainers) {
  std::mt19937_64 random(2);
  std::vector<Part> parts;
  for (uint16_t key = 0; key < 6; ++key) {
    if (key % 3 == 0) {
      parts.push_back(Runs(key, {{0, 9}, {20, 65535}}));
    } else if (key % 3 == 1) {
      parts.push_back(Array(key, {1, 5, 65535}));
    } else {
      parts.push_back(Bitset(key, Every(2, 5000)));
    }
    SCOPED_TRACE(key);
    // With and without a real run among them.
    for (const std::string& bytes :
         {OneWord(parts), Bitmap64({{0, Bitmap32({parts.begin() + 1, parts.end()}, true)}})}) {
      if (parts.size() == 1 && bytes != OneWord(parts)) continue;
      const auto filter = TaskFilter::Parse(bytes);
      const auto ids = SlowDecoder::Decode(bytes);
      ASSERT_TRUE(filter.has_value());
      ASSERT_TRUE(ids.has_value());
      ExpectSameMembers(*filter, *ids, random, 500);
    }
  }
}

TEST(TaskFilterTest, CardinalityDecidesTheKindOfContainer) {
  EXPECT_TRUE(Parses(OneWord({Array(0, Every(3, 4096))})));
  EXPECT_TRUE(Parses(OneWord({Bitset(0, Every(3, 4097))})));
  EXPECT_FALSE(Parses(OneWord({Array(0, Every(3, 4097))})));
  EXPECT_FALSE(Parses(OneWord({Bitset(0, Every(3, 4095))})));
  // 4096 values as bits have just the length of the array, but do not ascend.
  EXPECT_FALSE(Parses(OneWord({Bitset(0, Every(3, 4096))})));
  EXPECT_TRUE(Parses(OneWord({Runs(0, {{0, 65535}})})));
  EXPECT_TRUE(Parses(OneWord({Bitset(0, Every(1, 65536))})));
}

TEST(TaskFilterTest, LyingContainersAreRefused) {
  Part bits = Bitset(0, Every(3, 5000));
  bits.cardinality = 5001;
  EXPECT_FALSE(Parses(OneWord({bits})));
  Part runs = Runs(0, {{1, 9}});
  runs.cardinality = 8;
  EXPECT_FALSE(Parses(OneWord({runs})));
  EXPECT_FALSE(Parses(OneWord({Array(0, {3, 3})})));
  EXPECT_FALSE(Parses(OneWord({Array(0, {3, 2})})));
  EXPECT_FALSE(Parses(OneWord({Array(4, {1}), Array(4, {2})})));
  EXPECT_FALSE(Parses(OneWord({Array(4, {1}), Array(3, {2})})));
}

TEST(TaskFilterTest, RunsAscendWithoutOverlapAndStayInside) {
  EXPECT_TRUE(Parses(OneWord({Runs(0, {{1, 9}, {11, 20}})})));
  EXPECT_TRUE(Parses(OneWord({Runs(0, {{1, 9}, {10, 20}})})));  // touching: Java takes it too
  EXPECT_FALSE(Parses(OneWord({Runs(0, {{1, 9}, {9, 20}})})));
  EXPECT_FALSE(Parses(OneWord({Runs(0, {{11, 20}, {1, 9}})})));
  EXPECT_FALSE(Parses(OneWord({Runs(0, {{65530, 65540}})})));
  Part none{0, 65536, true, std::string(2, '\0')};
  EXPECT_FALSE(Parses(OneWord({none})));
}

TEST(TaskFilterTest, OffsetsMustBeTrue) {
  std::string bytes = OneWord({Array(0, {1}), Array(1, {2}), Array(2, {3})});
  EXPECT_TRUE(Parses(bytes));
  const size_t offsets = 5 + 4 + 8 + 12;
  for (size_t i = 0; i < 12; ++i) {
    std::string lying = bytes;
    lying[offsets + i] = static_cast<char>(lying[offsets + i] ^ 2);
    EXPECT_FALSE(Parses(lying)) << i;
  }
}

TEST(TaskFilterTest, CountsBeyondTheBytesAreRefused) {
  for (const uint32_t count : {2U, 3U, 1U << 16, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFFU}) {
    std::string words = OneWord({Array(0, {1})});
    std::string count_bytes;
    AppendBig(count, 4, count_bytes);
    words.replace(1, 4, count_bytes);
    EXPECT_FALSE(Parses(words)) << count;

    std::string containers = OneWord({Array(0, {1})});
    count_bytes.clear();
    AppendLittle(count, 4, count_bytes);
    containers.replace(13, 4, count_bytes);
    EXPECT_FALSE(Parses(containers)) << count;
  }
  EXPECT_FALSE(Parses(OneWord({Array(0, {1})}) + '\0'));
  EXPECT_FALSE(Parses(Bitmap64({}) + '\0'));
}

TEST(TaskFilterTest, MoreContainersThanKeysAreRefused) {
  std::string bytes(1, '\0');
  AppendBig(1, 4, bytes);
  AppendBig(0, 4, bytes);
  AppendLittle(12346, 4, bytes);
  AppendLittle(65537, 4, bytes);
  bytes += std::string(10 * 65537, '\0');
  EXPECT_FALSE(Parses(bytes));
}

TEST(TaskFilterTest, EveryTruncationIsRefused) {
  const std::string bytes =
      Bitmap64({{0, Bitmap32({Array(0, {1, 2}), Runs(3, {{1, 9}})})},
                {1, Bitmap32({Array(0, {7}), Array(1, {7}), Array(2, {7}), Array(9, {7})})},
                {9, Bitmap32({Array(0, {1}), Bitset(1, Every(5, 5000))})}});
  ASSERT_TRUE(Parses(bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(Parses(bytes.substr(0, size))) << size;
  }
}

std::vector<std::string> MutationBases() {
  std::vector<std::string> bases;
  for (const golden::BitmapCase& one : golden::ReadBitmapCases(DOVETAIL_SOURCE_DIR)) {
    // Few ids, so that the slow decoder is not too slow.
    if (one.cardinality < 2'000 && !one.bytes.empty() && one.bytes.size() < 500) {
      bases.push_back(one.bytes);
    }
  }
  bases.push_back(OneWord({Array(0, {1, 2}), Runs(1, {{0, 3}, {9, 12}}), Array(2, {9})}));
  bases.push_back(OneWord({Array(0, {1, 2}), Runs(1, {{0, 3}, {9, 12}}), Array(2, {9}),
                           Runs(7, {{100, 200}, {202, 300}, {65534, 65535}})}));
  bases.push_back(OneWord({Runs(0, {{1, 2}}), Runs(1, {{3, 4}}), Runs(2, {{5, 6}})}));
  const std::string one = Bitmap32({Array(5, {1, 2, 3})});
  bases.push_back(Bitmap64({{0x80000000, one}, {0xFFFFFFFE, one}, {0, one}, {1, one}}, 1));
  bases.push_back(Bitmap64({{0, Bitmap32({})}, {1, one}, {2, Bitmap32({})}}));
  return bases;
}

void Mutate(std::string& bytes, std::mt19937_64& random) {
  static constexpr uint64_t kLies[] = {
      0,       1,       3,     4,     4095,    4096,    0x7FFF,     0x8000,     0xFFFF,
      0x10000, 0x10001, 12346, 12347, 0x1303B, 0x7303B, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
  if (bytes.empty()) bytes.push_back(0);
  const size_t at = random() % bytes.size();
  switch (random() % 8) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
      break;
    case 1:
      bytes[at] = static_cast<char>(random());
      break;
    case 2:
      bytes[at] = static_cast<char>(bytes[at] + (random() % 2 == 0 ? 1 : -1));
      break;
    case 3:
      bytes.resize(at);
      break;
    case 4:
      bytes.insert(at, bytes.substr(random() % bytes.size(), 1 + random() % 30));
      break;
    case 5:
      bytes.erase(at, 1 + random() % 12);
      break;
    default: {
      std::string lie;
      const int width = random() % 2 == 0 ? 2 : 4;
      if (random() % 2 == 0) {
        AppendLittle(kLies[random() % std::size(kLies)], width, lie);
      } else {
        AppendBig(kLies[random() % std::size(kLies)], width, lie);
      }
      bytes.replace(at, lie.size(), lie);
    }
  }
}

// Whatever becomes of the bytes: no fault, the same verdict as the slow decoder, and the same
// members.
void MutateAndCompare(const std::vector<std::string>& bases, uint64_t seed, int inputs,
                      size_t samples, int& valid) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < inputs; ++i) {
    std::string bytes = bases[random() % bases.size()];
    for (uint64_t times = random() % 4 == 0 ? 3 : 1; times > 0; --times) Mutate(bytes, random);
    const auto expected = SlowDecoder::Decode(bytes);
    // Exactly sized, so that a read beyond the end is seen by the address sanitizer.
    bytes.shrink_to_fit();
    const auto filter = TaskFilter::Parse(bytes);
    ASSERT_EQ(filter.has_value(), expected.has_value()) << "seed " << seed << " input " << i;
    if (!filter) {
      ASSERT_EQ(filter.error().code, ErrorCode::kInvalid);
      continue;
    }
    ++valid;
    ExpectSameMembers(*filter, *expected, random, samples);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed << " input " << i;
  }
}

TEST(TaskFilterTest, MutatedBytesNeverFaultAndNeverLie) {
  int valid = 0;
  MutateAndCompare(MutationBases(), 20240607, 100'000, 20, valid);
  EXPECT_GT(valid, 3'000);
  EXPECT_LT(valid, 90'000);
}

TEST(TaskFilterTest, MutatedBitsetsNeverFaultAndNeverLie) {
  int valid = 0;
  const std::vector<std::string> bases = {
      OneWord({Bitset(0, Every(3, 4097))}),
      Bitmap64({{0, Bitmap32({Bitset(0, Every(2, 6000)), Array(1, {1}), Runs(3, {{1, 60000}})})},
                {3, Bitmap32({Array(1, Every(16, 4096))})}})};
  MutateAndCompare(bases, 20240608, 2'000, 50, valid);
  EXPECT_GT(valid, 20);
}

}  // namespace
}  // namespace dovetail::storage
