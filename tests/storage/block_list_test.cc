// A run of blocks in memory: what goes in comes out, once, in order, and never moves under a
// reader.
#include "storage/block_list.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/storage/store_fixture.h"

namespace dovetail::storage {
namespace {

class BlockListTest : public testing::Test {
 protected:
  BlockList::Appended Append(BlockList& list, const BatchBuilder& batch,
                             const BlockList* before = nullptr) {
    return list.Append(arena_, batch.batch().blocks, batch.batch().pieces, before);
  }

  static std::string DataOf(const BlockList& list, size_t i) {
    SliceChain chain;
    list.AppendSlices(i, chain);
    return Bytes(chain);
  }

  static std::vector<int64_t> IdsOf(const BlockList& list) {
    std::vector<int64_t> ids;
    for (size_t i = 0; i < list.size(); ++i) ids.push_back(list.meta(i).block_id);
    return ids;
  }

  Arena arena_;
};

TEST_F(BlockListTest, BlocksComeOutAsTheyWentIn) {
  BlockList list;
  EXPECT_TRUE(list.empty());
  const auto appended = Append(list, BatchBuilder().Add(0, 7, 5, 'a', 3).Add(0, 9, 1, 'b', 4));
  EXPECT_EQ(appended.stored_blocks, 2);
  EXPECT_EQ(appended.stored_bytes, 6);
  EXPECT_EQ(appended.duplicate_blocks, 0);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list.data_bytes(), 6);
  EXPECT_EQ(DataOf(list, 0), "aaaaa");
  EXPECT_EQ(DataOf(list, 1), "b");
  EXPECT_EQ(list.meta(1).block_id, 9);
  EXPECT_EQ(list.meta(1).crc, 9 * 7 + 1);
  EXPECT_EQ(list.meta(1).task_attempt_id, 4);
  EXPECT_EQ(list.meta(1).uncompress_length, 2);
}

TEST_F(BlockListTest, TheFirstOfDuplicatesStays) {
  BlockList before;
  Append(before, BatchBuilder().Add(0, 1, 10, 'x'));
  BlockList list;
  const auto appended = Append(
      list,
      BatchBuilder().Add(0, 1, 20, 'y').Add(0, 2, 30, 'a').Add(0, 2, 40, 'b').Add(0, 3, 1, 'c'),
      &before);
  EXPECT_EQ(appended.stored_blocks, 2);
  EXPECT_EQ(appended.stored_bytes, 31);
  EXPECT_EQ(appended.duplicate_blocks, 2);
  EXPECT_EQ(appended.duplicate_bytes, 60);
  EXPECT_EQ(IdsOf(list), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(DataOf(list, 0), std::string(30, 'a'));
  EXPECT_EQ(list.data_bytes(), 31);
  EXPECT_EQ(Append(list, BatchBuilder().Add(0, 3, 5, 'z')).duplicate_blocks, 1);
  EXPECT_EQ(DataOf(list, 1), "c");
}

TEST_F(BlockListTest, ABlockLargerThanAnyChunkIsOneRunOfSlices) {
  BlockList list;
  const auto large = static_cast<int32_t>(Arena::kCellBytesMax * 3 + 17);
  Append(list, BatchBuilder().Add(0, 1, 100, 'a').Add(0, 2, large, 'b').Add(0, 3, 100, 'c'));
  EXPECT_EQ(DataOf(list, 0), std::string(100, 'a'));
  EXPECT_EQ(DataOf(list, 1), std::string(static_cast<size_t>(large), 'b'));
  EXPECT_EQ(DataOf(list, 2), std::string(100, 'c'));
}

TEST_F(BlockListTest, NeighboursInOneChunkAreOneSlice) {
  BlockList list;
  BatchBuilder batch;
  for (int i = 0; i < 50; ++i) batch.Add(0, i, 100, static_cast<char>('a' + i % 26));
  Append(list, batch);
  SliceChain chain;
  for (size_t i = 0; i < 50; ++i) list.AppendSlices(i, chain);
  EXPECT_EQ(chain.size(), 1u) << "what comes in one batch gets one chunk";
  EXPECT_EQ(Bytes(chain).size(), 5000u);
  // In another order they are not neighbours.
  SliceChain backwards;
  list.AppendSlices(1, backwards);
  list.AppendSlices(0, backwards);
  EXPECT_EQ(backwards.size(), 2u);
  EXPECT_EQ(Bytes(backwards), std::string(100, 'b') + std::string(100, 'a'));
}

TEST_F(BlockListTest, SlicesKeepTheirBytesWhileTheListGrowsAndEnds) {
  SliceChain early;
  {
    BlockList list;
    Append(list, BatchBuilder().Add(0, 1, 300, 'a'));
    list.AppendSlices(0, early);
    for (int i = 2; i < 500; ++i) Append(list, BatchBuilder().Add(0, i, 300, 'z'));
    EXPECT_EQ(Bytes(early), std::string(300, 'a'));
  }
  EXPECT_EQ(Bytes(early), std::string(300, 'a'));
  early.clear();
  EXPECT_EQ(arena_.used_bytes(), 0);
}

TEST_F(BlockListTest, PrependPutsInFrontAndSharesTheMemory) {
  BlockList first;
  Append(first, BatchBuilder().Add(0, 1, 400, 'a').Add(0, 2, 400, 'b'));
  BlockList list;
  Append(list, BatchBuilder().Add(0, 3, 400, 'c').Add(0, 4, 400, 'd'));
  const int64_t used = arena_.used_bytes();
  list.Prepend(first);
  EXPECT_EQ(arena_.used_bytes(), used) << "nothing was copied";
  EXPECT_EQ(IdsOf(list), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(list.data_bytes(), 1600);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(DataOf(list, i), std::string(400, static_cast<char>('a' + i)));
    EXPECT_EQ(list.Find(static_cast<int64_t>(i + 1)), i);
  }
  EXPECT_EQ(Append(list, BatchBuilder().Add(0, 1, 1, 'z')).duplicate_blocks, 1);
  Append(list, BatchBuilder().Add(0, 5, 400, 'e'));
  EXPECT_EQ(DataOf(list, 4), std::string(400, 'e'));
  EXPECT_EQ(DataOf(list, 3), std::string(400, 'd'));
  EXPECT_EQ(DataOf(first, 1), std::string(400, 'b'));
}

// The last chunk of a list that was frozen has room; a reader may still look at its bytes, and
// nobody may write there again.
TEST_F(BlockListTest, NothingIsWrittenIntoChunksOfThePrepended) {
  BlockList first;
  Append(first, BatchBuilder().Add(0, 1, 10, 'a'));
  BlockList list;
  list.Prepend(first);
  Append(list, BatchBuilder().Add(0, 2, 10, 'b'));
  Append(first, BatchBuilder().Add(0, 3, 10, 'c'));
  EXPECT_EQ(DataOf(list, 0), std::string(10, 'a'));
  EXPECT_EQ(DataOf(list, 1), std::string(10, 'b'));
  EXPECT_EQ(DataOf(first, 1), std::string(10, 'c'));
  SliceChain chain;
  list.AppendSlices(0, chain);
  list.AppendSlices(1, chain);
  EXPECT_EQ(chain.size(), 2u) << "another chunk";
}

// Against a plain vector: appends with duplicates and prepends in any order.
TEST_F(BlockListTest, IsAVectorWithoutDuplicates) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    BlockList list;
    std::vector<std::pair<int64_t, std::string>> expected;
    int64_t next_first = -1;
    for (int step = 0; step < 60; ++step) {
      if (random() % 8 == 0) {
        BlockList first;
        const int64_t id = next_first--;
        Append(first, BatchBuilder().Add(0, id, 50, 'p'));
        list.Prepend(first);
        expected.insert(expected.begin(), {id, std::string(50, 'p')});
        continue;
      }
      const auto id = static_cast<int64_t>(random() % 100);
      const auto length = static_cast<int32_t>(1 + random() % 3000);
      const char fill = static_cast<char>('a' + random() % 26);
      Append(list, BatchBuilder().Add(0, id, length, fill));
      bool known = false;
      for (const auto& entry : expected) known = known || entry.first == id;
      if (!known) expected.emplace_back(id, std::string(static_cast<size_t>(length), fill));
    }
    ASSERT_EQ(list.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(list.meta(i).block_id, expected[i].first);
      ASSERT_EQ(DataOf(list, i), expected[i].second);
      ASSERT_EQ(list.Find(expected[i].first), i);
    }
    ASSERT_EQ(list.Find(1'000'000), std::nullopt);
  }
}

}  // namespace
}  // namespace dovetail::storage
