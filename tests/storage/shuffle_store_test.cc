#include "storage/shuffle_store.h"

#include <gtest/gtest.h>

#include "tests/storage/store_fixture.h"

namespace dovetail::storage {
namespace {

TEST_F(StoreTest, WhatWasAckedIsReadBack) {
  Register();
  BatchBuilder batch;
  batch.Add(3, 10, 1000, 'a').Add(3, 11, 5, 'b').Add(7, 12, 300'000, 'c');
  ASSERT_TRUE(Send(batch));

  Result<MemoryAnswer> three = Read(3);
  ASSERT_TRUE(three);
  EXPECT_EQ(Bytes(three->page), std::string(1000, 'a') + "bbbbb");
  ASSERT_EQ(three->page.blocks.size(), 2u);
  EXPECT_EQ(three->page.blocks[1].meta.block_id, 11);
  EXPECT_EQ(three->page.blocks[1].offset, 1000);
  EXPECT_EQ(three->page.blocks[1].meta.crc, 78);
  EXPECT_EQ(three->page.blocks[1].meta.uncompress_length, 10);
  EXPECT_TRUE(three->page.is_end);
  Result<MemoryAnswer> seven = Read(7);
  ASSERT_TRUE(seven);
  EXPECT_EQ(Bytes(seven->page), std::string(300'000, 'c'));
  EXPECT_EQ(store_->budget().figures().used_bytes, 301'005 + 3 * kBlockOverheadBytes);
  EXPECT_EQ(store_->budget().figures().promised_bytes, 0);
}

TEST_F(StoreTest, PagesAreStableAndEndAtTheBlockThatReachesTheLimit) {
  Register();
  BatchBuilder batch;
  for (int i = 0; i < 100; ++i) batch.Add(1, 1000 + i, 100, static_cast<char>('A' + i % 26));
  ASSERT_TRUE(Send(batch));
  std::vector<int64_t> ids;
  int64_t last = -1;
  while (true) {
    Result<MemoryAnswer> page = Read(1, last, 250);
    ASSERT_TRUE(page);
    if (page->page.blocks.empty()) {
      EXPECT_TRUE(page->page.is_end);
      break;
    }
    EXPECT_LE(page->page.blocks.size(), 3u);
    EXPECT_EQ(page->page.is_end, page->page.blocks.back().meta.block_id == 1099);
    for (const PageBlock& block : page->page.blocks) ids.push_back(block.meta.block_id);
    last = ids.back();
  }
  ASSERT_EQ(ids.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], 1000 + i);
}

TEST_F(StoreTest, ABlockLargerThanThePageIsReturnedWhole) {
  Register();
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 5, 600'000, 'x').Add(1, 6, 10, 'y')));
  Result<MemoryAnswer> page = Read(1, -1, 1);
  ASSERT_TRUE(page);
  ASSERT_EQ(page->page.blocks.size(), 1u);
  EXPECT_EQ(page->page.data_bytes, 600'000);
  EXPECT_FALSE(page->page.is_end);
}

TEST_F(StoreTest, AnUnknownLastBlockStartsFromTheBeginning) {
  Register();
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 5, 10, 'x').Add(1, 6, 10, 'y')));
  Result<MemoryAnswer> page = Read(1, 999);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->page.blocks.size(), 2u);
}

TEST_F(StoreTest, OfDuplicatesTheFirstCopyWinsAndCostsOnce) {
  Register();
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 5, 10, 'x').Add(1, 6, 20, 'y')));
  const int64_t used = store_->budget().figures().used_bytes;
  // The whole batch again, with other bytes, twice the same id inside, and one new block between.
  ASSERT_TRUE(Send(
      BatchBuilder().Add(1, 5, 10, 'z').Add(1, 7, 30, 'n').Add(1, 7, 30, 'm').Add(1, 6, 20, 'z')));
  EXPECT_EQ(store_->budget().figures().used_bytes, used + 30 + kBlockOverheadBytes);
  EXPECT_EQ(store_->stats().duplicate_blocks_total.load(), 3);
  Result<MemoryAnswer> page = Read(1);
  ASSERT_TRUE(page);
  // The newest send first.
  EXPECT_EQ(Bytes(page->page), std::string(30, 'n') + std::string(10, 'x') + std::string(20, 'y'));
}

