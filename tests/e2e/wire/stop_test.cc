// SIGTERM with applications alive: no new data, reads until the deadline, exit code 0.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/e2e/process/daemon_process.h"
#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/methods.h"
#include "tests/e2e/wire/reader.h"
#include "tests/e2e/wire/stalled_call.h"

namespace dovetail::e2e {
namespace {

class StopTest : public testing::Test {
 protected:
  void Start(const Settings& more) {
    Settings settings = {"memory_store.capacity=64M"};
    settings.insert(settings.end(), more.begin(), more.end());
    daemon_ = DaemonProcess::Start(settings);
    ASSERT_TRUE(daemon_);
    client_ = std::make_unique<WireClient>(daemon_->grpc_port());
    ASSERT_EQ(client_->Register(target_, 2), wire::SUCCESS);
    ASSERT_EQ(client_->Store(target_, {group_}), wire::SUCCESS);
  }

  void Terminate() {
    daemon_->process().Signal(SIGTERM);
    ASSERT_TRUE(daemon_->WaitMetric("dovetail_ready", 0));
  }

  int ExitCode() { return daemon_->process().Wait(std::chrono::seconds(60)).value_or(-1000); }

  wire::GetShuffleAssignmentsResponse Assignment() {
    wire::GetShuffleServerRequest request;
    request.set_applicationid("app");
    request.set_partitionnum(1);
    request.set_partitionnumperrange(1);
    request.set_datareplica(1);
    request.add_requiretags("GRPC");
    return client_->AskCoordinator(&wire::CoordinatorServer::Stub::getShuffleAssignments, request);
  }

