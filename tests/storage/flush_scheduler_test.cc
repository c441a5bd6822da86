// When to flush, how much, of whom and whereto. The disks are stepped: what was asked for stays
// asked for until the test lets them work.
#include "storage/flush_scheduler.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "storage/shuffle.h"
#include "tests/fakes/mem_engine.h"
#include "tests/storage/store_fixture.h"

namespace dovetail::storage {
namespace {

constexpr int64_t kCapacity = 1'000'000;
constexpr int32_t kBlock = 936;
constexpr int64_t kUsed = kBlock + kBlockOverheadBytes;  // 1000: what a block takes of the budget

class FlushSchedulerTest : public testing::Test {
 protected:
  static constexpr int kDisks = 2;
  static constexpr int kSlots = 4;

  FlushSchedulerTest() {
    options_.memory.capacity_bytes = kCapacity;
    options_.hybrid.memory_spill_high_watermark = 0.8;
    options_.hybrid.memory_spill_low_watermark = 0.2;
  }

  // After the options are set.
  void Open() {
    for (int i = 0; i < kDisks; ++i) {
      auto engine = std::make_unique<fakes::MemEngine>(fakes::MemOptions{.stepped = true});
      engines_.push_back(engine.get());
      disks_.push_back(std::make_unique<Disk>(i, "/disk", std::move(engine), options_.local_file,
                                              SteadyClock(), nullptr));
    }
    scheduler_ = std::make_unique<FlushScheduler>(
        FlushScheduler::Inputs{.budget = budget_,
                               .disks = {disks_[0].get(), disks_[1].get()},
                               .frozen_bytes = [this] { return stats_.frozen_bytes.load(); },
                               .waiting_bytes = [this] { return waiting_bytes_; },
                               .shuffles = [this] { return shuffles_; }},
        options_);
  }

  void TearDown() override {
    for (const auto& shuffle : shuffles_) {
      EXPECT_EQ(shuffle->gate().Close(), Gate::Closing::kEmpty);
      shuffle->Purge([] {});
    }
    Work();
    shuffles_.clear();
    EXPECT_EQ(budget_.figures().total_bytes(), promised_bytes_);
    if (promised_bytes_ > 0) budget_.ReturnPromise(promised_bytes_);
    scheduler_.reset();
  }

  Shuffle& AddShuffle() {
    const int64_t generation = next_generation_++;
    auto shuffle =
        std::make_shared<Shuffle>(Shuffle::Shared{.arena = arena_,
                                                  .budget = budget_,
                                                  .stats = stats_,
                                                  .index_cache = index_cache_,
                                                  .ticket_ids = ticket_ids_,
                                                  .options = options_,
                                                  .slots = kSlots,
                                                  .on_flush_ended = [] {}},
                                  generation, "apps/app/0." + std::to_string(generation));
    const PartitionRange all{0, 1 << 20};
    EXPECT_TRUE(shuffle->AddRanges(std::span(&all, 1)));
    shuffles_.push_back(shuffle);
    return *shuffle;
  }

  // So many blocks, spread evenly over the slots.
  void Fill(Shuffle& shuffle, int blocks) {
    for (int i = 0; i < blocks; ++i) FillSlot(shuffle, i % kSlots, 1);
  }
  void FillSlot(Shuffle& shuffle, int slot, int blocks) {
    for (; blocks > 0; --blocks) {
      int32_t partition = next_partition_++;
      while (shuffle.SlotOf(partition) != slot) partition = next_partition_++;
      BatchBuilder batch;
      batch.Add(partition, 1, kBlock, 'x');
      ASSERT_TRUE(budget_.TryPromise(kUsed));
      budget_.Redeem(kUsed, kUsed);
      shuffle.Append(partition, batch.batch().blocks, batch.batch().pieces);
    }
  }

  // Bytes of the shuffle that were asked for and not frozen yet.
  static int64_t Asked(const Shuffle& shuffle, int64_t staged_blocks) {
    return staged_blocks * kBlock - shuffle.flushable_bytes();
  }

  void Promise(int64_t bytes) {
    ASSERT_TRUE(budget_.TryPromise(bytes));
    promised_bytes_ += bytes;
  }

  // The disks do all that they were asked for.
  void Work() {
    for (bool worked = true; worked;) {
      worked = false;
      for (fakes::MemEngine* engine : engines_) worked = engine->RunAll() || worked;
    }
  }

