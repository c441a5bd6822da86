// Data paths on a file system that is late, hangs or fails: a bad disk is bad alone.
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/e2e/disk/disk_suite.h"
#include "tests/e2e/disk/fault_mount.h"
#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

constexpr int32_t kPartitions = 8;
constexpr size_t kBlockBytes = 200'003;
constexpr std::chrono::seconds kLong{60};

class FaultDiskTest : public DiskTest {
 protected:
  void TearDown() override {
    if (bad_) bad_->Heal();  // or the daemon could not even be killed
    DiskTest::TearDown();
    bad_.reset();
  }

  // False: the test is to be skipped.
  bool AddBadDisk() {
    why_not_ = EnterOwnMounts();
    if (why_not_.empty()) bad_ = FaultMount::Make(folder_.path() + "/bad", why_not_);
    return bad_ != nullptr;
  }

  bool StartOnBoth() {
    good_path_ = PlainPath("good");
    return Start({bad_->folder(), good_path_}, Quick());
  }

  static Settings Quick() {
    return {"memory_store.capacity=16M",
            "localfile_store.min_number_of_available_disks=1",
            "localfile_store.io_duration_threshold_sec=2",
            "localfile_store.segment_bytes_max=4M",
            "localfile_store.flush_group_bytes_max=1M",
            "stop_deadline_ms=1000"};
  }

  void Write(const Target& target, int64_t bytes) {
    const int64_t until = ledger().acked_bytes() + bytes;
    while (ledger().acked_bytes() < until && !HasFatalFailure()) {
      const int64_t sequence = next_++;
      ledger().WriteInTheEnd(target, {MakeBlocks(static_cast<int32_t>(sequence % kPartitions),
                                                 sequence, 2, kBlockBytes, sequence % 5)});
    }
  }

  double Appended(const std::string& path) {
    return Metric("dovetail_disk_append_bytes_total", {{"path", path}});
  }

  void ExpectHeartbeat(const Target& target) {
    wire::AppHeartBeatRequest request;
    request.set_appid(target.app);
    EXPECT_EQ(client().Ask(&wire::ShuffleServer::Stub::appHeartbeat, request).status(),
              wire::SUCCESS);
  }

  std::unique_ptr<FaultMount> bad_;
  std::string good_path_;
  int64_t next_ = 0;
};

