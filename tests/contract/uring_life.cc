#include "tests/contract/uring_life.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "engine/base/hash.h"

namespace dovetail::contract {

using engine::FileRef;
using engine::RingCounters;

namespace {

constexpr int kFiles = 6;
constexpr int kAtOnce = 24;
constexpr int64_t kPoolBytes = 8 << 20;

// Small, so that places, slabs and descriptors run out.
constexpr int kDepth = 8;
constexpr int kSlabs = 2;
constexpr int kFixedFiles = 3;
constexpr int64_t kDescriptors = 8;

// Shards differ, and so do lives of the same seed on other disks.
RingRules RulesOf(uint64_t seed, int shard) {
  return {.seed = seed * 16 + static_cast<uint64_t>(shard),
          .late_per_mille = 50,
          .reorders = true,
          .wakes_lost_per_mille = 50,
          .enters_busy_per_mille = 5};
}

}  // namespace

UringLife::UringLife(LifeOptions options, uint64_t seed)
    : options_(std::move(options)),
      seed_(seed),
      random_(seed),
      pool_(Pattern(kPoolBytes, seed)),
      folder_(options_.on_disk ? DiskFolder() : MemoryFolder()) {
  if (options_.faults) {
    calls_->drawn().SetRates({.seed = seed,
                              .short_per_mille = 100,
                              .passing_per_mille = 20,
                              .error_per_mille = 20,
                              .control_error_per_mille = 100});
  }
  engine::UringSystems systems{.calls = calls_, .ring = [this](int shard) {
                                 return std::make_unique<ScriptedRing>(
                                     calls_, options_.faults ? RulesOf(seed_, shard) : RingRules{});
                               }};
  auto started = engine::UringEngine::Start({.data_path = folder_.path(),
                                             .threads = 2,
                                             .io_depth = kDepth,
                                             .descriptors_max = kDescriptors,
                                             .slabs = kSlabs,
                                             .fixed_files_max = kFixedFiles},
                                            arena_, systems);
  EXPECT_TRUE(started.has_value());
  engine_ = std::move(*started);
}

void UringLife::Run(int64_t operations) {
  for (int i = 0; i < kFiles; ++i) files_.push_back(Create());
  for (int64_t i = 0; i < operations && !testing::Test::HasFailure(); ++i) {
    LifeFileRef& file = files_[Draw(kFiles)];
    const bool begun = BeginSomething(file);
    if (options_.rounds) {
      if (under_way_ == kAtOnce || OneIn(kAtOnce)) FinishRound();
      continue;
    }
    while (under_way_ >= kAtOnce) LookAtOne();
    // Or an engine that is slow for a moment would see nothing of this life.
    if (!begun && under_way_ > 0) LookAtOne();
    while (LookAtOneNow()) {
    }
  }
  if (options_.rounds) FinishRound();
  while (under_way_ > 0) LookAtOne();
  for (const LifeFileRef& file : files_) CheckWhole(*file);
  CountAll();
  CheckNothingIsLeft();
}

void UringLife::Note(uint64_t fact) { course_ = MixBits(course_ + 0x9E3779B97F4A7C15ULL) ^ fact; }

void UringLife::Hand(uint64_t number, std::function<void()> look) {
  std::lock_guard lock(mutex_);
  done_.emplace_back(number, std::move(look));
  changed_.notify_one();
}

void UringLife::LookAtOne() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !done_.empty(); });
  const auto look = std::move(done_.front().second);
  done_.pop_front();
  lock.unlock();
  --under_way_;
  look();
}

bool UringLife::LookAtOneNow() {
  {
    std::lock_guard lock(mutex_);
    if (done_.empty()) return false;
  }
  LookAtOne();
  return true;
}

void UringLife::FinishRound() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return static_cast<int>(done_.size()) == under_way_; });
    std::sort(done_.begin(), done_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  while (under_way_ > 0) LookAtOne();
}

UringLife::LifeFileRef UringLife::Create() {
  auto file = std::make_shared<LifeFile>();
  file->name = fmt::format("files/{}", made_++);
  const Result<FileRef> made = Open(*engine_, file->name, true);
  EXPECT_TRUE(made);
  if (made) file->file = *made;
  return file;
}