TEST_F(StoreTest, ManyBlocksAreFoundByTheIndexToo) {
  Register();
  for (int round = 0; round < 2; ++round) {
    for (int part = 0; part < 10; ++part) {
      BatchBuilder batch;
      for (int i = 0; i < 100; ++i) {
        batch.Add(2, (int64_t{part} << 42) | i, 3, static_cast<char>('a' + part));
      }
      ASSERT_TRUE(Send(batch));
    }
  }
  EXPECT_EQ(store_->stats().duplicate_blocks_total.load(), 1000);
  Result<MemoryAnswer> rest = Read(2, (int64_t{8} << 42) | 98);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->page.blocks.size(), 801u);  // the last one of its send, and all older sends
}

TEST_F(StoreTest, TheFilterKeepsTheBlocksOfItsTasks) {
  Register();
  ASSERT_TRUE(Send(BatchBuilder()
                       .Add(1, 5, 10, 'x', /*task=*/4)
                       .Add(1, 6, 10, 'y', /*task=*/5)
                       .Add(1, 7, 10, 'z', /*task=*/4)));
  BlockBitmap tasks;
  const int64_t four = 4;
  tasks.Add(std::span(&four, 1));
  auto filter = std::make_shared<TaskFilter>(*TaskFilter::Parse(tasks.Serialize()));
  Result<MemoryAnswer> page = Read(1, -1, 1 << 20, filter);
  ASSERT_TRUE(page);
  EXPECT_EQ(Bytes(page->page), std::string(10, 'x') + std::string(10, 'z'));
  EXPECT_TRUE(page->page.is_end);
  EXPECT_EQ(store_->stats().filtered_memory_reads_total.load(), 1);
}

TEST_F(StoreTest, RegisteredButEmptyIsEmpty) {
  Register();
  Result<MemoryAnswer> page = Read(1);
  ASSERT_TRUE(page);
  EXPECT_TRUE(page->page.blocks.empty());
  EXPECT_TRUE(page->page.is_end);
  Result<std::string> ids = Reported({1});
  ASSERT_TRUE(ids);
  EXPECT_EQ(*ids, "");
}