  std::unique_ptr<DaemonProcess> daemon_;
  std::unique_ptr<WireClient> client_;
  const Target target_{"app", 0};
  const wire::ShuffleData group_ = MakeBlocks(0, 0, 20, 10'000);
};

TEST_F(StopTest, ReadsGoOnAndWritesDoNot) {
  Start({"stop_deadline_ms=3600000"});
  EXPECT_EQ(Assignment().status(), wire::SUCCESS);
  EXPECT_EQ(daemon_->Get("/readyz").status, 200);
  const int64_t ticket = client_->Ticket(target_, 1000);
  Terminate();

  EXPECT_EQ(daemon_->Get("/readyz").status, 503);
  EXPECT_EQ(daemon_->Get("/healthz").status, 200);
  EXPECT_EQ(Assignment().status(), wire::INTERNAL_ERROR);
  EXPECT_EQ(Assignment().assignments_size(), 0);
  EXPECT_EQ(client_->Register({"other", 0}, 1), wire::INTERNAL_ERROR);
  EXPECT_EQ(client_->Register(target_, 1), wire::INTERNAL_ERROR);
  const wire::RequireBufferResponse require = client_->Require(target_, 1000);
  EXPECT_EQ(require.status(), wire::INTERNAL_ERROR);
  EXPECT_EQ(require.requirebufferid(), -1);
  EXPECT_NE(require.retmsg().find("stopping"), std::string::npos);
  const auto send = client_->Send(MakeSend(target_, ticket, {MakeBlocks(0, 50, 1, 100)}));
  EXPECT_EQ(send.status(), wire::INTERNAL_ERROR);
  EXPECT_NE(send.retmsg().find("stopping"), std::string::npos);

  for (const char* name : {"appHeartbeat", "reportShuffleResult", "getShuffleResult",
                           "getShuffleResultForMultiPart", "getLocalShuffleIndex"}) {
    EXPECT_EQ(Call(*client_, ShuffleMethod(name), target_), wire::SUCCESS) << name;
  }
  ExpectBlocks(ReadPages(*client_, {.target = target_, .read_bytes = 25'000, .filter = {}}).blocks,
               {group_.block().begin(), group_.block().end()});
  EXPECT_TRUE(daemon_->process().Running());
  // The last application is gone: nothing more to wait for.
  EXPECT_EQ(client_->UnregisterApp(target_.app), wire::SUCCESS);
  EXPECT_EQ(ExitCode(), 0) << daemon_->Log();
}

TEST_F(StopTest, AtTheDeadlineWhatIsLeftIsDropped) {
  Start({"stop_deadline_ms=300"});
  EXPECT_EQ(daemon_->Stop(), 0) << daemon_->Log();
  EXPECT_NE(daemon_->Log().find("dropped " + std::to_string(StoredBytes({group_})) + " bytes"),
            std::string::npos)
      << daemon_->Log();
}

TEST_F(StopTest, WhoWaitsForMemoryIsTold) {
  Start({"stop_deadline_ms=3600000", "memory_store.require_wait_ms=3600000"});
  client_->Ticket(target_, 60 << 20);
  auto waiting =
      std::async(std::launch::async, [&] { return client_->Require(target_, 20 << 20); });
  ASSERT_TRUE(daemon_->WaitMetric("dovetail_require_waiting", 1));
  Terminate();
  const wire::RequireBufferResponse response = waiting.get();
  EXPECT_EQ(response.status(), wire::INTERNAL_ERROR);
  EXPECT_EQ(response.requirebufferid(), -1);
  client_->UnregisterApp(target_.app);
  EXPECT_EQ(ExitCode(), 0);
}

// A call that cannot end, because its client reads nothing, is cut after the deadline.
TEST_F(StopTest, ACallThatDoesNotEndIsCut) {
  Start({"stop_deadline_ms=0", "memory_store.read_bytes_max=64K",
         "memory_store.read_wait_ms=3600000"});
  ASSERT_EQ(client_->Store(target_, {MakeBlocks(1, 0, 4, 1 << 20)}), wire::SUCCESS);
  StalledCall stalled(
      daemon_->grpc_port(), "/rss.common.ShuffleServer/getMemoryShuffleData",
      ToRequest({.target = target_, .partition = 1, .filter = {}}).SerializeAsString());
  ASSERT_TRUE(daemon_->WaitMetric("dovetail_read_bytes_in_flight", AnswerCost(4, 1 << 20)));
  auto waiting = std::async(std::launch::async, [&] {
    return ReadPage(*client_, {.target = target_, .filter = {}}).status();
  });
  ASSERT_TRUE(daemon_->WaitMetric("dovetail_read_waiting", 1));
  daemon_->process().Signal(SIGTERM);
  EXPECT_EQ(waiting.get(), wire::INTERNAL_ERROR) << "who waits is told, not cut";
  EXPECT_EQ(ExitCode(), 5) << daemon_->Log();
  EXPECT_NE(daemon_->Log().find("stop_deadline_ms"), std::string::npos);
}

// Whatever was acknowledged while the stop began can be read until the end.
TEST_F(StopTest, WhileOthersWrite) {
  Start({"stop_deadline_ms=3600000"});
  std::mutex mutex;
  std::vector<wire::ShuffleBlock> acknowledged;
  std::vector<std::jthread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      WireClient own(daemon_->grpc_port());
      for (int64_t sequence = 0;; ++sequence) {
        const wire::RequireBufferResponse ticket = own.Require(target_, 1032);
        if (ticket.status() != wire::SUCCESS) return;
        const wire::ShuffleData blocks = MakeBlocks(1, sequence, 1, 1000, writer);
        if (own.Send(MakeSend(target_, ticket.requirebufferid(), {blocks})).status() !=
            wire::SUCCESS) {
          return;
        }
        std::lock_guard lock(mutex);
        acknowledged.push_back(blocks.block(0));
      }
    });
  }
  while (daemon_->Metrics().Value("dovetail_received_blocks_total") < 200) {
  }
  Terminate();
  writers.clear();
  std::set<int64_t> read;
  for (const int64_t id :
       IdsOf(ReadPages(*client_, {.target = target_, .partition = 1, .filter = {}}).blocks)) {
    read.insert(id);
  }
  for (const wire::ShuffleBlock& block : acknowledged) EXPECT_TRUE(read.contains(block.blockid()));
  client_->UnregisterApp(target_.app);
  EXPECT_EQ(ExitCode(), 0) << daemon_->Log();
}

}  // namespace
}  // namespace dovetail::e2e