void UringLife::Remove(LifeFileRef& file) {
  if (!file->idle()) Meet("files removed in use");
  EXPECT_TRUE(contract::Remove(*engine_, file->name));
  struct stat facts {};
  EXPECT_NE(stat((folder_.path() + "/" + file->name).c_str(), &facts), 0);
  file->removed = true;
  Note(1);
  file = Create();
}

void UringLife::Cut(LifeFile& file, int64_t size) {
  const Status status = Truncate(*engine_, file.file, size);
  Note(static_cast<uint64_t>(size) * 2 + status.has_value());
  if (!status) {
    Meet("cuts refused");
    EXPECT_TRUE(options_.faults) << seed_;
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    return;
  }
  Meet("cuts");
  file.committed.resize(static_cast<size_t>(size));
  file.longest = size;
  CheckLength(file);
}

void UringLife::OpenAgain(LifeFile& file) {
  Cut(file, file.size());  // or what is reserved would count as written
  if (file.longest != file.size()) return;
  file.file.reset();
  const Result<FileRef> again = Open(*engine_, file.name, false);
  EXPECT_TRUE(again);
  if (again) file.file = *again;
  Meet("files opened again");
}

void UringLife::CheckLength(const LifeFile& file) const {
  if (file.removed) return;
  struct stat facts {};
  ASSERT_EQ(stat((folder_.path() + "/" + file.name).c_str(), &facts), 0);
  EXPECT_GE(facts.st_size, file.size()) << seed_;
  EXPECT_LE(facts.st_size, std::max(file.size(), file.longest)) << seed_;
}

// As often as it takes on a kernel that lies.
void UringLife::CheckWhole(const LifeFile& file) {
  for (const std::byte byte : file.committed) course_ = course_ * 31 + static_cast<uint64_t>(byte);
  if (file.size() == 0) return;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const Result<Bytes> read = Read(*engine_, {.file = file.file, .length = file.size()});
    if (!read && options_.faults) continue;
    ASSERT_TRUE(read);
    EXPECT_TRUE(*read == file.committed) << "seed " << seed_;
    return;
  }
  ADD_FAILURE() << "never read whole, seed " << seed_;
}

void UringLife::CountAll() {
  Meet("operations", static_cast<int64_t>(begun_));
  for (const auto& [event, times] : calls_->drawn().met()) Meet(event, times);
  const engine::EngineCounters& counters = *engine_->counters();
  Meet("engine: bytes appended", counters.append_bytes);
  Meet("engine: bytes read", counters.read_bytes);
  Meet("engine: continued", counters.continued);
  Meet("engine: opened again by name", counters.reopened);
  Meet("engine: rollbacks", counters.rollbacks);
  Meet("engine: rollbacks that failed", counters.rollback_failures);
  EXPECT_EQ(counters.direct_refused, 0);
  const std::pair<const char*, RingCounters::Count RingCounters::*> counts[] = {
      {"ring: requests", &RingCounters::requests},
      {"ring: retries", &RingCounters::retries},
      {"ring: cancelled", &RingCounters::cancelled},
      {"ring: cancels asked for", &RingCounters::cancels},
      {"ring: wakeups", &RingCounters::wakeups},
      {"ring: splices", &RingCounters::splices},
      {"ring: waits for a slab", &RingCounters::slab_waits},
      {"ring: requests with fixed files", &RingCounters::fixed_file_requests},
      {"ring: requests with fixed buffers", &RingCounters::fixed_buffer_requests},
      {"ring: files without a place", &RingCounters::file_table_full},
  };
  for (int shard = 0; shard < engine_->shards(); ++shard) {
    for (const auto& [event, count] : counts) Meet(event, engine_->ring_counters(shard)->*count);
  }
}

void UringLife::CheckNothingIsLeft() {
  EXPECT_EQ(engine_->in_flight(), 0);
  EXPECT_EQ(arena_.used_bytes(), 0);
  for (int shard = 0; shard < engine_->shards(); ++shard) {
    EXPECT_EQ(engine_->ring_counters(shard)->in_kernel, 0);
  }
  files_.clear();
  EXPECT_TRUE(engine_->Stop(TimePoint::max()));
  EXPECT_EQ(engine_->counters()->descriptors, 0);
  EXPECT_EQ(engine_->waiting(engine::Lane::kAppend), 0);
  EXPECT_EQ(engine_->waiting(engine::Lane::kRead), 0);
}

}  // namespace dovetail::contract
