// The limit is looked up in made-up /proc and /sys trees, as they look on plain machines and in
// containers.
#include "config/memory_limit.h"

#include <gtest/gtest.h>

#include "tests/config/scratch_folder.h"

namespace dovetail::config {
namespace {

constexpr int64_t kGiB = 1LL << 30;
constexpr int64_t kMachine = 64 * kGiB;

class MemoryLimitTest : public testing::Test {
 protected:
  void UnifiedMount(const std::string& shown_cgroup = "/") const {
    root_.Write("proc/self/mountinfo",
                "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
                "31 22 0:26 " +
                    shown_cgroup +
                    " /sys/fs/cgroup rw,nosuid shared:9 master:4 - cgroup2 cgroup2 rw\n");
  }
  void MemoryMount(const std::string& shown_cgroup) const {
    root_.Write("proc/self/mountinfo",
                "30 22 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                "31 22 0:26 " +
                    shown_cgroup + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }
  MemoryLimit Find() const { return FindMemoryLimit(root_.path(), kMachine); }

  ScratchFolder root_;
};

TEST_F(MemoryLimitTest, MachineWhereThereIsNoCgroup) {
  EXPECT_EQ(Find().bytes, kMachine);
  EXPECT_NE(Find().reason.find("machine"), std::string::npos);
}

TEST_F(MemoryLimitTest, UnifiedTakesTheSmallestOfItselfAndItsParents) {
  UnifiedMount();
  root_.Write("proc/self/cgroup", "0::/system.slice/dovetail.service\n");
  root_.Write("sys/fs/cgroup/system.slice/dovetail.service/memory.max", "max\n");
  EXPECT_EQ(Find().bytes, kMachine);
  root_.Write("sys/fs/cgroup/system.slice/memory.max", "8589934592\n");
  EXPECT_EQ(Find().bytes, 8 * kGiB);
  EXPECT_NE(Find().reason.find("/sys/fs/cgroup/system.slice/memory.max"), std::string::npos);
  root_.Write("sys/fs/cgroup/system.slice/dovetail.service/memory.max", "4294967296\n");
  EXPECT_EQ(Find().bytes, 4 * kGiB);
  root_.Write("sys/fs/cgroup/system.slice/dovetail.service/memory.high", "2147483648\n");
  EXPECT_EQ(Find().bytes, 2 * kGiB);
}

TEST_F(MemoryLimitTest, UnifiedContainerSeesItselfAsTheRoot) {
  UnifiedMount();
  root_.Write("proc/self/cgroup", "0::/\n");
  root_.Write("sys/fs/cgroup/memory.max", "1073741824\n");
  EXPECT_EQ(Find().bytes, kGiB);
}

TEST_F(MemoryLimitTest, FirstVersionTakesTheSmallestOfItselfAndItsParents) {
  MemoryMount("/");
  root_.Write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/batch/job\n0::/elsewhere\n");
  root_.Write("sys/fs/cgroup/memory/batch/job/memory.limit_in_bytes", "9223372036854771712\n");
  root_.Write("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(Find().bytes, kMachine);
  root_.Write("sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "3221225472\n");
  EXPECT_EQ(Find().bytes, 3 * kGiB);
}

TEST_F(MemoryLimitTest, FirstVersionCountsParentsThatOnlyTheStatisticsKnow) {
  MemoryMount("/docker/abc");
  root_.Write("proc/self/cgroup", "4:memory:/docker/abc\n");
  root_.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root_.Write("sys/fs/cgroup/memory/memory.stat",
              "cache 1\nhierarchical_memory_limit 2147483648\ntotal_cache 1\n");
  EXPECT_EQ(Find().bytes, 2 * kGiB);
}

TEST_F(MemoryLimitTest, MountThatShowsOnlyAPartIsFollowedBelowThatPart) {
  MemoryMount("/docker/abc");
  root_.Write("proc/self/cgroup", "4:memory:/docker/abc/inner\n");
  root_.Write("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(Find().bytes, kGiB);
}

TEST_F(MemoryLimitTest, CgroupOutsideTheMountFallsBackToTheMount) {
  UnifiedMount("/kubepods/pod1");
  for (const char* line : {"0::/kubepods/pod10\n", "0::/../sibling\n", "0::/other\n"}) {
    root_.Write("proc/self/cgroup", line);
    root_.Write("sys/fs/cgroup/memory.max", "1073741824\n");
    EXPECT_EQ(Find().bytes, kGiB) << line;
  }
}

TEST_F(MemoryLimitTest, APathUpwardsDoesNotLeaveTheMount) {
  UnifiedMount();
  root_.Write("proc/self/cgroup", "0::/../sibling\n");
  root_.Write("sys/fs/cgroup/memory.max", "1073741824\n");
  root_.Write("sys/fs/sibling/memory.max", "4096\n");
  EXPECT_EQ(Find().bytes, kGiB);
}

TEST_F(MemoryLimitTest, NonsenseIsNoLimit) {
  UnifiedMount();
  root_.Write("proc/self/cgroup", "garbage\n0::/a\n::\n");
  for (const char* text : {"", "12x\n", "-5\n", "0\n", "99999999999999999999\n", "1\n2\n"}) {
    root_.Write("sys/fs/cgroup/a/memory.max", text);
    EXPECT_EQ(Find().bytes, kMachine) << text;
  }
}

TEST(MachineMemory, IsPlausible) { EXPECT_GT(MachineMemoryBytes(), 64LL << 20); }

}  // namespace
}  // namespace dovetail::config
