// What makes a disk full, broken, slow or busy, and what ends that. Time is what the test says, and
// nothing happens but in its calls.
#include "storage/disk.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/fakes/fault_engine.h"
#include "tests/fakes/mem_engine.h"

namespace dovetail::storage {
namespace {

using fakes::Call;

constexpr int64_t kKiB = 1024;
constexpr int64_t kCapacity = 1000 * kKiB;

// Remembers how appends and reads were asked for.
class ModeEngine : public fakes::FaultEngine {
 public:
  using FaultEngine::FaultEngine;
  void Append(engine::AppendRequest request, Done done) override {
    modes.push_back(request.mode);
    FaultEngine::Append(std::move(request), std::move(done));
  }
  void Read(engine::ReadRequest request, ReadDone done) override {
    modes.push_back(request.mode);
    FaultEngine::Read(std::move(request), std::move(done));
  }
  std::vector<engine::IoMode> modes;
};

class DiskTest : public testing::Test {
 protected:
  DiskTest() {
    options_.io_duration_threshold_sec = 60;
    Open();
  }

  void Open() {
    disk_.reset();
    memory_ = std::make_unique<fakes::MemEngine>(
        fakes::MemOptions{.stepped = true},
        std::make_shared<fakes::MemDisk>(fakes::MemDiskOptions{.capacity_bytes = kCapacity}));
    auto engine = std::make_unique<ModeEngine>(*memory_, fakes::FaultOptions{});
    faults_ = engine.get();
    disk_ = std::make_unique<Disk>(
        0, "/disk", std::move(engine), options_, [this] { return now_; }, [this] { ++usable_; });
  }

  ~DiskTest() override {
    if (!faults_) return;
    faults_->Heal();
    faults_->RunAll();
  }

  void Look() {
    disk_->Check();
    faults_->RunAll();
  }

  // The file system is as full as that.
  void Fill(int64_t bytes) {
    if (!file_) file_ = *memory_->disk()->Open("other", true);
    ASSERT_TRUE(memory_->disk()->Truncate(*file_, 0));
    ASSERT_TRUE(memory_->disk()->Reserve(*file_, bytes));
    ASSERT_EQ(memory_->disk()->used_bytes(), bytes);
  }

  void Fail(ErrorCode code, int64_t bytes = 4 * kKiB) {
    disk_->OnAppendFailed({code, EIO, "append"}, bytes);
  }

  // Which states hold, in this order.
  std::string States() const {
    std::string states;
    if (disk_->full()) states += "full ";
    if (disk_->broken()) states += "broken ";
    if (disk_->slow()) states += "slow ";
    if (disk_->busy()) states += "busy ";
    EXPECT_EQ(disk_->usable(), states.empty());
    return states;
  }

