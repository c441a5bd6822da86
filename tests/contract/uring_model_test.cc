// Lives of the io_uring engine (uring_life.h) on a disk and in memory, buffered and direct, with
// and without faults. A life met everything that its kind can meet.
//
//   DOVETAIL_MODEL_SEED, DOVETAIL_MODEL_OPERATIONS: another life, and a longer one (of a million
//   operations, say), which also says what it met.
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <iostream>

#include "tests/contract/uring_life.h"

namespace dovetail::contract {
namespace {

using engine::IoMode;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kOperations = 2'000;
#else
constexpr int64_t kOperations = 16'000;
#endif
// In a life of at least so many operations everything is met.
constexpr int64_t kMeetsAllOperations = 12'000;

// In every life.
constexpr const char* kAlwaysMet[] = {
    "append: failed",
    "append: too late",
    "appends",
    "appends of more pieces than a call takes",
    "appends of several requests",
    "cuts",
    "engine: opened again by name",
    "files opened again",
    "files removed in use",
    "pipe: too late",
    "pipes",
    "pipes past the end",
    "read: too late",
    "reads",
    "reads of several requests",
    "reads past the end",
    "reservations",
    "reservations that were looked at",
    "ring: cancels asked for",
    "ring: files without a place",
    "ring: requests with fixed files",
    "ring: splices",
    "ring: wakeups",
};
constexpr const char* kMetDirect[] = {
    "appends of aligned memory",
    "ring: requests with fixed buffers",
    "ring: waits for a slab",
};
constexpr const char* kMetWithFaults[] = {
    "cuts refused",
    "engine: continued",
    "engine: rollbacks",
    "engine: rollbacks that failed",
    "fallocate: EINTR",
    "fallocate: EIO",
    "fallocate: ENOSPC",
    "ftruncate: EINTR",
    "ftruncate: EIO",
    "pipe: failed",
    "read: 1 bytes",
    "read: 4095 bytes",
    "read: 4096 bytes",
    "read: 511 bytes",
    "read: EAGAIN",
    "read: EINTR",
    "read: EIO",
    "read: failed",
    "read: n-1 bytes",
    "read: n-4095 bytes",
    "read: n-4096 bytes",
    "read: n-511 bytes",
    "reserve: failed",
    "ring: a wake is lost at first",
    "ring: late",
    "ring: retries",
    "ring: shuffled results",
    "ring: takes nothing for the moment",
    "ring: the wait for a wake ends",
    "splice: 1 bytes",
    "splice: 4095 bytes",
    "splice: 4096 bytes",
    "splice: 511 bytes",
    "splice: EAGAIN",
    "splice: EINTR",
    "splice: EIO",
    "splice: n-1 bytes",
    "splice: n-4095 bytes",
    "splice: n-4096 bytes",
    "splice: n-511 bytes",
    "write: 0 bytes",
    "write: 1 bytes",
    "write: 4095 bytes",
    "write: 4096 bytes",
    "write: 511 bytes",
    "write: EAGAIN",
    "write: EINTR",
    "write: EIO",
    "write: ENOSPC",
    "write: n-1 bytes",
    "write: n-4095 bytes",
    "write: n-4096 bytes",
    "write: n-511 bytes",
};

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}
uint64_t Seed() { return static_cast<uint64_t>(FromEnvironment("DOVETAIL_MODEL_SEED", 11)); }

class UringModel : public testing::TestWithParam<LifeOptions> {
 protected:
  UringModel() { spdlog::set_level(spdlog::level::off); }  // many lines about files not cut back
  ~UringModel() override { spdlog::set_level(level_); }

 private:
  const spdlog::level::level_enum level_ = spdlog::get_level();
};

std::vector<LifeOptions> AllLives() {
  std::vector<LifeOptions> lives;
  for (const bool on_disk : {true, false}) {
    for (const IoMode mode : {IoMode::kBuffered, IoMode::kDirect}) {
      for (const bool faults : {false, true}) {
        LifeOptions life{.mode = mode, .on_disk = on_disk, .faults = faults};
        life.name = std::string(on_disk ? "Disk" : "Tmpfs") +
                    (mode == IoMode::kDirect ? "Direct" : "Buffered") + (faults ? "Faults" : "");
        lives.push_back(life);
      }
    }
  }
  return lives;
}

INSTANTIATE_TEST_SUITE_P(Lives, UringModel, testing::ValuesIn(AllLives()),
                         [](const auto& info) { return info.param.name; });

TEST_P(UringModel, HoldsWhatWasCommitted) {
  const int64_t operations = FromEnvironment("DOVETAIL_MODEL_OPERATIONS", kOperations);
  UringLife life(GetParam(), Seed());
  life.Run(operations);
  const auto& met = life.met();
  if (std::getenv("DOVETAIL_MODEL_OPERATIONS") != nullptr) {
    for (const auto& [event, times] : met) std::cout << event << ": " << times << "\n";
  }
  if (HasFailure() || operations < kMeetsAllOperations) return;
  const auto expect_met = [&met](std::span<const char* const> events) {
    for (const char* event : events) {
      EXPECT_TRUE(met.contains(event) && met.at(event) > 0) << "never met: " << event;
    }
  };
  expect_met(kAlwaysMet);
  if (GetParam().mode == IoMode::kDirect) expect_met(kMetDirect);
  if (GetParam().faults) expect_met(kMetWithFaults);
}

// Without this no failure could be found again.
TEST(UringModelReplay, ASeedReplays) {
  for (const IoMode mode : {IoMode::kBuffered, IoMode::kDirect}) {
    const auto course_of = [mode](uint64_t seed) {
      UringLife life({.name = "Replay", .mode = mode, .rounds = true}, seed);
      life.Run(1500);
      return life.course();
    };
    const uint64_t course = course_of(Seed());
    EXPECT_EQ(course_of(Seed()), course);
    EXPECT_NE(course_of(Seed() + 1), course);
  }
}

}  // namespace
}  // namespace dovetail::contract
