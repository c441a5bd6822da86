// Few descriptors and many files: slower perhaps, never wrong, and connections are still taken.
// Files that may not grow: said by the start, or an error of that write.
#include <gtest/gtest.h>
#include <signal.h>

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

class FileSizeTest : public DiskTest {
 protected:
  static constexpr unsigned long kNeededBytes = (1 << 20) + (64 << 10);

  static SubprocessOptions Limited(unsigned long soft, unsigned long hard) {
    return {.file_bytes_soft = soft, .file_bytes_hard = hard, .environment = {}};
  }

  const Settings settings_ = {"memory_store.capacity=64M", "localfile_store.segment_bytes_max=1M",
                              "localfile_store.flush_group_bytes_max=64K",
                              "hybrid_store.memory_single_buffer_max_spill_size=64K"};
};

TEST_F(FileSizeTest, ALimitBelowASegmentRefusesTheStart) {
  Settings settings = settings_;
  settings.push_back(PathsSetting({PlainPath("disk")}));
  DaemonProcess refused(settings, Limited(kNeededBytes - 1, kNeededBytes - 1));
  EXPECT_EQ(refused.process().Wait(std::chrono::seconds(60)), 4) << refused.Log();
  EXPECT_NE(refused.Log().find("start refused: files may have 1114111 bytes at most, but a segment "
                               "may take 1114112 "),
            std::string::npos)
      << refused.Log();
  EXPECT_NE(refused.Log().find("raise the limit (ulimit -f, or LimitFSIZE="), std::string::npos);
  const Finished probe =
      RunToEnd({DaemonBinary(), "--probe", PlainPath("disk")}, Limited(1024, 1024));
  EXPECT_EQ(probe.exit_code, 4) << probe.out;
  EXPECT_NE(probe.out.find("file size: a start would be refused: files may have 1024 bytes"),
            std::string::npos)
      << probe.out;
}

TEST_F(FileSizeTest, WithoutDataPathsNoLimitIsTooLow) {
  const auto started = DaemonProcess::Start(settings_, Limited(1 << 16, 1 << 16));
  ASSERT_TRUE(started);
  EXPECT_EQ(started->Stop(), 0);
}

// The soft limit alone would refuse the start. A partition larger than a group is not divided: its
// append does not fit, which is an error of that append and leaves the data where it was.
TEST_F(FileSizeTest, AWriteBeyondTheLimitDoesNotEndTheDaemon) {
  ASSERT_TRUE(Start({PlainPath("disk")}, settings_, Limited(1 << 16, kNeededBytes)));
  const Target target = Registered("app", 1);
  ledger().WriteInTheEnd(target, {MakeBlocks(0, 0, 1, 100'000)});
  EXPECT_TRUE(daemon().WaitMetricAbove("dovetail_flushed_bytes_total", 0));
  ledger().WriteInTheEnd(target, {MakeBlocks(0, 1, 3, 1'000'000)});
  EXPECT_TRUE(daemon().WaitMetricAbove("dovetail_disk_append_failures_total", 0)) << daemon().Log();
  daemon().process().Signal(SIGXFSZ);
  ledger().ExpectAll(target);
  Finish();
}

}  // namespace
}  // namespace dovetail::e2e