  std::unique_ptr<fakes::MemEngine> memory_;
  LocalFileStoreOptions options_;
  TimePoint now_{std::chrono::hours(1)};
  int usable_ = 0;  // times that it was told
  fakes::MemDisk::InodeRef file_;
  ModeEngine* faults_ = nullptr;
  std::unique_ptr<Disk> disk_;
};

TEST_F(DiskTest, AFreshOneIsUsable) {
  EXPECT_EQ(States(), "");
  Fill(500 * kKiB);
  Look();
  EXPECT_EQ(States(), "");
  EXPECT_EQ(disk_->stats().file_system_bytes.load(), kCapacity);
  EXPECT_EQ(disk_->stats().file_system_free_bytes.load(), 500 * kKiB);
  EXPECT_EQ(usable_, 0) << "it never was anything else";
}

TEST_F(DiskTest, AWriteLargerThanTheDiskDoesNotKeepItFull) {
  Fill(501 * kKiB);
  Fail(ErrorCode::kNoSpace, int64_t{1} << 40);
  EXPECT_EQ(States(), "full ");
  Look();
  EXPECT_EQ(States(), "full ") << "less than half of it is free";
  Fill(499 * kKiB);
  Look();
  EXPECT_EQ(States(), "");
}

TEST_F(DiskTest, FullByAWriteLastsUntilThatWriteWouldFit) {
  Fill(600 * kKiB);
  Fail(ErrorCode::kNoSpace, 450 * kKiB);
  EXPECT_EQ(States(), "full ");
  EXPECT_EQ(disk_->stats().append_failures_total.load(), 1);
  Look();
  EXPECT_EQ(States(), "full ") << "the watermarks alone say nothing";
  Fill(551 * kKiB);
  Look();
  EXPECT_EQ(States(), "full ");
  EXPECT_EQ(usable_, 0);
  Fill(550 * kKiB);
  Look();
  EXPECT_EQ(States(), "");
  EXPECT_EQ(usable_, 1);
  // That write is forgotten: the next entry is by watermark only.
  Fill(960 * kKiB);
  Look();
  EXPECT_EQ(States(), "full ");
  Fill(900 * kKiB);
  Look();
  EXPECT_EQ(States(), "");
}

TEST_F(DiskTest, FullByWatermarkLastsUntilTheLowOne) {
  Fill(950 * kKiB);
  Look();
  EXPECT_EQ(States(), "") << "at the high watermark is not above it";
  Fill(951 * kKiB);
  Look();
  EXPECT_EQ(States(), "full ");
  for (const int64_t between : {950, 920, 901}) {
    Fill(between * kKiB);
    Look();
    EXPECT_EQ(States(), "full ") << between;
  }
  EXPECT_EQ(usable_, 0);
  Fill(900 * kKiB);
  Look();
  EXPECT_EQ(States(), "");
  EXPECT_EQ(usable_, 1);
  Fill(920 * kKiB);
  Look();
  EXPECT_EQ(States(), "") << "between the two a disk stays what it is";
}

TEST_F(DiskTest, ALookThatFailsChangesNothing) {
  Fail(ErrorCode::kNoSpace);
  faults_->FailNext(Call::kSpace, EIO);
  Look();
  EXPECT_EQ(States(), "full ");
  Look();
  EXPECT_EQ(States(), "");
}

TEST_F(DiskTest, EveryOtherErrorOfAWriteIsBroken) {
  for (const ErrorCode code : {ErrorCode::kIo, ErrorCode::kNotFound, ErrorCode::kCorrupt,
                               ErrorCode::kInvalid, ErrorCode::kTimeout}) {
    usable_ = 0;
    Fail(code);
    EXPECT_EQ(States(), "broken ") << ToString(code);
    Look();
    EXPECT_EQ(States(), "") << ToString(code);
    EXPECT_EQ(usable_, 1);
    EXPECT_TRUE(memory_->disk()->Files().empty()) << "the probe leaves nothing";
  }
  Fail(ErrorCode::kShutdown);
  EXPECT_EQ(States(), "") << "the engine's end is no evidence";
}

TEST_F(DiskTest, BrokenLastsUntilEveryStepOfAProbeSucceeds) {
  Fail(ErrorCode::kIo);
  for (const Call call : {Call::kOpen, Call::kAppend, Call::kRead}) {
    faults_->FailNext(call, EIO);
    Look();
    EXPECT_EQ(States(), "broken ") << static_cast<int>(call);
  }
  faults_->FailAll(Call::kRemove, EIO);
  Look();
  EXPECT_EQ(States(), "broken ") << "what an earlier probe left is in the way";
  EXPECT_EQ(usable_, 0);
  faults_->Heal();
  Look();
  EXPECT_EQ(States(), "");
  EXPECT_EQ(usable_, 1);
  EXPECT_TRUE(memory_->disk()->Files().empty());
}

// A dead device would take a probe through the page cache, and give it back from there.
TEST_F(DiskTest, TheProbeGoesTheWayOfTheAppends) {
  Fail(ErrorCode::kIo);
  Look();
  EXPECT_EQ(faults_->modes, std::vector(2, engine::IoMode::kDirect));
  options_.direct_io_append_enable = false;
  Open();
  Fail(ErrorCode::kIo);
  Look();
  EXPECT_EQ(faults_->modes, std::vector(2, engine::IoMode::kBuffered));
}

TEST_F(DiskTest, BusyLastsUntilTheNextLook) {
  Fail(ErrorCode::kBusy);
  EXPECT_EQ(States(), "busy ");
  disk_->Check();
  EXPECT_EQ(States(), "") << "before the engine answers anything";
  EXPECT_EQ(usable_, 1);
}

TEST_F(DiskTest, SlowLastsWhileAnOldOperationIsUnderWay) {
  int told = 0;
  auto old = std::make_optional<Disk::Watch>(*disk_, [&told] { ++told; });
  now_ += std::chrono::seconds(60);
  Look();
  EXPECT_EQ(States(), "") << "not older than the threshold";
  const Disk::Watch young(*disk_, [&told] { told += 100; });
  now_ += std::chrono::seconds(1);
  Look();
  EXPECT_EQ(States(), "slow ");
  EXPECT_EQ(told, 101) << "whoever waits for this disk";
  Look();
  EXPECT_EQ(told, 202) << "at each look";
  const Disk::Watch moved = std::move(*old);
  old.reset();
  Look();
  EXPECT_EQ(States(), "slow ") << "moved, not ended";
}

TEST_F(DiskTest, SlowEndsWithTheOldOperation) {
  {
    const Disk::Watch old(*disk_);
    now_ += std::chrono::seconds(61);
    Look();
    EXPECT_EQ(States(), "slow ");
  }
  const Disk::Watch young(*disk_);
  EXPECT_EQ(States(), "slow ") << "only a look ends it";
  Look();
  EXPECT_EQ(States(), "");
  EXPECT_EQ(usable_, 1);
}

TEST_F(DiskTest, AHungLookMakesTheDiskSlowAndIsTheOnlyOne) {
  faults_->HangAll(Call::kSpace);
  for (int i = 0; i < 5; ++i) {
    Look();
    EXPECT_EQ(faults_->in_flight(), 1);
  }
  EXPECT_EQ(States(), "");
  now_ += std::chrono::seconds(61);
  Look();
  EXPECT_EQ(States(), "slow ");
  EXPECT_EQ(faults_->in_flight(), 1);
  faults_->Heal();
  faults_->RunAll();
  EXPECT_EQ(faults_->in_flight(), 0);
  Look();
  EXPECT_EQ(States(), "");
  EXPECT_EQ(faults_->in_flight(), 0) << "and looks go on";
}

TEST_F(DiskTest, StatesAreIndependentAndItIsToldOnceAllAreGone) {
  Fill(960 * kKiB);
  Look();
  Fail(ErrorCode::kIo);
  auto old = std::make_optional<Disk::Watch>(*disk_);
  now_ += std::chrono::seconds(61);
  faults_->FailNext(Call::kOpen, EIO);
  Look();
  Fail(ErrorCode::kBusy);
  EXPECT_EQ(States(), "full broken slow busy ");
  Look();
  EXPECT_EQ(States(), "full slow ");
  old.reset();
  Look();
  EXPECT_EQ(States(), "full ");
  EXPECT_EQ(usable_, 0);
  Fill(0);
  Look();
  EXPECT_EQ(States(), "");
  EXPECT_EQ(usable_, 1);
}

}  // namespace
}  // namespace dovetail::storage
