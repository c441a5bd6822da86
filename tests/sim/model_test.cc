// The model test (model.h) over a row of seeds.
//
// DOVETAIL_MODEL_SEED and DOVETAIL_MODEL_STEPS replay one run, in the case Replay.
#include "tests/sim/model.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <iostream>

namespace dovetail::sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kSteps = 5'000;
#else
constexpr int64_t kSteps = 100'000;
#endif
constexpr uint64_t kSeeds = 10;
// In a run at least this long everything below is met.
constexpr int64_t kMeetsAllSteps = 100'000;

// A run that met none of one kind tests less than it says.
constexpr const char* kKinds[] = {
    "accounts balanced",
    "answers held",
    "appends failed",
    "apps expired",
    "batches appended",
    "broken disks",
    "busy disks",
    "disks down for long",
    "duplicates dropped",
    "duplicates of flushed blocks",
    "everything flushed",
    "everything flushed past a disk that hangs",
    "files walked",
    "filtered reads",
    "full checks",
    "full disks",
    "groups abandoned",
    "groups appended",
    "hangs",
    "index heads evicted",
    "index heads from files",
    "index heads from memory",
    "lives counted",
    "lives ended during flushes",
    "not enough disks",
    "partitions lost",
    "partitions read",
    "partitions read from files",
    "ranges read",
    "reads during flushes",
    "reads of several pages",
    "reads that found no read memory",
    "reads that take long",
    "reads that the end of a shuffle overtook",
    "registered again",
    "removals that fail",
    "reports",
    "reports refused",
    "requests larger than the memory",
    "requests refused",
    "reservations tried again",
    "results",
    "segments rolled",
    "sends",
    "sends after the end",
    "sends larger than their ticket",
    "sends to what is not registered",
    "slow disks",
    "tickets expired",
    "tickets left",
    "wrong tickets",
};

std::map<std::string, int64_t> RunSeed(uint64_t seed, int64_t steps) {
  const auto level = spdlog::get_level();
  spdlog::set_level(spdlog::level::off);  // thousands of lines about disks
  std::map<std::string, int64_t> met;
  {
    Model model(seed);
    model.Run(steps);
    met = model.met();
  }
  spdlog::set_level(level);
  return met;
}

class ModelTest : public testing::TestWithParam<uint64_t> {};

TEST_P(ModelTest, TheStoreIsThePlainMap) {
  const auto met = RunSeed(GetParam(), kSteps);
  if (HasFailure() || kSteps < kMeetsAllSteps) return;
  for (const char* kind : kKinds) {
    EXPECT_TRUE(met.contains(kind) && met.at(kind) > 0) << "never met: " << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ModelTest, testing::Range(uint64_t{1}, kSeeds + 1));

TEST(ModelReplay, Replay) {
  const char* seed = std::getenv("DOVETAIL_MODEL_SEED");
  const char* steps = std::getenv("DOVETAIL_MODEL_STEPS");
  const auto met = RunSeed(seed ? std::strtoull(seed, nullptr, 10) : 0,
                           steps ? std::strtoll(steps, nullptr, 10) : 2000);
  if (!seed) return;
  for (const auto& [kind, times] : met) std::cout << kind << ": " << times << "\n";
}

// Without this no failure could be found again.
TEST(ModelReplay, ASeedReplays) {
  EXPECT_EQ(RunSeed(77, 3000), RunSeed(77, 3000));
  EXPECT_NE(RunSeed(77, 3000), RunSeed(78, 3000));
}

}  // namespace
}  // namespace dovetail::sim