  StoreOptions options_;
  Arena arena_;
  MemoryBudget budget_{kCapacity};
  StoreStats stats_;
  IndexCache index_cache_{0};
  std::atomic<int64_t> ticket_ids_{0};
  int64_t waiting_bytes_ = 0;
  int64_t promised_bytes_ = 0;
  int64_t next_generation_ = 1;
  int32_t next_partition_ = 0;
  std::vector<fakes::MemEngine*> engines_;
  std::vector<std::unique_ptr<Disk>> disks_;
  std::vector<std::shared_ptr<Shuffle>> shuffles_;
  std::unique_ptr<FlushScheduler> scheduler_;
};

TEST_F(FlushSchedulerTest, AboveTheHighWatermarkItAsksForAllAboveTheLowOneOnce) {
  options_.hybrid.memory_spill_high_watermark = 0.3;
  options_.hybrid.memory_spill_low_watermark = 0.1;
  Open();
  ASSERT_EQ(scheduler_->slots(), kSlots);
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 300);
  scheduler_->Evaluate();
  EXPECT_EQ(Asked(shuffle, 300), 0) << "at the watermark is not above it";
  Fill(shuffle, 1);
  scheduler_->Evaluate();
  EXPECT_EQ(Asked(shuffle, 301), 201 * kUsed);
  scheduler_->Evaluate();
  EXPECT_EQ(Asked(shuffle, 301), 201 * kUsed) << "what was asked for is not asked for again";
  for (int slot = 0; slot < kSlots; ++slot) {
    EXPECT_LT(shuffle.flushable_bytes(slot), 301 / kSlots * kBlock) << "every shard has work";
  }
  Work();
  EXPECT_LE(budget_.figures().used_bytes, 100 * kUsed);
  EXPECT_GE(budget_.figures().used_bytes, 70 * kUsed);
  EXPECT_EQ(shuffle.flushable_bytes() / kBlock * kUsed, budget_.figures().used_bytes)
      << "all that was asked for is settled";
  const auto left = shuffle.flushable_bytes() / kBlock;
  Fill(shuffle, static_cast<int>(301 - left));
  scheduler_->Evaluate();
  EXPECT_EQ(Asked(shuffle, 301), 201 * kUsed) << "and the next time begins from nothing";
}

TEST_F(FlushSchedulerTest, WhatIsBeingFlushedDoesNotCount) {
  options_.hybrid.memory_spill_high_watermark = 0.3;
  options_.hybrid.memory_spill_low_watermark = 0.1;
  Open();
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 301);
  stats_.frozen_bytes.fetch_add(1000);
  scheduler_->Evaluate();
  EXPECT_EQ(Asked(shuffle, 301), 0);
  stats_.frozen_bytes.fetch_sub(1000);
  scheduler_->Evaluate();
  EXPECT_EQ(Asked(shuffle, 301), 201 * kUsed);
}

TEST_F(FlushSchedulerTest, ARefusedRequestIsMadeRoomForBelowAnyWatermark) {
  Open();
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 100);
  const int64_t free = kCapacity - budget_.figures().total_bytes();
  scheduler_->OnRefused(free);
  EXPECT_EQ(Asked(shuffle, 100), 0) << "it fits";
  scheduler_->OnRefused(free + 5'000);
  EXPECT_EQ(Asked(shuffle, 100), 5'000);
  scheduler_->OnRefused(free + 3'000);
  EXPECT_EQ(Asked(shuffle, 100), 5'000) << "the largest is made room for";
  Work();
  EXPECT_GE(kCapacity - budget_.figures().total_bytes(), free + 5'000);
  // It would fit now: the refusal is forgotten, also when memory is short again.
  scheduler_->Evaluate();
  Promise(kCapacity - budget_.figures().total_bytes());
  const int64_t before = shuffle.flushable_bytes();
  scheduler_->Evaluate();
  EXPECT_EQ(shuffle.flushable_bytes(), before);
}

TEST_F(FlushSchedulerTest, ARequestThatWaitsIsMadeRoomFor) {
  Open();
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 100);
  Promise(kCapacity - budget_.figures().total_bytes());
  scheduler_->Evaluate();
  EXPECT_EQ(Asked(shuffle, 100), 0);
  waiting_bytes_ = 7'000;
  scheduler_->Evaluate();
  EXPECT_EQ(Asked(shuffle, 100), 7'000);
}

TEST_F(FlushSchedulerTest, MoreThanThereIsIsAllThereIs) {
  Open();
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 50);
  scheduler_->OnRefused(kCapacity);
  EXPECT_EQ(shuffle.flushable_bytes(), 0);
  Work();
  EXPECT_EQ(budget_.figures().used_bytes, 0);
}

TEST_F(FlushSchedulerTest, TheLargestShuffleGoesFirst) {
  Open();
  Shuffle& small = AddShuffle();
  Shuffle& large = AddShuffle();
  Shuffle& middle = AddShuffle();
  Fill(small, 20);
  Fill(large, 80);
  Fill(middle, 40);
  const int64_t free = kCapacity - budget_.figures().total_bytes();
  scheduler_->OnRefused(free + 60 * kBlock);
  EXPECT_EQ(Asked(large, 80), 60 * kBlock);
  EXPECT_EQ(Asked(middle, 40), 0);
  scheduler_->OnRefused(free + 100 * kBlock);
  // What is left of the large one is now less than the middle one.
  EXPECT_EQ(Asked(middle, 40), 40 * kBlock);
  EXPECT_EQ(Asked(large, 80), 60 * kBlock);
  EXPECT_EQ(Asked(small, 20), 0);
}

TEST_F(FlushSchedulerTest, WhatIsOnItsWayToADiskIsBounded) {
  options_.local_file.flush_bytes_in_flight_max = 10 * kBlock;
  Open();
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 400);
  scheduler_->OnRefused(kCapacity);
  // One request may pass the bound; then each disk has enough.
  const int64_t asked = Asked(shuffle, 400);
  EXPECT_GT(asked, 0);
  scheduler_->Evaluate();
  scheduler_->OnRefused(kCapacity);
  EXPECT_EQ(Asked(shuffle, 400), asked) << "both disks have enough to do";
  EXPECT_GT(shuffle.flushable_bytes(), 0);
  for (int round = 0; round < 100 && shuffle.flushable_bytes() > 0; ++round) {
    Work();
    scheduler_->Evaluate();
  }
  Work();
  EXPECT_EQ(budget_.figures().used_bytes, 0) << "and the rest follows when they are done";
}

TEST_F(FlushSchedulerTest, GroupsUnderWayCountForTheBound) {
  options_.local_file.flush_bytes_in_flight_max = 10 * kBlock;
  Open();
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 40);
  disks_[0]->stats().flush_bytes_in_flight.store(10 * kBlock);
  scheduler_->OnRefused(kCapacity);
  for (int slot = 0; slot < kSlots; ++slot) {
    const bool home_is_first_disk = slot % kDisks == 0;
    EXPECT_EQ(shuffle.flushable_bytes(slot) == 10 * kBlock, home_is_first_disk || slot == 3)
        << slot;
  }
  disks_[0]->stats().flush_bytes_in_flight.store(0);
}

TEST_F(FlushSchedulerTest, EachSlotGoesToItsHome) {
  Open();
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 40);
  scheduler_->OnRefused(kCapacity);
  Work();
  EXPECT_EQ(engines_[0]->disk()->Files(),
            (std::vector<std::string>{"apps/app/0.1/0.0.seg", "apps/app/0.1/2.0.seg"}));
  EXPECT_EQ(engines_[1]->disk()->Files(),
            (std::vector<std::string>{"apps/app/0.1/1.0.seg", "apps/app/0.1/3.0.seg"}));
}

