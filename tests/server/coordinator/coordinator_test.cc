#include "server/coordinator/coordinator.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dovetail::server {
namespace {

using std::chrono::seconds;

class CoordinatorTest : public testing::Test {
 protected:
  // Ten thousand servers would log as many lines.
  static void SetUpTestSuite() { spdlog::set_level(spdlog::level::err); }
  static void TearDownTestSuite() { spdlog::set_level(spdlog::level::info); }

  static ServerReport Report(const std::string& id, int64_t available_bytes = 1000) {
    ServerReport report;
    report.server = {
        .id = id, .ip = "10.0.0.1", .grpc_port = 19999, .netty_port = 0, .http_port = 20010};
    report.available_memory_bytes = available_bytes;
    report.tags = {"ss_v5", "GRPC"};
    return report;
  }

  static AssignmentRequest Request(int32_t partitions = 10) {
    AssignmentRequest request;
    request.app_id = "app_1";
    request.shape.partitions = partitions;
    request.required_tags = {"ss_v5", "GRPC"};
    return request;
  }

  void Beat(const std::string& id, int64_t available_bytes = 1000) {
    const Outcome outcome = coordinator_.Heartbeat(Report(id, available_bytes));
    ASSERT_TRUE(outcome.ok()) << outcome.message;
  }

  std::vector<std::string> Ids(const AssignmentRequest& request) {
    const Reply<Assignment> reply = coordinator_.Assign(request);
    EXPECT_TRUE(reply.outcome.ok()) << reply.outcome.message;
    std::vector<std::string> ids;
    for (const ServerIdentity& server : reply.value.servers()) ids.push_back(server.id);
    return ids;
  }

  void ExpectCode(const AssignmentRequest& request, StatusCode code) {
    const Reply<Assignment> reply = coordinator_.Assign(request);
    EXPECT_EQ(reply.outcome.code, code) << reply.outcome.message;
    EXPECT_EQ(reply.value.ranges(), 0);
    EXPECT_FALSE(reply.outcome.message.empty());
  }

  // The value of a line of the metrics text, -1 when there is none.
  double Metric(const std::string& series) {
    const std::string text = "\n" + metrics_.Render();
    const size_t at = text.find("\n" + series + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size() + 2));
  }

  using Strings = std::vector<std::string>;

  TimePoint now_ = std::chrono::steady_clock::now();
  MetricsRegistry metrics_;
  Coordinator coordinator_{
      CoordinatorOptions{.server_heartbeat_timeout_sec = 30, .shuffle_nodes_max = 4}, metrics_,
      [this] { return now_; }};
};

TEST_F(CoordinatorTest, AssignsTheServerThatIsThere) {
  Beat("s1");
  const Reply<Assignment> reply = coordinator_.Assign(Request(3));
  ASSERT_TRUE(reply.outcome.ok());
  EXPECT_EQ(reply.value.ranges(), 3);
  ASSERT_EQ(reply.value.servers().size(), 1U);
  EXPECT_EQ(reply.value.servers()[0], Report("s1").server);
}

TEST_F(CoordinatorTest, PrefersMemoryThenId) {
  Beat("d", 5);
  Beat("b", 7);
  Beat("c", 7);
  Beat("a", -3);
  EXPECT_EQ(Ids(Request()), (Strings{"b", "c", "d", "a"}));
  Beat("a", 100);
  EXPECT_EQ(Ids(Request()), (Strings{"a", "b", "c", "d"}));
}

