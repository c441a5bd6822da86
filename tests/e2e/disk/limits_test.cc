// Few descriptors and many files: slower perhaps, never wrong, and connections are still taken.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/disk/disk_suite.h"
#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

class ManyFilesTest : public DiskTest {
 protected:
  static constexpr unsigned long kDescriptors = 1024;
};

TEST_F(ManyFilesTest, MoreThanDescriptors) {
  constexpr int kApps = 6;
  constexpr int kShuffles = 100;
  constexpr int64_t kRounds = 2;
  const std::string path = PlainPath("disk");
  ASSERT_TRUE(
      Start({path}, {"memory_store.capacity=32M"}, {.nofile = kDescriptors, .environment = {}}));
  std::vector<Target> targets;
  for (int app = 0; app < kApps; ++app) {
    for (int shuffle = 0; shuffle < kShuffles; ++shuffle) {
      targets.push_back(Registered("app-" + std::to_string(app), 4, shuffle));
    }
  }
  for (int64_t round = 0; round < kRounds; ++round) {
    for (const Target& target : targets) {
      ledger().WriteInTheEnd(
          target, {MakeBlocks(0, round * 2, 2, 20'011), MakeBlocks(3, round * 2, 2, 20'011)});
      ASSERT_FALSE(HasFatalFailure());
    }
  }
  std::vector<std::unique_ptr<WireClient>> others;
  for (int i = 0; i < 50; ++i) {
    others.push_back(std::make_unique<WireClient>(daemon().grpc_port()));
    EXPECT_EQ(others.back()->Require(targets[0], 100).status(), wire::SUCCESS);
  }
  EXPECT_GT(Metric("dovetail_flushed_bytes_total"), 50.0 * kMiB);
  EXPECT_GT(Metric("dovetail_disk_segments"), kDescriptors / 2) << "two descriptors each";
  EXPECT_LT(Metric("process_open_fds"), kDescriptors);
  for (const Target& target : targets) ledger().ExpectAll(target);
  EXPECT_GT(Metric("dovetail_disk_reopened_total"), 0);
  EXPECT_EQ(Metric("dovetail_disk_state", {{"state", "broken"}}), 0);
  EXPECT_EQ(Metric("dovetail_disk_lost_partitions_total"), 0);
  others.clear();
  Finish();
}

// More removals at once than the engine's queue takes.
TEST_F(ManyFilesTest, AllGoWithTheirApplication) {
  constexpr int kShuffles = 5'000;
  const std::string path = PlainPath("disk");
  ASSERT_TRUE(Start({path}, {"memory_store.capacity=64M",
                             "hybrid_store.memory_single_buffer_max_spill_size=64K"}));
  for (int shuffle = 0; shuffle < kShuffles; ++shuffle) {
    const Target target = Registered("app", 1, shuffle);
    ledger().WriteInTheEnd(target, {MakeBlocks(0, 0, 1, 66'000)});
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_TRUE(daemon().WaitMetricAbove("dovetail_disk_segments", kShuffles * 9 / 10));
  Finish();
}

}  // namespace
}  // namespace dovetail::e2e