TEST_F(FlushSchedulerTest, TheOtherDiskTakesWhatIsNotUsableAtHome) {
  Open();
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 40);
  disks_[1]->OnAppendFailed({ErrorCode::kIo, EIO, "append"}, 1);
  scheduler_->OnRefused(kCapacity);
  Work();
  EXPECT_EQ(budget_.figures().used_bytes, 0);
  EXPECT_EQ(engines_[0]->disk()->Files().size(), 4u);
  EXPECT_TRUE(engines_[1]->disk()->Files().empty());
}

TEST_F(FlushSchedulerTest, NothingIsAskedWhileNoDiskIsUsable) {
  Open();
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 40);
  for (const auto& disk : disks_) disk->OnAppendFailed({ErrorCode::kBusy, EMFILE, "open"}, 1);
  const int64_t free = kCapacity - budget_.figures().total_bytes();
  scheduler_->OnRefused(free + 5 * kBlock);
  scheduler_->OnRefused(free + 3 * kBlock);
  EXPECT_EQ(Asked(shuffle, 40), 0);
  for (const auto& disk : disks_) disk->Check();
  scheduler_->Evaluate();
  EXPECT_EQ(Asked(shuffle, 40), 5 * kBlock) << "the largest refusal was not forgotten";
}

TEST_F(FlushSchedulerTest, OnePartitionThatBecameLargeIsAskedForAlone) {
  Open();
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 40);
  scheduler_->FlushSlot(shuffles_[0], 2, 3 * kBlock);
  EXPECT_EQ(shuffle.flushable_bytes(2), 7 * kBlock);
  EXPECT_EQ(Asked(shuffle, 40), 3 * kBlock);
  scheduler_->FlushSlot(shuffles_[0], 2, 1'000 * kBlock);
  EXPECT_EQ(shuffle.flushable_bytes(2), 0) << "no more than there is";
}

TEST_F(FlushSchedulerTest, WithoutDisksNothingIsEverAsked) {
  scheduler_ = std::make_unique<FlushScheduler>(
      FlushScheduler::Inputs{.budget = budget_,
                             .disks = {},
                             .frozen_bytes = [] { return 0; },
                             .waiting_bytes = [] { return kCapacity; },
                             .shuffles = [this] { return shuffles_; }},
      options_);
  EXPECT_FALSE(scheduler_->CanFlush());
  Shuffle& shuffle = AddShuffle();
  Fill(shuffle, 40);
  scheduler_->OnRefused(kCapacity);
  scheduler_->FlushSlot(shuffles_[0], 0, kBlock);
  EXPECT_EQ(Asked(shuffle, 40), 0);
}

}  // namespace
}  // namespace dovetail::storage
