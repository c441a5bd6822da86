// Which bytes of which segments make an answer, and how they are read.
#include "storage/read_plan.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/fakes/fault_engine.h"
#include "tests/fakes/mem_engine.h"
#include "tests/storage/store_fixture.h"

namespace dovetail::storage {
namespace {

using fakes::Call;
using Outcome = std::expected<std::vector<SliceChain>, ReadJob::Failure>;

// Remembers the errors of reads in the order in which they were told.
class ErrorsEngine : public fakes::FaultEngine {
 public:
  using FaultEngine::FaultEngine;
  void Read(engine::ReadRequest request, ReadDone done) override {
    modes.push_back(request.mode);
    FaultEngine::Read(std::move(request),
                      [this, done = std::move(done)](Result<SliceChain> bytes) mutable {
                        if (!bytes) errors.push_back(bytes.error().os_error);
                        done(std::move(bytes));
                      });
  }
  std::vector<int> errors;
  std::vector<engine::IoMode> modes;
};

class ReadPlanTest : public testing::Test {
 protected:
  ReadPlanTest() {
    auto engine = std::make_unique<ErrorsEngine>(memory_, fakes::FaultOptions{});
    faults_ = engine.get();
    disk_ = std::make_unique<Disk>(
        0, "/disk", std::move(engine), LocalFileStoreOptions{}, [this] { return now_; }, nullptr);
    for (int i = 0; i < 2; ++i) AddSegment("segment" + std::to_string(i));
  }
  ~ReadPlanTest() override {
    faults_->Heal();
    faults_->RunAll();
  }

  void AddSegment(const std::string& path) {
    auto segment = std::make_shared<Segment>(disk_.get(), nullptr, path);
    faults_->Open(path, true, [&segment](Result<engine::FileRef> file) { segment->file = *file; });
    faults_->RunAll();
    segments_.push_back(segment);
    ends_.push_back(0);
  }

  // Writes a batch of so many data bytes at the end of a segment: filler where head and index are.
  // Its logical place is behind the last.
  void AddExtent(size_t segment, int64_t data_bytes, uint32_t blocks) {
    const int64_t logical = extents_.empty() ? 0 : extents_.back().logical_end();
    const Extent extent{.segment = segments_[segment],
                        .batch_offset = ends_[segment],
                        .logical_offset = logical,
                        .data_bytes = data_bytes,
                        .block_count = blocks};
    auto bytes = std::make_shared<std::string>(
        static_cast<size_t>(extent.data_offset() - extent.batch_offset), '#');
    for (int64_t i = 0; i < data_bytes; ++i) {
      log_.push_back(static_cast<char>('a' + (logical + i) % 26));
    }
    *bytes += log_.substr(static_cast<size_t>(logical));
    const ConstBytes view(reinterpret_cast<const std::byte*>(bytes->data()), bytes->size());
    faults_->Append(
        {.file = segments_[segment]->file, .offset = ends_[segment], .data = {Slice{bytes, view}}},
        [](Status status) { EXPECT_TRUE(status); });
    faults_->RunAll();
    ends_[segment] += static_cast<int64_t>(bytes->size());
    extents_.push_back(extent);
  }

  std::optional<Outcome>& Start(ReadPlan plan, engine::IoMode mode = engine::IoMode::kBuffered) {
    outcome_.reset();
    ReadJob::Run(std::move(plan), mode, [this](Outcome outcome) {
      EXPECT_FALSE(outcome_) << "told twice";
      outcome_ = std::move(outcome);
    });
    return outcome_;
  }

  static std::string Joined(const std::vector<SliceChain>& pieces) {
    std::string all;
    for (const SliceChain& piece : pieces) all += Bytes(piece);
    return all;
  }

  TimePoint now_{std::chrono::hours(1)};
  fakes::MemEngine memory_{{.stepped = true}};
  ErrorsEngine* faults_ = nullptr;
  std::unique_ptr<Disk> disk_;
  std::vector<std::shared_ptr<Segment>> segments_;
  std::vector<int64_t> ends_;
  std::vector<Extent> extents_;
  std::string log_;  // what the extents hold, in logical order
  std::optional<Outcome> outcome_;
};

// The memory of a direct read of a few bytes is many times what the read budget counts for it.
TEST_F(ReadPlanTest, ShortReadsGoThroughThePageCache) {
  AddExtent(0, 100, 2);
  AddExtent(1, kDirectReadBytesMin - 1, 2);
  AddExtent(0, kDirectReadBytesMin, 2);
  Start(PlanData(extents_, 0, extents_.back().logical_end()), engine::IoMode::kDirect);
  faults_->RunAll();
  ASSERT_TRUE(outcome_ && *outcome_);
  EXPECT_EQ(Joined(**outcome_), log_);
  using enum engine::IoMode;
  EXPECT_EQ(faults_->modes, (std::vector{kBuffered, kBuffered, kDirect}));
}

TEST_F(ReadPlanTest, ARangeIsCutAtTheSeamsOfExtents) {
  AddExtent(0, 100, 2);
  AddExtent(1, 50, 1);
  AddExtent(0, 10, 3);
  const ReadPlan inside = PlanData(extents_, 10, 20);
  ASSERT_EQ(inside.size(), 1u);
  EXPECT_EQ(inside[0].segment, segments_[0]);
  EXPECT_EQ(inside[0].offset, 64 + 2 * 40 + 10);
  EXPECT_EQ(inside[0].length, 20);
  const ReadPlan whole = PlanData(extents_, 0, 160);
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_EQ(whole[1].segment, segments_[1]);
  EXPECT_EQ(whole[1].offset, 64 + 40);
  EXPECT_EQ(whole[1].length, 50);
  EXPECT_EQ(whole[2].offset, 64 + 2 * 40 + 100 + 64 + 3 * 40);
  EXPECT_EQ(whole[2].length, 10);
  EXPECT_EQ(PlanData(extents_, 100, 50).size(), 1u) << "exactly the second";
  EXPECT_EQ(PlanData(extents_, 99, 2).size(), 2u) << "over a seam";
  const PlannedRead head = PlanHead(extents_[2]);
  EXPECT_EQ(head.offset, 64 + 2 * 40 + 100);
  EXPECT_EQ(head.length, 64 + 3 * 40);
}

TEST_F(ReadPlanTest, EveryRangeReadsItsBytes) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 12; ++i) {
    AddExtent(random() % 2, 1 + static_cast<int64_t>(random() % 9), 1 + random() % 3);
  }
  const auto end = static_cast<int64_t>(log_.size());
  for (int64_t from = 0; from < end; ++from) {
    for (int64_t to = from + 1; to <= end; ++to) {
      auto& outcome = Start(PlanData(extents_, from, to - from));
      faults_->RunAll();
      ASSERT_TRUE(outcome && *outcome);
      ASSERT_EQ(Joined(**outcome),
                log_.substr(static_cast<size_t>(from), static_cast<size_t>(to - from)));
    }
  }
}

