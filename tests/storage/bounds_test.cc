// What small things cost, and that none of it can grow without being counted.
#include <gtest/gtest.h>

#include <optional>

#include "tests/storage/store_fixture.h"

namespace dovetail::storage {
namespace {

TEST_F(StoreTest, AReportThatPassesTheLimitIsStoppedInTheMiddle) {
  StoreOptions options = SmallOptions();
  options.memory.report_bytes_max = 1 << 20;
  Open(options);
  Register();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 200'000; ++i) ids.push_back(i << 40);  // as dear as ids can be
  const PartitionReport report{1, ids};
  EXPECT_EQ(store_->Report("app", 0, std::span(&report, 1)).error().code, ErrorCode::kBusy);
  EXPECT_LT(store_->stats().report_bytes.load(), 2 << 20);
}

TEST_F(StoreTest, APartitionNamedManyTimesIsLookedAtOnce) {
  Register();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 20'000; ++i) ids.push_back(i * 65'537);
  const PartitionReport report{1, ids};
  ASSERT_TRUE(store_->Report("app", 0, std::span(&report, 1)));
  BlockBitmap expected;
  expected.Add(ids);
  // A million looks would take an hour.
  EXPECT_EQ(*Reported(std::vector<int32_t>(1'000'000, 1)), expected.Serialize());
}

TEST_F(StoreTest, ResultsDrawOnTheReadBudget) {
  StoreOptions options = SmallOptions();
  options.memory.read_bytes_max = 1000;
  Open(options);
  Register();
  const std::vector<int64_t> ids{5};
  const PartitionReport report{1, ids};
  ASSERT_TRUE(store_->Report("app", 0, std::span(&report, 1)));
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 5000, 'x')));
  std::optional<Result<MemoryAnswer>> out = Read(1);  // takes all of it
  ASSERT_TRUE(*out);
  EXPECT_EQ(Reported({1}).error().code, ErrorCode::kNoBuffer);
  out.reset();
  EXPECT_TRUE(Reported({1}));
}

TEST_F(StoreTest, PartitionsAreCountedForBeingThere) {
  Register("app", 0, 1'000'000);
  BatchBuilder batch;
  for (int32_t p = 0; p < 500; ++p) batch.Add(p, p, 1, 'x');
  ASSERT_TRUE(Send(batch));
  EXPECT_EQ(store_->budget().figures().metadata_bytes, 500 * kPartitionOverheadBytes);
  EXPECT_EQ(store_->budget().figures().used_bytes, 500 * (1 + kBlockOverheadBytes));
  // What they really take of the arena is part of it.
  EXPECT_LE(store_->arena().used_bytes(), 500 * kPartitionOverheadBytes);
  Status sent;
  for (int32_t p = 500; sent && p < 10'000; ++p) sent = Send(BatchBuilder().Add(p, p, 1, 'x'));
  EXPECT_EQ(sent.error().code,
            ErrorCode::kNoBuffer);  // the capacity holds, blocks of one byte or not
  EXPECT_LE(store_->budget().figures().total_bytes(), (1 << 20) + 2000);
}

TEST_F(StoreTest, SeparateRangesOfAllShufflesHaveALimit) {
  std::vector<PartitionRange> ranges;
  for (int32_t i = 0; i < 1'000'000; ++i) ranges.push_back({2 * i, 2 * i});
  int accepted = 0;
  while (accepted < 10 && store_->Register("app", accepted, ranges, {})) ++accepted;
  EXPECT_EQ(accepted, 4);
  store_->Unregister("app", 0);
  ASSERT_TRUE(Eventually([&] { return store_->stats().ranges.load() == 3'000'000; }));
  EXPECT_TRUE(store_->Register("app", 77, ranges, {}));
}

TEST_F(StoreTest, AFewBlocksOutOfManyChunksPinNoMoreThanTheyAre) {
  StoreOptions options = SmallOptions();
  options.memory.capacity_bytes = 32 << 20;
  Open(options);
  Register();
  for (int64_t i = 0; i < 80; ++i) {
    ASSERT_TRUE(Send(BatchBuilder()
                         .Add(1, 2 * i, 200'000, 'x', /*task=*/1)
                         .Add(1, 2 * i + 1, 100, 'y', /*task=*/2)));
  }
  BlockBitmap tasks;
  const int64_t two = 2;
  tasks.Add(std::span(&two, 1));
  auto filter = std::make_shared<TaskFilter>(*TaskFilter::Parse(tasks.Serialize()));
  Result<MemoryAnswer> page = Read(1, -1, 1 << 20, filter);
  ASSERT_TRUE(page);
  EXPECT_EQ(Bytes(page->page), std::string(8000, 'y'));
  store_->UnregisterApp("app");
  ASSERT_TRUE(Eventually([&] { return store_->budget().figures().used_bytes == 0; }));
  EXPECT_LE(store_->arena().used_bytes(), 2 * page->page.data_bytes);
}

TEST_F(StoreTest, APageOfTinyBlocksIsCountedWithItsSegmentsAndBounded) {
  StoreOptions options = SmallOptions();
  options.memory.capacity_bytes = 32 << 20;
  Open(options);
  Register();
  for (int64_t from = 0; from < 100'000; from += 10'000) {
    BatchBuilder batch;
    for (int64_t i = from; i < from + 10'000; ++i) batch.Add(1, i, 1, 'x');
    ASSERT_TRUE(Send(batch));
  }
  Result<MemoryAnswer> page = Read(1, -1, INT32_MAX);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->page.blocks.size(), Partition::kPageBlocksMax);
  EXPECT_FALSE(page->page.is_end);
  EXPECT_EQ(page->grant->bytes(),
            static_cast<int64_t>(Partition::kPageBlocksMax) * (1 + Partition::kSegmentBytes));
  Result<MemoryAnswer> rest = Read(1, page->page.blocks.back().meta.block_id, INT32_MAX);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->page.blocks.size(), 100'000 - Partition::kPageBlocksMax);
  EXPECT_TRUE(rest->page.is_end);
}

}  // namespace
}  // namespace dovetail::storage