TEST_F(StoreTest, TheUnknownIsNotFound) {
  Register("app", 0, 9);
  EXPECT_EQ(Require(10, "other").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Require(10, "app", 1).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Require(10, "app", 0, {3, 10}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Read(10).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Read(1, -1, 10, nullptr, "ap").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Read(1, -1, 10, nullptr, "app1").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Send(BatchBuilder().Add(10, 1, 5, 'x')).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->Heartbeat("other").error().code, ErrorCode::kNotFound);
  const PartitionReport report{10, {}};
  EXPECT_EQ(store_->Report("app", 0, std::span(&report, 1)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Reported({10}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ReadIndex(10).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ReadData(10, 0, 5).error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, ABatchIsStoredWholeOrNotAtAll) {
  Register("app", 0, 9);
  EXPECT_FALSE(Send(BatchBuilder().Add(1, 1, 100, 'x').Add(10, 2, 100, 'y')));
  EXPECT_TRUE(Read(1)->page.blocks.empty());
  EXPECT_EQ(store_->budget().figures().used_bytes, 0);
  EXPECT_EQ(store_->budget().figures().promised_bytes, 0);
}

TEST_F(StoreTest, ATicketIsUsedOnceByItsOwnShuffle) {
  Register("app", 0);
  Register("app", 1);
  const Result<int64_t> ticket = Require(1000, "app", 0);
  ASSERT_TRUE(ticket);
  EXPECT_GT(*ticket, 0);
  EXPECT_EQ(store_->AdmitSend("app", 1, *ticket).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(store_->budget().figures().promised_bytes, 1000);
  { EXPECT_TRUE(store_->AdmitSend("app", 0, *ticket)); }
  EXPECT_EQ(store_->budget().figures().promised_bytes, 0);
  EXPECT_EQ(store_->AdmitSend("app", 0, *ticket).error().code, ErrorCode::kInvalid);
}

TEST_F(StoreTest, ASendMayNotNeedMoreThanItsTicket) {
  Register();
  BatchBuilder batch;
  batch.Add(1, 1, 1000, 'x');
  const Result<int64_t> ticket = Require(batch.ticket_bytes() - 1);
  Result<SendAdmission> admission = store_->AdmitSend("app", 0, *ticket);
  ASSERT_TRUE(admission);
  EXPECT_EQ(store_->Store(std::move(*admission), batch.batch()).error().code, ErrorCode::kInvalid);
  EXPECT_TRUE(Read(1)->page.blocks.empty());
}

TEST_F(StoreTest, WhatATicketDidNotUseComesBack) {
  Register();
  const Result<int64_t> ticket = Require(100'000);
  Result<SendAdmission> admission = store_->AdmitSend("app", 0, *ticket);
  ASSERT_TRUE(store_->Store(std::move(*admission), BatchBuilder().Add(1, 1, 10, 'x').batch()));
  EXPECT_EQ(store_->budget().figures().promised_bytes, 0);
  EXPECT_EQ(store_->budget().figures().used_bytes, 10 + kBlockOverheadBytes);
}

TEST_F(StoreTest, OldTicketsGoBack) {
  Register();
  ASSERT_TRUE(Require(1000));
  now_ms_ += 299'000;
  const Result<int64_t> young = Require(500);
  ASSERT_TRUE(young);
  now_ms_ += 1'000;
  store_->ExpireTickets();
  EXPECT_EQ(store_->budget().figures().promised_bytes, 500);
  EXPECT_EQ(store_->stats().expired_tickets_total.load(), 1);
  EXPECT_TRUE(store_->AdmitSend("app", 0, *young));
}

TEST_F(StoreTest, UnregisterEndsTicketsDataAndReports) {
  Register();
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 10, 'x')));
  const int64_t id = 1;
  const PartitionReport report{1, std::span(&id, 1)};
  ASSERT_TRUE(store_->Report("app", 0, std::span(&report, 1)));
  const Result<int64_t> ticket = Require(1000);
  store_->Unregister("app", 0);
  EXPECT_EQ(store_->AdmitSend("app", 0, *ticket).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Read(1).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(Eventually([&] { return store_->stats().shuffles.load() == 0; }));
  EXPECT_EQ(store_->budget().figures().used_bytes, 0);
  EXPECT_EQ(store_->budget().figures().promised_bytes, 0);
  EXPECT_EQ(store_->stats().report_bytes.load(), 0);
  EXPECT_TRUE(store_->Heartbeat("app"));  // the application itself lives on
}

TEST_F(StoreTest, TheSameShuffleRegisteredAgainStartsEmpty) {
  Register();
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 10, 'x')));
  const Result<int64_t> old_ticket = Require(1000);
  store_->Unregister("app", 0);
  Register();
  EXPECT_TRUE(Read(1)->page.blocks.empty());
  EXPECT_EQ(store_->AdmitSend("app", 0, *old_ticket).error().code, ErrorCode::kInvalid);
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 20, 'y')));
  EXPECT_EQ(Bytes(Read(1)->page), std::string(20, 'y'));
}

TEST_F(StoreTest, ASendThatIsOvertakenByUnregisterIsNotAcked) {
  Register();
  const Result<int64_t> ticket = Require(1000);
  Result<SendAdmission> admission = store_->AdmitSend("app", 0, *ticket);
  ASSERT_TRUE(admission);
  store_->Unregister("app", 0);
  Register();  // a new life, which must not get the old life's blocks
  EXPECT_EQ(
      store_->Store(std::move(*admission), BatchBuilder().Add(1, 1, 10, 'x').batch()).error().code,
      ErrorCode::kNotFound);
  EXPECT_TRUE(Read(1)->page.blocks.empty());
}

TEST_F(StoreTest, UnregisterOfOneAppTouchesNoOther) {
  Register("app_1");
  Register("app_10");
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 10, 'x'), "app_10"));
  store_->UnregisterApp("app_1");
  store_->UnregisterApp("never seen");
  store_->Unregister("app_10", 77);
  EXPECT_EQ(Bytes(Read(1, -1, 100, nullptr, "app_10")->page), std::string(10, 'x'));
}

