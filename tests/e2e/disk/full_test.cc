// A file system that fills up in the middle of flushes and is freed again: nothing acknowledged is
// lost, writers are refused and come back, and the state full is entered and left.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/e2e/disk/disk_suite.h"
#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

enum class FileSystem { kTmpfs, kExt4 };

// What one send is made of.
struct Shape {
  const char* name;
  int32_t partitions;
  int blocks;  // of each partition
  size_t bytes;
};

constexpr Shape kShapes[] = {
    {"Huge", 1, 1, 18 << 20}, {"Middle", 16, 2, 65'521}, {"Tiny", 64, 40, 97}};

using Case = std::tuple<FileSystem, Shape, bool>;

class FullTest : public DiskTest, public testing::WithParamInterface<Case> {
 protected:
  // A file system of its own keeps some for itself.
  static constexpr int64_t kTmpfsBytes = 64 * kMiB;
  static constexpr int64_t kExt4Bytes = 96 * kMiB;
  static constexpr int64_t kLeftBytes = 16 * kMiB;
  static constexpr int kSendsMax = 2'000;

  Mount* AddDisk() {
    return std::get<FileSystem>(GetParam()) == FileSystem::kTmpfs ? AddTmpfs("disk", kTmpfsBytes)
                                                                  : AddExt4("disk", kExt4Bytes);
  }

  std::vector<wire::ShuffleData> NextSend() {
    const Shape& shape = std::get<Shape>(GetParam());
    std::vector<wire::ShuffleData> groups;
    for (int32_t partition = 0; partition < shape.partitions; ++partition) {
      groups.push_back(MakeBlocks(partition, next_, shape.blocks, shape.bytes, next_ % 7));
    }
    next_ += shape.blocks;
    return groups;
  }

  // Until a writer is refused.
  void WriteUntilRefused(const Target& target) {
    for (int i = 0; i < kSendsMax; ++i) {
      const wire::StatusCode status = ledger().Write(target, NextSend());
      if (status == wire::SUCCESS) continue;
      ASSERT_EQ(status, wire::NO_BUFFER);
      return;
    }
    FAIL() << "never refused";
  }

  int64_t next_ = 0;
};

TEST_P(FullTest, LosesNothingAndComesBack) {
  DOVETAIL_NEEDS_MOUNTS();
  Mount* disk = AddDisk();
  if (!disk) GTEST_SKIP() << why_not_;
  const std::string path = disk->folder();
  const std::string ballast = path + "/ballast";
  const bool direct = std::get<bool>(GetParam());
  // Only a write that fails makes it full, not the look at the space.
  ASSERT_TRUE(Start({path}, {"memory_store.capacity=32M", "localfile_store.disk_high_watermark=1.0",
                             "localfile_store.flush_group_bytes_max=2M",
                             std::string("localfile_store.direct_io_append_enable=") +
                                 (direct ? "true" : "false")}));
  WriteBallast(ballast, FreeBytes(path) - kLeftBytes);
  const Target target = Registered("app", std::get<Shape>(GetParam()).partitions);

  WriteUntilRefused(target);
  EXPECT_TRUE(WaitState(path, "full", true)) << daemon().Log();
  // The disk was asked what it had room for; only one huge block fits nowhere.
  WriteUntilRefused(target);
  const bool huge = std::get<Shape>(GetParam()).blocks == 1;
  const double flushed = Metric("dovetail_flushed_bytes_total");
  EXPECT_EQ(flushed > 0, !huge);
  EXPECT_GT(Metric("dovetail_disk_append_failures_total"), 0);
  EXPECT_EQ(Metric("dovetail_disk_state", {{"state", "broken"}}), 0);
  EXPECT_EQ(Metric("dovetail_disk_usable"), 0);
  EXPECT_EQ(Metric("dovetail_ready"), 0) << "no new shuffles";
  EXPECT_EQ(Metric("dovetail_flushing_bytes"), 0);
  ledger().ExpectAll(target);
  EXPECT_GT(Metric("dovetail_read_bytes_total", {{"tier", "memory"}}), 0);
  EXPECT_EQ(Metric("dovetail_read_bytes_total", {{"tier", "file"}}) > 0, !huge);
  EXPECT_EQ(Metric("dovetail_disk_state", {{"state", "full"}}), 1) << "it still is";

  ASSERT_EQ(unlink(ballast.c_str()), 0);
  for (int i = 0; i < 2; ++i) ledger().WriteInTheEnd(target, NextSend());
  EXPECT_TRUE(WaitState(path, "full", false)) << daemon().Log();
  EXPECT_NE(daemon().Log().find("is no longer full"), std::string::npos);
  EXPECT_GT(Metric("dovetail_flushed_bytes_total"), flushed);
  EXPECT_EQ(Metric("dovetail_disk_usable"), 1);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_ready", 1));
  ledger().ExpectAll(target);
  EXPECT_GT(Metric("dovetail_read_bytes_total", {{"tier", "file"}}), 0);
  EXPECT_EQ(Metric("dovetail_disk_lost_partitions_total"), 0);
  Finish();
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return std::string(std::get<FileSystem>(info.param) == FileSystem::kTmpfs ? "Tmpfs" : "Ext4") +
         std::get<Shape>(info.param).name + (std::get<bool>(info.param) ? "Direct" : "Buffered");
}

INSTANTIATE_TEST_SUITE_P(Disks, FullTest,
                         testing::Combine(testing::Values(FileSystem::kTmpfs, FileSystem::kExt4),
                                          testing::ValuesIn(kShapes), testing::Bool()),
                         NameOf);

}  // namespace
}  // namespace dovetail::e2e
