// Clients that ask and do not read: their calls are cut, and what their answers held is free again.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/e2e/wire/reader.h"
#include "tests/e2e/wire/stalled_call.h"
#include "tests/e2e/wire/unread_call.h"

namespace dovetail::e2e {
namespace {

class AnswerTimeoutTest : public DaemonSuite<AnswerTimeoutTest> {
 public:
  static Settings MakeSettings() {
    return {"memory_store.capacity=64M", "memory_store.read_bytes_max=64K",
            "memory_store.read_wait_ms=3600000", "memory_store.report_bytes_max=64M",
            "grpc_answer_timeout_ms=500"};
  }

 protected:
  static std::string Path(std::string_view method) {
    return std::string("/rss.common.ShuffleServer/").append(method);
  }

  // The one that does not read has all of read_bytes_max; the next one would wait an hour for it.
  static void OthersReadAgain(UnreadCall::Stuck stuck) {
    const Target target = Registered(1);
    ASSERT_EQ(client().Store(target, {MakeBlocks(0, 0, 8, 1 << 20)}), wire::SUCCESS);
    const double cut = Metric("dovetail_answers_cut_total");
    const PageAsk ask{.target = target, .read_bytes = INT32_MAX, .filter = {}};
    UnreadCall unread(stuck, daemon().grpc_port(), Path("getMemoryShuffleData"),
                      ToRequest(ask).SerializeAsString());
    ASSERT_TRUE(unread.sent());
    ASSERT_TRUE(daemon().WaitMetric("dovetail_answers_cut_total", cut + 1));
    EXPECT_EQ(ReadPages(client(), {.target = target, .filter = {}}).blocks.size(), 8u);
    EXPECT_TRUE(daemon().WaitMetric("dovetail_read_bytes_in_flight", 0));
    EXPECT_EQ(client().UnregisterApp(target.app), wire::SUCCESS);
    EXPECT_TRUE(daemon().WaitMetric("dovetail_arena_used_bytes", 0));
  }
};

TEST_F(AnswerTimeoutTest, AClientThatGrantsNoWindow) {
  OthersReadAgain(UnreadCall::Stuck::kNoWindow);
}

TEST_F(AnswerTimeoutTest, AClientThatDoesNotReadItsSocket) {
  OthersReadAgain(UnreadCall::Stuck::kNoRead);
}

// All answers are watched: those of a result too.
TEST_F(AnswerTimeoutTest, AResultThatIsNotTaken) {
  const Target target = Registered(1);
  wire::ReportShuffleResultRequest report;
  report.set_appid(target.app);
  report.set_shuffleid(target.shuffle);
  wire::PartitionToBlockIds* ids = report.add_partitiontoblockids();
  // Far apart, so that the bitmap is large.
  for (int64_t task = 0; task < 4'000'000; task += 20)
    ids->add_blockids(BlockId(task % 7, 0, task));
  ASSERT_EQ(client().Ask(&wire::ShuffleServer::Stub::reportShuffleResult, report).status(),
            wire::SUCCESS);
  wire::GetShuffleResultRequest request;
  request.set_appid(target.app);
  request.set_shuffleid(target.shuffle);
  *request.mutable_blockidlayout() = SparkLayout();
  const double cut = Metric("dovetail_answers_cut_total");
  StalledCall stalled(daemon().grpc_port(), Path("getShuffleResult"), request.SerializeAsString());
  ASSERT_TRUE(stalled.sent());
  EXPECT_TRUE(daemon().WaitMetric("dovetail_answers_cut_total", cut + 1));
}

// Assignments have a bound of their own on what is on its way.
TEST_F(AnswerTimeoutTest, AssignmentsThatAreNotTaken) {
  wire::GetShuffleServerRequest request;
  request.set_applicationid("app");
  request.set_partitionnum(1'000'000);
  request.set_partitionnumperrange(1);
  request.set_datareplica(1);
  const double cut = Metric("dovetail_answers_cut_total");
  std::vector<std::unique_ptr<StalledCall>> stalled;
  for (int i = 0; i < 4; ++i) {
    stalled.push_back(std::make_unique<StalledCall>(
        daemon().grpc_port(), "/rss.common.CoordinatorServer/getShuffleAssignments",
        request.SerializeAsString()));
  }
  EXPECT_TRUE(daemon().WaitMetric("dovetail_answers_cut_total", cut + 4));
  request.set_partitionnum(1);
  EXPECT_EQ(client()
                .AskCoordinator(&wire::CoordinatorServer::Stub::getShuffleAssignments, request)
                .status(),
            wire::SUCCESS);
}

// Who takes its answer is never cut.
TEST_F(AnswerTimeoutTest, AClientThatReads) {
  const Target target = Registered(1);
  ASSERT_EQ(client().Store(target, {MakeBlocks(0, 0, 8, 1 << 20)}), wire::SUCCESS);
  const double cut = Metric("dovetail_answers_cut_total");
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ReadPages(client(), {.target = target, .filter = {}}).blocks.size(), 8u);
  }
  EXPECT_EQ(Metric("dovetail_answers_cut_total"), cut);
}

}  // namespace
}  // namespace dovetail::e2e
