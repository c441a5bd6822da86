// Reading a partition page by page: exact ids, exact bytes, an end.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/e2e/wire/reader.h"
#include "tests/golden/roaring64_builder.h"

namespace dovetail::e2e {
namespace {

class PagingTest : public DaemonSuite<PagingTest> {
 public:
  static Settings MakeSettings() { return {"memory_store.capacity=256M"}; }

 protected:
  // Blocks of sizes from 1 byte up, of a few tasks, stored in batches.
  static std::vector<wire::ShuffleBlock> StoreMixed(const Target& target, int32_t partition,
                                                    int count) {
    std::mt19937 random(11);
    std::vector<wire::ShuffleBlock> all;
    while (static_cast<int>(all.size()) < count) {
      std::vector<wire::ShuffleBlock> batch;
      for (uint32_t i = 0; i < 1 + random() % 40; ++i) {
        const int64_t task = random() % 5;
        const size_t bytes = 1 + random() % (random() % 10 == 0 ? 300'000 : 3'000);
        const auto sequence = static_cast<int64_t>(all.size() + batch.size());
        batch.push_back(MakeBlock(BlockId(sequence, partition, task), bytes, task));
      }
      EXPECT_EQ(client().Store(target, {MakeGroup(partition, batch)}), wire::SUCCESS);
      all.insert(all.begin(), batch.begin(), batch.end());  // as they are read: the newest first
    }
    return all;
  }
};

TEST_F(PagingTest, EveryPageSizeGivesTheSameBlocks) {
  const Target target = Registered(3);
  const std::vector<wire::ShuffleBlock> sent = StoreMixed(target, 2, 600);
  StoreMixed(target, 1, 20);  // a neighbour that must not show
  for (const int32_t read_bytes : {1, 777, 50'000, 1 << 20, 14 << 20, INT32_MAX}) {
    for (const bool trust_is_end : {false, true}) {
      PageAsk ask{.target = target, .partition = 2, .read_bytes = read_bytes, .filter = {}};
      const PagesRead read = ReadPages(client(), ask, trust_is_end);
      ExpectBlocks(read.blocks, sent);
      if (read_bytes == 1) {
        EXPECT_GE(read.pages, static_cast<int>(sent.size()));
      }
      if (read_bytes == INT32_MAX) {
        EXPECT_EQ(read.pages, trust_is_end ? 1 : 2);
      }
    }
  }
  EXPECT_TRUE(ReadPages(client(), {.target = target, .filter = {}}).blocks.empty());
}

TEST_F(PagingTest, APageEndsWithTheBlockThatFillsIt) {
  const Target target = Registered(1);
  EXPECT_EQ(client().Store(target, {MakeBlocks(0, 0, 10, 100)}), wire::SUCCESS);
  const auto blocks_of = [&](int32_t read_bytes) {
    return ReadPage(client(), {.target = target, .read_bytes = read_bytes, .filter = {}})
        .shuffledatablocksegments_size();
  };
  EXPECT_EQ(blocks_of(1), 1);
  EXPECT_EQ(blocks_of(100), 1);
  EXPECT_EQ(blocks_of(101), 2);
  EXPECT_EQ(blocks_of(999), 10);
  EXPECT_EQ(blocks_of(1001), 10);
}

TEST_F(PagingTest, LastBlockIds) {
  const Target target = Registered(1);
  const wire::ShuffleData group = MakeBlocks(0, 0, 10, 100);
  EXPECT_EQ(client().Store(target, {group}), wire::SUCCESS);
  const auto read_behind = [&](int64_t last) {
    return ReadPages(client(), {.target = target, .last_block_id = last, .filter = {}}).blocks;
  };
  EXPECT_EQ(read_behind(group.block(3).blockid()).size(), 6u);
  EXPECT_EQ(read_behind(group.block(9).blockid()).size(), 0u);
  for (const int64_t unknown : {int64_t{12345}, INT64_MAX, INT64_MIN, int64_t{-2}}) {
    EXPECT_EQ(read_behind(unknown).size(), 10u) << "an unknown id is the start";
  }
}

TEST_F(PagingTest, OnlyTheTasksThatWereAskedFor) {
  const Target target = Registered(1);
  const std::vector<wire::ShuffleBlock> sent = StoreMixed(target, 0, 300);
  const double before = Metric("dovetail_filtered_reads_total");
  for (const std::vector<uint16_t>& tasks :
       {std::vector<uint16_t>{0}, {1, 3}, {0, 1, 2, 3, 4}, {9}, {2, 9}}) {
    std::vector<wire::ShuffleBlock> wanted;
    std::ranges::copy_if(sent, std::back_inserter(wanted), [&](const wire::ShuffleBlock& block) {
      return std::ranges::find(tasks, block.taskattemptid()) != tasks.end();
    });
    const std::string bitmap = golden::OneWord({golden::Array(0, tasks)});
    const std::string runs = golden::OneWord({golden::Runs(0, {{tasks.front(), tasks.front()}})});
    for (const int32_t read_bytes : {1, 5'000, 14 << 20}) {
      PageAsk ask{.target = target, .read_bytes = read_bytes, .filter = bitmap};
      ExpectBlocks(ReadPages(client(), ask).blocks, wanted);
      ExpectBlocks(ReadPages(client(), ask, true).blocks, wanted);
      if (tasks.size() > 1) continue;
      ask.filter = runs;
      ExpectBlocks(ReadPages(client(), ask).blocks, wanted);
    }
  }
  EXPECT_GT(Metric("dovetail_filtered_reads_total"), before);
}

TEST_F(PagingTest, DuplicatesChangeNothing) {
  const Target target = Registered(2);
  const std::vector<wire::ShuffleData> batch = {MakeBlocks(0, 0, 50, 1000),
                                                MakeBlocks(1, 0, 50, 500)};
  EXPECT_EQ(client().Store(target, batch), wire::SUCCESS);
  const double used = Metric("dovetail_memory_used_bytes");
  EXPECT_EQ(used, StoredBytes(batch));
  const int64_t last = batch[0].block(20).blockid();
  for (int resend = 0; resend < 5; ++resend) {
    EXPECT_EQ(client().Store(target, batch), wire::SUCCESS);
    EXPECT_EQ(Metric("dovetail_memory_used_bytes"), used);
    EXPECT_EQ(Metric("dovetail_memory_promised_bytes"), 0);
  }
  // Twice in one send, and once with other bytes: the first copy stays.
  wire::ShuffleBlock other = MakeBlock(batch[0].block(7).blockid(), 30);
  EXPECT_EQ(client().Store(target, {MakeGroup(0, {other, other}), MakeGroup(0, {other})}),
            wire::SUCCESS);
  EXPECT_EQ(Metric("dovetail_memory_used_bytes"), used);
  const std::vector<wire::ShuffleBlock> sent(batch[0].block().begin(), batch[0].block().end());
  ExpectBlocks(ReadPages(client(), {.target = target, .filter = {}}).blocks, sent);
  const PagesRead rest = ReadPages(
      client(), {.target = target, .last_block_id = last, .read_bytes = 1500, .filter = {}});
  ExpectBlocks(rest.blocks, {sent.begin() + 21, sent.end()});
}

// A reader that follows a writer sees a growing list whose end, the oldest, never changes.
TEST_F(PagingTest, WhileOthersWrite) {
  const Target target = Registered(1);
  constexpr int kWriters = 3;
  constexpr int kBatches = 60;
  std::vector<std::jthread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&target, writer] {
      WireClient own(daemon().grpc_port());
      for (int batch = 0; batch < kBatches; ++batch) {
        EXPECT_EQ(own.Store(target, {MakeBlocks(0, batch * 10, 10, 2000, writer)}), wire::SUCCESS);
      }
    });
  }
  std::vector<int64_t> before;
  constexpr size_t kAll = kWriters * kBatches * 10;
  while (before.size() < kAll && !HasFailure()) {
    const PagesRead read =
        ReadPages(client(), {.target = target, .read_bytes = 100'000, .filter = {}}, true);
    const std::vector<int64_t> now = IdsOf(read.blocks);
    ASSERT_GE(now.size(), before.size());
    ASSERT_TRUE(std::equal(before.rbegin(), before.rend(), now.rbegin())) << "the order changed";
    before = now;
  }
  std::ranges::sort(before);
  EXPECT_TRUE(std::ranges::adjacent_find(before) == before.end()) << "an id came twice";
}

}  // namespace
}  // namespace dovetail::e2e
