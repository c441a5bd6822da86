// Data paths that stop taking writes, and folders that vanish under the daemon: what was
// acknowledged is there, other disks take over, and what can come back does.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/disk/disk_suite.h"
#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kPartitions = 8;
constexpr size_t kBlockBytes = 200'003;

class BrokenTest : public DiskTest {
 protected:
  static Settings Small() {
    return {"memory_store.capacity=16M", "localfile_store.min_number_of_available_disks=1",
            "localfile_store.segment_bytes_max=4M", "localfile_store.flush_group_bytes_max=1M",
            "stop_deadline_ms=1000"};
  }

  std::vector<wire::ShuffleData> NextSend() {
    const int64_t sequence = next_++;
    return {MakeBlocks(static_cast<int32_t>(sequence % kPartitions), sequence, 2, kBlockBytes,
                       sequence % 5)};
  }

  void Write(const Target& target, int64_t bytes) {
    const int64_t until = ledger().acked_bytes() + bytes;
    while (ledger().acked_bytes() < until && !HasFatalFailure()) {
      ledger().WriteInTheEnd(target, NextSend());
    }
  }

  // Writes, whatever is answered, while `meanwhile` runs.
  void WriteDuring(const Target& target, const std::function<void()>& meanwhile) {
    std::atomic<bool> stop{false};
    std::thread writer([&] {
      while (!stop.load()) {
        const wire::StatusCode status = ledger().Write(target, NextSend());
        EXPECT_TRUE(status == wire::SUCCESS || status == wire::NO_BUFFER) << status;
        if (status != wire::SUCCESS) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
    meanwhile();
    stop.store(true);
    writer.join();
  }

  double Appended(const std::string& path) {
    return Metric("dovetail_disk_append_bytes_total", {{"path", path}});
  }

  int64_t next_ = 0;
};

TEST_F(BrokenTest, AFileSystemThatTurnsReadOnlyLeavesItsDataReadable) {
  DOVETAIL_NEEDS_MOUNTS();
  Mount* disk = AddExt4("first", 96 * kMiB);
  if (!disk) GTEST_SKIP() << why_not_;
  const std::string first = disk->folder();
  const std::string second = PlainPath("second");
  ASSERT_TRUE(Start({first, second}, Small()));
  const Target target = Registered("app", kPartitions);
  Write(target, 40 * kMiB);
  EXPECT_GT(Appended(first), 0);
  EXPECT_GT(Appended(second), 0);
  if (!disk->TripError()) GTEST_SKIP() << "this kernel does not let an ext4 be made to fail";
  const double before = Appended(second);
  Write(target, 40 * kMiB);
  EXPECT_TRUE(WaitState(first, "broken", true)) << daemon().Log();
  EXPECT_NE(daemon().Log().find("data path " + first + " failed a write"), std::string::npos);
  EXPECT_EQ(Metric("dovetail_disk_usable", {{"path", second}}), 1);
  EXPECT_GT(Appended(second), before + 20 * kMiB);
  EXPECT_EQ(Metric("dovetail_ready"), 1);
  ledger().ExpectAll(target);
  EXPECT_EQ(Metric("dovetail_disk_lost_partitions_total"), 0);
  // What cannot be removed there stays, and is said to; everything else goes, and a stop is a stop.
  client().UnregisterAll();
  EXPECT_TRUE(daemon().WaitLog("could not be removed")) << daemon().Log();
  EXPECT_TRUE(daemon().WaitMetric("dovetail_memory_used_bytes", 0));
  EXPECT_TRUE(daemon().WaitMetric("dovetail_disk_segments", 0, {{"path", second}}));
  EXPECT_TRUE(daemon().WaitMetric("dovetail_apps", 0));
  EXPECT_EQ(AppsEntries(second), std::vector<std::string>());
  EXPECT_EQ(daemon().Stop(), 0) << daemon().Log();
  EXPECT_NE(daemon().Log().find("the next start removes them"), std::string::npos);
}

TEST_F(BrokenTest, AnUnwritablePathComesBack) {
  DOVETAIL_NEEDS_MOUNTS();
  Mount* disk = AddExt4("disk", 96 * kMiB);
  if (!disk) GTEST_SKIP() << why_not_;
  const std::string path = disk->folder();
  ASSERT_TRUE(Start({path}, Small()));
  const Target target = Registered("app", kPartitions);
  Write(target, 20 * kMiB);
  WriteDuring(target, [&] {
    ASSERT_TRUE(MakeImmutable(path + "/dovetail", true));
    EXPECT_TRUE(WaitState(path, "broken", true)) << daemon().Log();
    EXPECT_TRUE(daemon().WaitMetricAbove("dovetail_require_refused_total", 0));
  });
  EXPECT_EQ(Metric("dovetail_disk_state", {{"state", "full"}}), 0);
  EXPECT_EQ(Metric("dovetail_ready"), 0);
  EXPECT_GT(Metric("dovetail_disk_append_failures_total"), 0);
  ledger().ExpectAll(target);
  EXPECT_EQ(Metric("dovetail_disk_state", {{"state", "broken"}}), 1) << "until a probe succeeds";

  ASSERT_TRUE(MakeImmutable(path + "/dovetail", false));
  const double before = Metric("dovetail_flushed_bytes_total");
  Write(target, 30 * kMiB);
  EXPECT_TRUE(WaitState(path, "broken", false)) << daemon().Log();
  EXPECT_NE(daemon().Log().find("is no longer broken"), std::string::npos);
  EXPECT_GT(Metric("dovetail_flushed_bytes_total"), before);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_ready", 1));
  ledger().ExpectAll(target);
  EXPECT_EQ(Metric("dovetail_disk_lost_partitions_total"), 0);
  Finish();
}

TEST_F(BrokenTest, TheAppsFolderMayBeDeletedUnderIt) {
  const std::string path = PlainPath("disk");
  ASSERT_TRUE(Start({path}, Small()));
  const Target target = Registered("app", kPartitions);
  Write(target, 20 * kMiB);
  ASSERT_FALSE(AppsEntries(path).empty());
  WriteDuring(target, [&] {
    const double before = Metric("dovetail_flushed_bytes_total");
    for (int round = 1; round <= 5; ++round) {
      std::error_code ignored;  // files come while others go
      fs::remove_all(path + "/dovetail/apps", ignored);
      EXPECT_TRUE(daemon().WaitMetricAbove("dovetail_flushed_bytes_total",
                                           before + static_cast<double>(round * 8 * kMiB)))
          << daemon().Log();
    }
  });
  ledger().ExpectAll(target);
  const Target other = Registered("other", kPartitions);
  Write(other, 30 * kMiB);
  ledger().ExpectAll(other);
  ledger().ExpectAll(target);
  EXPECT_EQ(Metric("dovetail_disk_lost_partitions_total"), 0);
  EXPECT_EQ(Metric("dovetail_disk_usable"), 1);
  Finish();
}

// Nothing can be made below a folder that was removed: the disk is broken and says why; the other
// one takes over.
TEST_F(BrokenTest, AllOfItMayBeDeletedUnderIt) {
  const std::string first = PlainPath("first");
  const std::string second = PlainPath("second");
  ASSERT_TRUE(Start({first, second}, Small()));
  const Target target = Registered("app", kPartitions);
  Write(target, 30 * kMiB);
  EXPECT_GT(Appended(first), 0);
  WriteDuring(target, [&] {
    std::error_code ignored;
    while (fs::exists(first + "/dovetail")) fs::remove_all(first + "/dovetail", ignored);
    EXPECT_TRUE(WaitState(first, "broken", true)) << daemon().Log();
  });
  EXPECT_NE(daemon().Log().find("data path " + first + " failed a write"), std::string::npos);
  EXPECT_NE(daemon().Log().find("was removed under the daemon: restart it"), std::string::npos);
  const double before = Appended(second);
  const Target other = Registered("other", kPartitions);
  Write(other, 30 * kMiB);
  EXPECT_GT(Appended(second), before);
  ledger().ExpectAll(target);
  ledger().ExpectAll(other);
  EXPECT_EQ(Metric("dovetail_disk_lost_partitions_total"), 0);
  EXPECT_EQ(Metric("dovetail_ready"), 1);
  Finish();
}

TEST_F(BrokenTest, TheOnlyPathMayBeDeletedUnderIt) {
  const std::string path = PlainPath("disk");
  ASSERT_TRUE(Start({path}, Small()));
  const Target target = Registered("app", kPartitions);
  Write(target, 20 * kMiB);
  fs::remove_all(path);
  WriteDuring(target, [&] {
    EXPECT_TRUE(WaitState(path, "broken", true)) << daemon().Log();
    EXPECT_TRUE(daemon().WaitMetricAbove("dovetail_require_refused_total", 0));
  });
  ledger().ExpectAll(target);
  EXPECT_EQ(Metric("dovetail_ready"), 0);
  EXPECT_FALSE(fs::exists(path));
  Finish();
}

}  // namespace
}  // namespace dovetail::e2e