TEST_F(CoordinatorTest, SpreadsOverAsManyServersAsAskedUpToItsLimit) {
  for (const char* id : {"a", "b", "c", "d", "e", "f"}) Beat(id);
  AssignmentRequest request = Request();
  for (const auto& [wanted, given] : std::vector<std::pair<int32_t, size_t>>{{-1, 4},
                                                                             {0, 4},
                                                                             {1, 1},
                                                                             {3, 3},
                                                                             {4, 4},
                                                                             {5, 4},
                                                                             {2'147'483'647, 4},
                                                                             {-2'147'483'648, 4}}) {
    request.servers_wanted = wanted;
    EXPECT_EQ(Ids(request).size(), given) << wanted;
  }
  // Replicas need distinct servers, whatever number was asked for.
  request.servers_wanted = 1;
  request.shape.replicas = 3;
  EXPECT_EQ(Ids(request).size(), 3U);
  request.shape.replicas = 5;
  EXPECT_EQ(Ids(request).size(), 5U);
}

TEST_F(CoordinatorTest, LeavesOutServersThatDoNotFit) {
  Beat("good");
  Beat("faulty");
  ServerReport untagged = Report("untagged");
  untagged.tags = {"ss_v5"};
  ASSERT_TRUE(coordinator_.Heartbeat(untagged).ok());
  for (int status = 1; status < kMemberStatuses; ++status) {
    ServerReport report = Report("status" + std::to_string(status));
    report.status = static_cast<MemberStatus>(status);
    ASSERT_TRUE(coordinator_.Heartbeat(report).ok());
  }
  AssignmentRequest request = Request();
  request.faulty_server_ids = {"faulty", "nobody", "goo"};
  EXPECT_EQ(Ids(request), Strings{"good"});
}

TEST_F(CoordinatorTest, NoTagsAskedFitsEveryServer) {
  ServerReport untagged = Report("untagged");
  untagged.tags = {};
  ASSERT_TRUE(coordinator_.Heartbeat(untagged).ok());
  AssignmentRequest request = Request();
  request.required_tags = {};
  EXPECT_EQ(Ids(request), Strings{"untagged"});
}

TEST_F(CoordinatorTest, TheLatestHeartbeatCounts) {
  ServerReport report = Report("s1");
  report.status = MemberStatus::kUnhealthy;
  ASSERT_TRUE(coordinator_.Heartbeat(report).ok());
  ExpectCode(Request(), StatusCode::kInternalError);
  Beat("s1");
  EXPECT_EQ(Ids(Request()), Strings{"s1"});
  report.status = MemberStatus::kDecommissioning;
  ASSERT_TRUE(coordinator_.Heartbeat(report).ok());
  ExpectCode(Request(), StatusCode::kInternalError);
  report = Report("s1");
  report.tags = {"other"};
  ASSERT_TRUE(coordinator_.Heartbeat(report).ok());
  ExpectCode(Request(), StatusCode::kInternalError);
}

TEST_F(CoordinatorTest, SaysWhatWasAskedAndWhatThereIs) {
  Beat("a");
  Beat("b");
  ServerReport report = Report("sick");
  report.status = MemberStatus::kUnhealthy;
  ASSERT_TRUE(coordinator_.Heartbeat(report).ok());
  AssignmentRequest request = Request();
  request.required_tags = {"ss_v5", "GRPC_NETTY\n[critical] forged"};
  request.shape.replicas = 2;
  const std::string untagged = coordinator_.Assign(request).outcome.message;
  EXPECT_NE(untagged.find("2 servers with the tags [ss_v5, GRPC_NETTY?[critical] forged] are "
                          "needed and 0 found; of 3 known, 1 are silent or not active, 2 lack a "
                          "tag, 0 were named faulty"),
            std::string::npos)
      << untagged;
  request.required_tags = {"ss_v5"};
  request.faulty_server_ids = {"a"};
  const std::string faulty = coordinator_.Assign(request).outcome.message;
  EXPECT_NE(faulty.find("1 found"), std::string::npos) << faulty;
  EXPECT_NE(faulty.find("1 were named faulty"), std::string::npos) << faulty;
}

TEST_F(CoordinatorTest, SilentServersGetNothingAndComeBack) {
  Beat("s1");
  now_ += seconds(30);
  EXPECT_EQ(Ids(Request()), Strings{"s1"});
  now_ += std::chrono::milliseconds(1);
  ExpectCode(Request(), StatusCode::kInternalError);
  EXPECT_TRUE(coordinator_.Servers().empty());
  EXPECT_EQ(coordinator_.server_count(), 0U);
  EXPECT_FALSE(coordinator_.available());
  EXPECT_FALSE(coordinator_.CheckAccess({}).ok());
  EXPECT_EQ(Metric(R"(dovetail_coordinator_servers{status="active"})"), 0);
  Beat("s1");
  EXPECT_EQ(Ids(Request()), Strings{"s1"});
}

TEST_F(CoordinatorTest, ExpireForgetsOnlyTheSilent) {
  Beat("old");
  now_ += seconds(20);
  Beat("young");
  now_ += seconds(11);
  coordinator_.Expire();
  EXPECT_FALSE(coordinator_.Remove("old"));
  EXPECT_TRUE(coordinator_.Remove("young"));
}

TEST_F(CoordinatorTest, RemovedServersGetNothing) {
  Beat("s1");
  Beat("s10");
  EXPECT_TRUE(coordinator_.Remove("s1"));
  EXPECT_FALSE(coordinator_.Remove("s1"));
  EXPECT_FALSE(coordinator_.Remove(""));
  EXPECT_EQ(Ids(Request()), Strings{"s10"});
}

TEST_F(CoordinatorTest, RefusesHostileRequests) {
  Beat("s1");
  const auto refused = [&](auto change) {
    AssignmentRequest request = Request();
    change(request);
    ExpectCode(request, StatusCode::kInvalidRequest);
  };
  const std::string long_name(256, 'a');
  const std::string with_nul("a\0b", 3);
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
  refused([](auto& r) { r = AssignmentRequest(); });
  refused([](auto& r) { r.app_id = ""; });
  refused([&](auto& r) { r.app_id = long_name; });
  refused([&](auto& r) { r.app_id = with_nul; });
  refused([](auto& r) { r.shuffle_id = -1; });
  for (const int32_t bad : {0, -1, kLeast}) {
    refused([bad](auto& r) { r.shape.partitions = bad; });
    refused([bad](auto& r) { r.shape.partitions_per_range = bad; });
    refused([bad](auto& r) { r.shape.replicas = bad; });
  }
  refused([](auto& r) { r.shape.partitions = Coordinator::kAssignmentEntriesMax + 1; });
  refused([](auto& r) { r.shape.partitions = kMost; });
  refused([](auto& r) { r.shape.replicas = kMost; });
  refused([](auto& r) {
    r.shape.partitions = kMost;
    r.shape.replicas = kMost;
  });
  refused([](auto& r) { r.required_tags.assign(Coordinator::kTagsMax + 1, "t"); });
  refused([&](auto& r) { r.required_tags = {long_name}; });
  refused([](auto& r) { r.required_tags = {""}; });
  refused([](auto& r) { r.faulty_server_ids.resize(Coordinator::kFaultyServersMax + 1); });
  EXPECT_EQ(Ids(Request()), Strings{"s1"});
}

TEST_F(CoordinatorTest, TakesTheLargestRequestItAllows) {
  Beat("s1");
  AssignmentRequest request = Request(Coordinator::kAssignmentEntriesMax);
  EXPECT_EQ(coordinator_.Assign(request).value.ranges(), Coordinator::kAssignmentEntriesMax);
  request.shape.partitions = std::numeric_limits<int32_t>::max();
  request.shape.partitions_per_range = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(coordinator_.Assign(request).value.ranges(), 1);
  const std::string longest(255, 'a');
  request.app_id = longest;
  EXPECT_TRUE(coordinator_.Assign(request).outcome.ok());
}

TEST_F(CoordinatorTest, RefusesHostileHeartbeats) {
  const auto refused = [&](auto change) {
    ServerReport report = Report("s1");
    change(report);
    EXPECT_EQ(coordinator_.Heartbeat(report).code, StatusCode::kInvalidRequest);
  };
  refused([](auto& r) { r = ServerReport(); });
  for (const std::string& name : {std::string(), std::string(256, 'a'), std::string("a\0b", 3)}) {
    refused([&](auto& r) { r.server.id = name; });
    refused([&](auto& r) { r.server.ip = name; });
    refused([&](auto& r) { r.tags = {"ok", name}; });
  }
  for (const int32_t port : {0, -1, 65'536})
    refused([port](auto& r) { r.server.grpc_port = port; });
  for (const int32_t port : {-1, 65'536}) {
    refused([port](auto& r) { r.server.netty_port = port; });
    refused([port](auto& r) { r.server.http_port = port; });
  }
  for (const int status : {-1, kMemberStatuses, 1'000'000}) {
    refused([status](auto& r) { r.status = static_cast<MemberStatus>(status); });
  }
  refused([](auto& r) { r.tags.assign(Coordinator::kTagsMax + 1, "t"); });
  EXPECT_EQ(coordinator_.server_count(), 0U);
  EXPECT_EQ(Metric("dovetail_coordinator_heartbeats_total"), 0);
}

TEST_F(CoordinatorTest, KnowsABoundedNumberOfServers) {
  for (size_t i = 0; i < Coordinator::kServersMax; ++i) Beat("s" + std::to_string(i));
  EXPECT_EQ(coordinator_.Heartbeat(Report("one more")).code, StatusCode::kInternalError);
  // Those that are known are heard, and there is room again when some have gone silent.
  Beat("s1");
  now_ += seconds(20);
  Beat("s1");
  now_ += seconds(20);
  Beat("one more");
  EXPECT_EQ(coordinator_.server_count(), 2U);
}

TEST_F(CoordinatorTest, KnowsABoundedNumberOfApplications) {
  for (size_t i = 0; i < Coordinator::kApplicationsMax; ++i) {
    ASSERT_TRUE(coordinator_.SeeApplication("app" + std::to_string(i)).ok());
  }
  EXPECT_EQ(coordinator_.SeeApplication("one more").code, StatusCode::kInternalError);
  EXPECT_TRUE(coordinator_.SeeApplication("app1").ok());
  now_ += Coordinator::kApplicationTimeout + seconds(1);
  EXPECT_TRUE(coordinator_.SeeApplication("one more").ok());
  EXPECT_EQ(Metric("dovetail_coordinator_applications"), 1);
}

TEST_F(CoordinatorTest, ApplicationsCountUntilTheyAreSilent) {
  EXPECT_TRUE(coordinator_.SeeApplication("a").ok());
  EXPECT_TRUE(coordinator_.SeeApplication("a").ok());
  now_ += Coordinator::kApplicationTimeout;
  EXPECT_TRUE(coordinator_.SeeApplication("ab").ok());
  EXPECT_EQ(Metric("dovetail_coordinator_applications"), 2);
  now_ += seconds(1);
  EXPECT_EQ(Metric("dovetail_coordinator_applications"), 1);
  coordinator_.Expire();
  EXPECT_EQ(Metric("dovetail_coordinator_applications"), 1);
  for (const std::string& name : {std::string(), std::string(256, 'a'), std::string("a\0b", 3)}) {
    EXPECT_EQ(coordinator_.SeeApplication(name).code, StatusCode::kInvalidRequest);
  }
}

TEST_F(CoordinatorTest, AccessNeedsAnActiveServerWithTheTags) {
  EXPECT_EQ(coordinator_.CheckAccess({"ss_v5"}).code, StatusCode::kAccessDenied);
  EXPECT_FALSE(coordinator_.available());
  ServerReport report = Report("s1");
  report.status = MemberStatus::kUnhealthy;
  ASSERT_TRUE(coordinator_.Heartbeat(report).ok());
  EXPECT_EQ(coordinator_.CheckAccess({"ss_v5"}).code, StatusCode::kAccessDenied);
  EXPECT_FALSE(coordinator_.available());
  Beat("s1");
  EXPECT_TRUE(coordinator_.CheckAccess({"ss_v5"}).ok());
  EXPECT_TRUE(coordinator_.CheckAccess({}).ok());
  EXPECT_TRUE(coordinator_.available());
  const Outcome denied = coordinator_.CheckAccess({"ss_v5", "GPU"});
  EXPECT_EQ(denied.code, StatusCode::kAccessDenied);
  EXPECT_NE(denied.message.find("GPU"), std::string::npos) << denied.message;
  EXPECT_EQ(coordinator_.CheckAccess({""}).code, StatusCode::kInvalidRequest);
}

TEST_F(CoordinatorTest, CountsWhatItDoes) {
  Beat("s1", 100);
  Beat("s2", 20);
  ServerReport report = Report("s3", -10);
  report.status = MemberStatus::kUnhealthy;
  report.used_memory_bytes = 5;
  report.promised_memory_bytes = 6;
  ASSERT_TRUE(coordinator_.Heartbeat(report).ok());
  (void)coordinator_.Assign(Request());
  (void)coordinator_.Assign(AssignmentRequest());
  AssignmentRequest impossible = Request();
  impossible.required_tags = {"GPU"};
  (void)coordinator_.Assign(impossible);
  (void)coordinator_.Assign(impossible);
  EXPECT_EQ(Metric(R"(dovetail_coordinator_servers{status="active"})"), 2);
  EXPECT_EQ(Metric(R"(dovetail_coordinator_servers{status="unhealthy"})"), 1);
  EXPECT_EQ(Metric(R"(dovetail_coordinator_servers{status="lost"})"), 0);
  EXPECT_EQ(Metric(R"(dovetail_coordinator_memory_bytes{state="available"})"), 110);
  EXPECT_EQ(Metric(R"(dovetail_coordinator_memory_bytes{state="used"})"), 5);
  EXPECT_EQ(Metric(R"(dovetail_coordinator_memory_bytes{state="promised"})"), 6);
  EXPECT_EQ(Metric("dovetail_coordinator_heartbeats_total"), 3);
  EXPECT_EQ(Metric(R"(dovetail_coordinator_assignments_total{status="SUCCESS"})"), 1);
  EXPECT_EQ(Metric(R"(dovetail_coordinator_assignments_total{status="INVALID_REQUEST"})"), 1);
  EXPECT_EQ(Metric(R"(dovetail_coordinator_assignments_total{status="INTERNAL_ERROR"})"), 2);
  EXPECT_EQ(Metric("dovetail_coordinator_applications"), 1);
}

TEST_F(CoordinatorTest, IsCalledFromManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const std::string id = "s" + std::to_string(t % 2);
      for (int i = 0; i < 300; ++i) {
        (void)coordinator_.Heartbeat(Report(id, i));
        (void)coordinator_.Assign(Request());
        (void)coordinator_.SeeApplication(id);
        if (i % 10 == 0) (void)coordinator_.Remove(id);
        if (i % 50 == 0) (void)metrics_.Render();
        coordinator_.Expire();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Beat("s0");
  EXPECT_EQ(Ids(Request()).front(), "s0");
}

TEST(CoordinatorLife, LeavesNoMetricsBehind) {
  MetricsRegistry metrics;
  { const Coordinator coordinator(CoordinatorOptions{}, metrics); }
  EXPECT_EQ(metrics.Render().find("dovetail_coordinator_servers"), std::string::npos);
}

}  // namespace
}  // namespace dovetail::server