TEST_F(StoreTest, RegisteringAgainAddsRangesAndKeepsData) {
  Register("app", 0, 9);
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 10, 'x')));
  const PartitionRange more{20, 29};
  ASSERT_TRUE(store_->Register("app", 0, std::span(&more, 1), {}));
  EXPECT_EQ(Bytes(Read(1)->page), std::string(10, 'x'));
  EXPECT_TRUE(Read(25));
  EXPECT_FALSE(Read(15));
}

TEST_F(StoreTest, ABadRangeBeginsNoLife) {
  const PartitionRange bad[] = {{0, 5}, {7, 6}};
  EXPECT_EQ(store_->Register("app", 0, bad, {}).error().code, ErrorCode::kInvalid);
  const PartitionRange negative{-1, 6};
  EXPECT_FALSE(store_->Register("app", 0, std::span(&negative, 1), {}));
  EXPECT_EQ(store_->stats().apps.load(), 0);
}

TEST_F(StoreTest, SilentAppsExpireAndOthersStay) {
  Register("old");
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 10, 'x'), "old"));
  now_ms_ += 9 * 60'000;
  Register("young");
  now_ms_ += 60'001;
  store_->ExpireApps();
  EXPECT_FALSE(store_->Heartbeat("old"));
  EXPECT_TRUE(store_->Heartbeat("young"));
  EXPECT_TRUE(Eventually([&] { return store_->budget().figures().used_bytes == 0; }));
  EXPECT_EQ(store_->stats().expired_apps_total.load(), 1);
}

TEST_F(StoreTest, EveryCallRefreshesAnApp) {
  Register();
  for (int i = 0; i < 3; ++i) {
    now_ms_ += 9 * 60'000;
    EXPECT_TRUE(Read(1));
    store_->ExpireApps();
  }
  EXPECT_TRUE(store_->Heartbeat("app"));
}

TEST_F(StoreTest, ReportsAreSetsAndUnionOverPartitions) {
  Register();
  const std::vector<int64_t> one{5, 6, int64_t{7} << 42};
  const std::vector<int64_t> two{6, 9};
  const PartitionReport reports[] = {{1, one}, {2, two}};
  ASSERT_TRUE(store_->Report("app", 0, reports));
  ASSERT_TRUE(store_->Report("app", 0, reports));  // retried
  const std::vector<int32_t> both{1, 2};
  BlockBitmap expected;
  expected.Add(one);
  expected.Add(two);
  EXPECT_EQ(*Reported(both), expected.Serialize());
  const std::vector<int32_t> second{2};
  BlockBitmap only_two;
  only_two.Add(two);
  EXPECT_EQ(*Reported(second), only_two.Serialize());
}

TEST_F(StoreTest, AReportWithOneUnknownPartitionChangesNothing) {
  Register("app", 0, 9);
  const std::vector<int64_t> ids{5};
  const PartitionReport reports[] = {{1, ids}, {10, ids}};
  EXPECT_FALSE(store_->Report("app", 0, reports));
  EXPECT_EQ(*Reported({1}), "");
}

TEST_F(StoreTest, ReportsHaveALimit) {
  StoreOptions options = SmallOptions();
  options.memory.report_bytes_max = 1000;
  Open(options);
  Register();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 100; ++i) ids.push_back(i << 40);
  const PartitionReport report{1, ids};
  ASSERT_TRUE(store_->Report("app", 0, std::span(&report, 1)));
  EXPECT_EQ(store_->Report("app", 0, std::span(&report, 1)).error().code, ErrorCode::kBusy);
  store_->Unregister("app", 0);
  ASSERT_TRUE(Eventually([&] { return store_->stats().report_bytes.load() == 0; }));
  Register();
  EXPECT_TRUE(store_->Report("app", 0, std::span(&report, 1)));
}

TEST_F(StoreTest, SlicesOutliveTheShuffle) {
  Register();
  ASSERT_TRUE(Send(BatchBuilder().Add(1, 1, 100'000, 'x')));
  Result<MemoryAnswer> answer = Read(1);
  ASSERT_TRUE(answer);
  store_->UnregisterApp("app");
  ASSERT_TRUE(Eventually([&] { return store_->budget().figures().used_bytes == 0; }));
  EXPECT_EQ(Bytes(answer->page), std::string(100'000, 'x'));
  EXPECT_EQ(store_->read_budget().bytes_in_flight(), 100'000 + Partition::kSegmentBytes);
}

}  // namespace
}  // namespace dovetail::storage