TEST_F(ReadPlanTest, OffsetsBeyond32Bits) {
  const int64_t far = int64_t{5} << 40;
  const std::vector<Extent> extents = {{.segment = segments_[0],
                                        .batch_offset = far,
                                        .logical_offset = 0,
                                        .data_bytes = far,
                                        .block_count = 1},
                                       {.segment = segments_[1],
                                        .batch_offset = 0,
                                        .logical_offset = far,
                                        .data_bytes = 10,
                                        .block_count = 1}};
  const ReadPlan plan = PlanData(extents, far - 5, 10);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].offset, far + 64 + 40 + far - 5);
  EXPECT_EQ(plan[1].offset, 64 + 40);
  EXPECT_EQ(plan[1].length, 5);
}

TEST_F(ReadPlanTest, AtMostEightReadsAreUnderWay) {
  for (int i = 0; i < 30; ++i) AddExtent(0, 10, 1);
  faults_->HangAll(Call::kRead);
  auto& outcome = Start(PlanData(extents_, 0, 300));
  faults_->RunAll();
  EXPECT_EQ(faults_->hanging(), 8);
  faults_->Heal();
  faults_->RunAll();
  ASSERT_TRUE(outcome && *outcome);
  EXPECT_EQ(Joined(**outcome), log_) << "in order, whatever order they ended in";
  EXPECT_EQ(disk_->stats().reads_total.load(), 30);
  EXPECT_EQ(disk_->stats().read_bytes_total.load(), 300);
}

TEST_F(ReadPlanTest, TheFirstErrorIsToldOnceAllThatRunsHasEnded) {
  for (int i = 0; i < 30; ++i) AddExtent(0, 10, 1);
  bool second_was_first = false;
  for (int round = 0; round < 20; ++round) {
    faults_->errors.clear();
    faults_->FailNext(Call::kRead, EIO);
    faults_->FailNext(Call::kRead, ENOENT);
    auto& outcome = Start(PlanData(extents_, 0, 300));
    faults_->RunAll();
    ASSERT_TRUE(outcome);
    ASSERT_FALSE(*outcome);
    ASSERT_EQ(faults_->errors.size(), 2u);
    const ReadJob::Failure& failure = outcome->error();
    EXPECT_EQ(failure.error.os_error, faults_->errors[0]);
    EXPECT_EQ(failure.read.offset, failure.error.os_error == EIO ? 104 : 104 + 114)
        << "the very read that it struck";
    second_was_first = second_was_first || failure.error.os_error == ENOENT;
    EXPECT_EQ(faults_->in_flight(), 0);
  }
  EXPECT_TRUE(second_was_first) << "every order is tried";
  EXPECT_EQ(disk_->stats().read_failures_total.load(), 20 * 2);
  // Those that ended well before the first error let others begin; after it none does.
  EXPECT_LT(disk_->stats().reads_total.load(), 20 * 20);
}

TEST_F(ReadPlanTest, ASlowDiskIsNotWaitedFor) {
  for (int i = 0; i < 3; ++i) AddExtent(0, 10, 1);
  faults_->HangAll(Call::kRead);
  auto& hung = Start(PlanData(extents_, 0, 30));
  faults_->RunAll();
  EXPECT_FALSE(hung);
  now_ += std::chrono::hours(1);
  disk_->Check();
  ASSERT_TRUE(disk_->slow());
  ASSERT_TRUE(hung);
  EXPECT_EQ(hung->error().error.code, ErrorCode::kTimeout);
  // One that comes now does not begin.
  const int64_t under_way = faults_->hanging();
  auto& later = Start(PlanData(extents_, 0, 30));
  ASSERT_TRUE(later);
  EXPECT_EQ(later->error().error.code, ErrorCode::kTimeout);
  EXPECT_EQ(faults_->hanging(), under_way);
  // What answers late finds nobody.
  faults_->Heal();
  faults_->RunAll();
  disk_->Check();
  faults_->RunAll();
  EXPECT_FALSE(disk_->slow());
  auto& again = Start(PlanData(extents_, 0, 30));
  faults_->RunAll();
  ASSERT_TRUE(again && *again);
  EXPECT_EQ(Joined(**again), log_);
}

}  // namespace
}  // namespace dovetail::storage