TEST_F(FaultDiskTest, ALateDiskIsOnlyLate) {
  if (!AddBadDisk()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(StartOnBoth());
  bad_->Delay(20);
  const Target target = Registered("app", kPartitions);
  Write(target, 30 * kMiB);
  EXPECT_TRUE(
      daemon().WaitMetricAbove("dovetail_disk_append_bytes_total", 0, {{"path", bad_->folder()}}));
  ledger().ExpectAll(target);
  Finish();
}

TEST_F(FaultDiskTest, AHangingDiskHangsOnlyItself) {
  if (!AddBadDisk()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(StartOnBoth());
  const std::string bad = bad_->folder();
  const Target before = Registered("before", kPartitions);
  Write(before, 40 * kMiB);
  EXPECT_GT(Appended(bad), 0);
  EXPECT_GT(Appended(good_path_), 0);

  bad_->Hang();
  const Target meanwhile = Registered("meanwhile", kPartitions);
  const double on_good = Appended(good_path_);
  Write(meanwhile, 60 * kMiB);
  EXPECT_TRUE(WaitState(bad, "slow", true)) << daemon().Log();
  Write(meanwhile, 20 * kMiB);
  EXPECT_GT(Appended(good_path_), on_good + 40 * kMiB);
  EXPECT_EQ(Metric("dovetail_disk_usable", {{"path", good_path_}}), 1);
  EXPECT_EQ(Metric("dovetail_ready"), 1);
  ledger().ExpectAll(meanwhile);
  ExpectHeartbeat(before);
  const Target small = Registered("small", 1);
  EXPECT_EQ(ledger().Write(small, {MakeBlocks(0, 0, 3, 1000)}), wire::SUCCESS);
  ledger().ExpectAll(small);
  // What lies on the hanging disk: all of it or an error, in the end.
  for (const int32_t partition : ledger().Partitions(before)) {
    const PartitionRead read = ReadPartition(client(), before, partition);
    if (read.status == wire::SUCCESS) ledger().ExpectRight(read, before, partition);
  }
  EXPECT_EQ(client().Unregister(meanwhile), wire::SUCCESS);

  bad_->Heal();
  EXPECT_TRUE(WaitState(bad, "slow", false)) << daemon().Log();
  EXPECT_TRUE(daemon().WaitMetric("dovetail_disk_usable", 1, {{"path", bad}}));
  const double on_bad = Appended(bad);
  Write(before, 40 * kMiB);
  EXPECT_GT(Appended(bad), on_bad);
  ledger().ExpectAll(before);
  EXPECT_EQ(Metric("dovetail_disk_lost_partitions_total"), 0) << "late is not lost";
  Finish();
}

TEST_F(FaultDiskTest, AStopDoesNotWaitForAHangingDisk) {
  if (!AddBadDisk()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(StartOnBoth());
  const Target target = Registered("app", kPartitions);
  Write(target, 20 * kMiB);
  bad_->Hang();
  Write(target, 20 * kMiB);
  EXPECT_TRUE(WaitState(bad_->folder(), "slow", true)) << daemon().Log();
  daemon().process().Signal(SIGTERM);
  // The process is over here; the kernel keeps what is left of it until the disk has answered.
  EXPECT_TRUE(daemon().WaitLog("stopped")) << daemon().Log();
  EXPECT_TRUE(daemon().WaitLog("data path " + bad_->folder() + " did not answer"));
  bad_->Heal();
  EXPECT_EQ(daemon().process().Wait(kLong), 5) << daemon().Log();
  EXPECT_EQ(AppsEntries(good_path_), std::vector<std::string>());
}

using Failure = std::tuple<const char*, int, const char*>;  // name, errno, state

class FailingWritesTest : public FaultDiskTest, public testing::WithParamInterface<Failure> {};

TEST_P(FailingWritesTest, GoToTheOtherDiskAndComeBack) {
  if (!AddBadDisk()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(StartOnBoth());
  const std::string bad = bad_->folder();
  const std::string state = std::get<2>(GetParam());
  const Target target = Registered("app", kPartitions);
  Write(target, 20 * kMiB);
  EXPECT_TRUE(daemon().WaitMetricAbove("dovetail_disk_append_bytes_total", 0, {{"path", bad}}));
  bad_->FailWrites(std::get<1>(GetParam()));
  const double on_good = Appended(good_path_);
  Write(target, 40 * kMiB);
  EXPECT_GT(Appended(good_path_), on_good);
  EXPECT_TRUE(daemon().WaitMetricAbove("dovetail_disk_append_failures_total", 0, {{"path", bad}}));
  EXPECT_NE(daemon().Log().find(state == "full" ? bad + " is full" : bad + " failed a write"),
            std::string::npos)
      << daemon().Log();
  ledger().ExpectAll(target);
  bad_->Heal();
  EXPECT_TRUE(WaitState(bad, state, false)) << daemon().Log();
  const double on_bad = Appended(bad);
  Write(target, 40 * kMiB);
  EXPECT_GT(Appended(bad), on_bad);
  ledger().ExpectAll(target);
  EXPECT_EQ(Metric("dovetail_disk_lost_partitions_total"), 0);
  Finish();
}

INSTANTIATE_TEST_SUITE_P(Disks, FailingWritesTest,
                         testing::Values(Failure{"Eio", EIO, "broken"},
                                         Failure{"ReadOnly", EROFS, "broken"},
                                         Failure{"Full", ENOSPC, "full"},
                                         Failure{"Quota", EDQUOT, "full"}),
                         [](const auto& info) { return std::string(std::get<0>(info.param)); });

class FailingReadsTest : public FaultDiskTest, public testing::WithParamInterface<bool> {};

// Param: whether the index has to be read from the disk too.
TEST_P(FailingReadsTest, AreLostForGoodAndSaidToEveryReader) {
  if (!AddBadDisk()) GTEST_SKIP() << why_not_;
  Settings settings = Quick();
  settings.push_back("hybrid_store.memory_single_buffer_max_spill_size=64K");
  if (GetParam()) settings.push_back("localfile_store.index_cache_bytes_max=0");
  ASSERT_TRUE(Start({bad_->folder()}, settings));
  const Target target = Registered("app", kPartitions);
  Write(target, 10 * kMiB);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_flushed_bytes_total",
                                  static_cast<double>(ledger().acked_bytes())));
  constexpr int32_t kLost = 3;
  bad_->FailReads(EIO);
  if (GetParam()) {
    EXPECT_EQ(ReadIndex(client(), target, kLost).status(), wire::INTERNAL_ERROR);
  } else {
    EXPECT_EQ(ReadData(client(), target, kLost, 10, 100).status(), wire::INTERNAL_ERROR);
  }
  bad_->Heal();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(ReadData(client(), target, kLost, 0, 100).status(), wire::INTERNAL_ERROR);
    EXPECT_EQ(ReadIndex(client(), target, kLost).status(), wire::INTERNAL_ERROR);
    EXPECT_EQ(ReadResult(client(), target, kLost).status(), wire::INTERNAL_ERROR);
    const auto page = ReadPage(client(), {.target = target, .partition = kLost, .filter = {}});
    EXPECT_EQ(page.status(), wire::INTERNAL_ERROR);
    EXPECT_FALSE(page.retmsg().empty());
    EXPECT_EQ(page.data().size(), 0u);
  }
  for (const int32_t partition : ledger().Partitions(target)) {
    if (partition == kLost) continue;
    ledger().ExpectPartition(target, partition);
    EXPECT_EQ(ReadResult(client(), target, partition).status(), wire::SUCCESS);
  }
  EXPECT_EQ(Metric("dovetail_disk_lost_partitions_total"), 1);
  EXPECT_GE(Metric("dovetail_disk_read_failures_total"), 1);
  EXPECT_NE(daemon().Log().find("partition 3 lost data"), std::string::npos) << daemon().Log();
  // A new life of the shuffle has nothing of it.
  ASSERT_EQ(client().Unregister(target), wire::SUCCESS);
  ASSERT_EQ(client().Register(target, kPartitions), wire::SUCCESS);
  EXPECT_EQ(ReadResult(client(), target, kLost).status(), wire::SUCCESS);
  Finish();
}

INSTANTIATE_TEST_SUITE_P(Disks, FailingReadsTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "OfIndexes" : "OfData");
});

}  // namespace
}  // namespace dovetail::e2e
