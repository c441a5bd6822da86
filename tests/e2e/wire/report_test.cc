// Reported block ids: a result is always a superset of what was acknowledged before, and exactly
// what was reported in the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/golden/roaring64_slow_decoder.h"

namespace dovetail::e2e {
namespace {

using Stub = wire::ShuffleServer::Stub;
using Ids = std::vector<uint64_t>;

class ReportTest : public DaemonSuite<ReportTest> {
 public:
  static Settings MakeSettings() {
    return {"memory_store.capacity=64M", "memory_store.report_bytes_max=8M"};
  }

 protected:
  static wire::StatusCode Report(WireClient& through, const Target& target, int32_t partition,
                                 const Ids& ids) {
    wire::ReportShuffleResultRequest request;
    request.set_appid(target.app);
    request.set_shuffleid(target.shuffle);
    request.set_bitmapnum(1);
    wire::PartitionToBlockIds* report = request.add_partitiontoblockids();
    report->set_partitionid(partition);
    for (const uint64_t id : ids) report->add_blockids(static_cast<int64_t>(id));
    return through.Ask(&Stub::reportShuffleResult, request).status();
  }

  // Sorted.
  static Ids Result(WireClient& through, const Target& target,
                    const std::vector<int32_t>& partitions) {
    wire::GetShuffleResultForMultiPartRequest request;
    request.set_appid(target.app);
    request.set_shuffleid(target.shuffle);
    for (const int32_t partition : partitions) request.add_partitions(partition);
    *request.mutable_blockidlayout() = SparkLayout();
    const auto response = through.Ask(&Stub::getShuffleResultForMultiPart, request);
    EXPECT_EQ(response.status(), wire::SUCCESS) << response.retmsg();
    if (response.serializedbitmap().empty()) return {};
    const auto ids = golden::SlowDecoder::Decode(response.serializedbitmap());
    EXPECT_TRUE(ids) << "the bitmap does not decode";
    return ids.value_or(Ids());
  }

  static Ids IdsFrom(int64_t first, int count, int64_t partition) {
    Ids ids;
    for (int64_t i = first; i < first + count; ++i) {
      ids.push_back(static_cast<uint64_t>(BlockId(i % 64, partition, i / 64)));
    }
    std::ranges::sort(ids);
    return ids;
  }
};

TEST_F(ReportTest, OnePartitionOrMany) {
  const Target target = Registered(4);
  const Ids first = IdsFrom(0, 500, 1);
  const Ids second = IdsFrom(7, 900, 2);
  EXPECT_EQ(Report(client(), target, 1, first), wire::SUCCESS);
  EXPECT_EQ(Report(client(), target, 2, second), wire::SUCCESS);
  EXPECT_EQ(Result(client(), target, {1}), first);
  EXPECT_EQ(Result(client(), target, {2}), second);
  EXPECT_EQ(Result(client(), target, {3}), Ids());
  Ids both;
  std::ranges::merge(first, second, std::back_inserter(both));
  EXPECT_EQ(Result(client(), target, {2, 1, 0, 1}), both);

  wire::GetShuffleResultRequest request;
  request.set_appid(target.app);
  request.set_partitionid(2);
  *request.mutable_blockidlayout() = SparkLayout();
  const auto response = client().Ask(&Stub::getShuffleResult, request);
  EXPECT_EQ(golden::SlowDecoder::Decode(response.serializedbitmap()), second);
}

TEST_F(ReportTest, AgainAndAgain) {
  const Target target = Registered(1);
  const Ids ids = IdsFrom(0, 1000, 0);
  EXPECT_EQ(Report(client(), target, 0, ids), wire::SUCCESS);
  const double bytes = Metric("dovetail_report_bytes");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Report(client(), target, 0, ids), wire::SUCCESS);
  EXPECT_EQ(Metric("dovetail_report_bytes"), bytes);
  EXPECT_EQ(Result(client(), target, {0}), ids);
}

TEST_F(ReportTest, AnyIdIsAnId) {
  const Target target = Registered(1);
  const Ids ids = {
      0, 1, 0xffffffff, 0x100000000, uint64_t{INT64_MAX}, uint64_t{INT64_MAX} + 1, UINT64_MAX};
  EXPECT_EQ(Report(client(), target, 0, ids), wire::SUCCESS);
  EXPECT_EQ(Result(client(), target, {0}), ids);
}

TEST_F(ReportTest, OneWrongPartitionAndNothingIsTaken) {
  const Target target = Registered(2);
  wire::ReportShuffleResultRequest request;
  request.set_appid(target.app);
  for (const int32_t partition : {0, 1, 2}) {
    wire::PartitionToBlockIds* report = request.add_partitiontoblockids();
    report->set_partitionid(partition);
    report->add_blockids(partition + 10);
  }
  EXPECT_EQ(client().Ask(&Stub::reportShuffleResult, request).status(), wire::NO_REGISTER);
  request.mutable_partitiontoblockids(2)->set_partitionid(-1);
  EXPECT_EQ(client().Ask(&Stub::reportShuffleResult, request).status(), wire::INVALID_REQUEST);
  EXPECT_EQ(Result(client(), target, {0, 1}), Ids());
  EXPECT_EQ(Metric("dovetail_report_bytes"), 0);
}

TEST_F(ReportTest, ReadWhileOthersReport) {
  const Target target = Registered(2);
  constexpr int kReporters = 3;
  constexpr int kReports = 80;
  constexpr int kIds = 50;
  std::mutex mutex;
  std::set<uint64_t> acknowledged;
  std::atomic<int> running{kReporters};
  std::vector<std::jthread> reporters;
  for (int reporter = 0; reporter < kReporters; ++reporter) {
    reporters.emplace_back([&, reporter] {
      WireClient own(daemon().grpc_port());
      for (int report = 0; report < kReports; ++report) {
        const Ids ids = IdsFrom((reporter * kReports + report) * kIds, kIds, report % 2);
        EXPECT_EQ(Report(own, target, report % 2, ids), wire::SUCCESS);
        std::lock_guard lock(mutex);
        acknowledged.insert(ids.begin(), ids.end());
      }
      running -= 1;
    });
  }
  bool last = false;
  while (!last && !HasFailure()) {
    last = running == 0;
    std::set<uint64_t> before;
    {
      std::lock_guard lock(mutex);
      before = acknowledged;
    }
    const Ids result = Result(client(), target, {0, 1});
    ASSERT_TRUE(std::ranges::includes(result, before)) << "less than was acknowledged";
    if (last) {
      EXPECT_EQ(result.size(), before.size());
    }
  }
}

TEST_F(ReportTest, TheirMemoryHasALimit) {
  const Target target = Registered(1);
  wire::StatusCode status = wire::SUCCESS;
  int reports = 0;
  // Scattered ids take the most room.
  for (; status == wire::SUCCESS && reports < 100; ++reports) {
    Ids ids;
    for (uint64_t i = 0; i < 20'000; ++i) ids.push_back((i << 32) + static_cast<uint64_t>(reports));
    status = Report(client(), target, 0, ids);
  }
  EXPECT_EQ(status, wire::INTERNAL_ERROR);
  EXPECT_GT(reports, 1);
  EXPECT_EQ(client().UnregisterApp(target.app), wire::SUCCESS);
  const Target next = Registered(1);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_report_bytes", 0));
  EXPECT_EQ(Report(client(), next, 0, {1, 2, 3}), wire::SUCCESS) << "the refusal must lift";
}

}  // namespace
}  // namespace dovetail::e2e
