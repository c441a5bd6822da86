#include "server/coordinator/coordinator_grpc.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/coordinator.grpc.pb.h"

namespace dovetail::server {
namespace {

namespace wire = rss::common;
using google::protobuf::Empty;
using Stub = wire::CoordinatorServer::Stub;

// A real server on loopback and a real client.
class CoordinatorGrpcTest : public testing::Test {
 protected:
  static constexpr int64_t kEntriesInFlightMax = 300'000;

  struct Observed {
    std::string method;
    int status;
    double seconds;
  };

  CoordinatorGrpcTest() {
    service_ = MakeCoordinatorGrpc(
        coordinator_,
        [this](std::string_view method, int status, double seconds) {
          std::lock_guard lock(mutex_);
          observed_.push_back({std::string(method), status, seconds});
          changed_.notify_all();
        },
        watch_, kEntriesInFlightMax);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port_),
                                         grpc::InsecureChannelCredentials(), arguments);
    stub_ = wire::CoordinatorServer::NewStub(channel_);
  }

  ~CoordinatorGrpcTest() override { server_->Shutdown(); }

  template <class Request, class Response>
  Response Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                const Request& request = {}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_code() << " " << status.error_message();
    return response;
  }

  // The gRPC status of a call whose request is any bytes; the answer's bytes go to `answer`.
  grpc::Status CallRaw(const std::string& method, const std::string& bytes,
                       std::string* answer = nullptr) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    std::mutex mutex;
    std::condition_variable done;
    bool finished = false;
    grpc::Status status;
    stub.UnaryCall(&context, "/rss.common.CoordinatorServer/" + method, {}, &request, &response,
                   [&](grpc::Status result) {
                     std::lock_guard lock(mutex);
                     status = std::move(result);
                     finished = true;
                     done.notify_all();
                   });
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return finished; });
    if (status.ok() && answer != nullptr) {
      grpc::Slice whole;
      EXPECT_TRUE(response.DumpToSingleSlice(&whole).ok());
      answer->assign(whole.begin(), whole.end());
    }
    return status;
  }

  static wire::ShuffleServerHeartBeatRequest Beat(const std::string& id) {
    wire::ShuffleServerHeartBeatRequest request;
    request.mutable_serverid()->set_id(id);
    request.mutable_serverid()->set_ip("10.0.0.1");
    request.mutable_serverid()->set_port(19999);
    request.mutable_serverid()->set_netty_port(20000);
    request.mutable_serverid()->set_jetty_port(20010);
    request.set_availablememory(1000);
    request.add_tags("ss_v5");
    request.add_tags("GRPC");
    return request;
  }

  static wire::GetShuffleServerRequest Ask(int32_t partitions) {
    wire::GetShuffleServerRequest request;
    request.set_applicationid("app_1");
    request.set_partitionnum(partitions);
    request.set_partitionnumperrange(1);
    request.set_datareplica(1);
    request.set_assignmentshuffleservernumber(-1);
    request.add_requiretags("ss_v5");
    request.add_requiretags("GRPC");
    return request;
  }

  std::vector<Observed> WaitForObserved(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30),
                                  [&] { return observed_.size() >= count; }));
    return observed_;
  }

  MetricsRegistry metrics_;
  Coordinator coordinator_{CoordinatorOptions{}, metrics_};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Observed> observed_;
  Counter& cut_ = metrics_.AddCounter("dovetail_answers_cut_total", "Answers given up");
  AnswerWatch watch_{Milliseconds(60'000), cut_};
  std::unique_ptr<grpc::Service> service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
};

TEST_F(CoordinatorGrpcTest, HeartbeatThenAssignment) {
  EXPECT_EQ(Call(&Stub::heartbeat, Beat("a")).status(), wire::SUCCESS);
  EXPECT_EQ(Call(&Stub::heartbeat, Beat("b")).status(), wire::SUCCESS);
  wire::GetShuffleServerRequest request = Ask(5);
  request.set_datareplica(2);
  const auto response = Call(&Stub::getShuffleAssignments, request);
  ASSERT_EQ(response.status(), wire::SUCCESS) << response.retmsg();
  ASSERT_EQ(response.assignments_size(), 5);
  for (int i = 0; i < 5; ++i) {
    const wire::PartitionRangeAssignment& range = response.assignments(i);
    EXPECT_EQ(range.startpartition(), i);
    EXPECT_EQ(range.endpartition(), i);
    ASSERT_EQ(range.server_size(), 2);
    EXPECT_NE(range.server(0).id(), range.server(1).id());
  }
  const wire::ShuffleServerId& server = response.assignments(0).server(0);
  EXPECT_EQ(server.id(), "a");
  EXPECT_EQ(server.ip(), "10.0.0.1");
  EXPECT_EQ(server.port(), 19999);
  EXPECT_EQ(server.netty_port(), 20000);
  EXPECT_EQ(server.jetty_port(), 20010);
}

TEST_F(CoordinatorGrpcTest, EveryFieldOfAnAssignmentRequestCounts) {
  for (const char* id : {"a", "b", "c"}) (void)Call(&Stub::heartbeat, Beat(id));
  wire::GetShuffleServerRequest request = Ask(12);
  request.set_partitionnumperrange(3);
  request.set_estimatetaskconcurrency(12);
  request.set_assignmentshuffleservernumber(2);
  request.add_faultyserverids("a");
  const auto response = Call(&Stub::getShuffleAssignments, request);
  ASSERT_EQ(response.status(), wire::SUCCESS) << response.retmsg();
  std::vector<std::string> ids;
  for (const auto& range : response.assignments()) {
    EXPECT_EQ(range.endpartition(), range.startpartition() + 2);
    ids.push_back(range.server(0).id());
  }
  EXPECT_EQ(ids, (std::vector<std::string>{"b", "b", "c", "c"}));
}

TEST_F(CoordinatorGrpcTest, AnAnswerOfManyPiecesIsOneMessage) {
  (void)Call(&Stub::heartbeat, Beat("a"));
  // Repeated, so that what is on its way is also seen to be given back.
  for (int round = 0; round < 3; ++round) {
    const int32_t partitions = 200'000;
    const auto response = Call(&Stub::getShuffleAssignments, Ask(partitions));
    ASSERT_EQ(response.status(), wire::SUCCESS) << response.retmsg();
    ASSERT_EQ(response.assignments_size(), partitions);
    for (int32_t i = 0; i < partitions; ++i) {
      ASSERT_EQ(response.assignments(i).startpartition(), i);
      ASSERT_EQ(response.assignments(i).server_size(), 1);
    }
    (void)WaitForObserved(static_cast<size_t>(round) + 2);
  }
}

TEST_F(CoordinatorGrpcTest, MoreThanMayBeOnItsWayIsRefused) {
  (void)Call(&Stub::heartbeat, Beat("a"));
  const auto refused = Call(&Stub::getShuffleAssignments, Ask(kEntriesInFlightMax + 1));
  EXPECT_EQ(refused.status(), wire::INTERNAL_ERROR);
  EXPECT_EQ(refused.assignments_size(), 0);
  EXPECT_FALSE(refused.retmsg().empty());
  (void)WaitForObserved(2);
  EXPECT_EQ(Call(&Stub::getShuffleAssignments, Ask(1)).status(), wire::SUCCESS);
}

TEST_F(CoordinatorGrpcTest, RefusalsHaveAStatusAndAText) {
  const auto none = Call(&Stub::getShuffleAssignments, Ask(1));
  EXPECT_EQ(none.status(), wire::INTERNAL_ERROR);
  EXPECT_NE(none.retmsg().find("ss_v5"), std::string::npos) << none.retmsg();
  EXPECT_EQ(none.assignments_size(), 0);
  const auto huge = Call(&Stub::getShuffleAssignments, Ask(2'147'483'647));
  EXPECT_EQ(huge.status(), wire::INVALID_REQUEST);
  EXPECT_FALSE(huge.retmsg().empty());
}

TEST_F(CoordinatorGrpcTest, IsHealthyStandsOverStatus) {
  const auto assignable = [&] {
    return Call(&Stub::getShuffleAssignments, Ask(1)).status() == wire::SUCCESS;
  };
  wire::ShuffleServerHeartBeatRequest beat = Beat("a");
  beat.set_status(wire::UNHEALTHY);
  (void)Call(&Stub::heartbeat, beat);
  EXPECT_FALSE(assignable());
  beat.mutable_ishealthy()->set_value(true);
  (void)Call(&Stub::heartbeat, beat);
  EXPECT_TRUE(assignable());
  beat.set_status(wire::ACTIVE);
  beat.mutable_ishealthy()->set_value(false);
  (void)Call(&Stub::heartbeat, beat);
  EXPECT_FALSE(assignable());
  beat.clear_ishealthy();
  (void)Call(&Stub::heartbeat, beat);
  EXPECT_TRUE(assignable());
}

TEST_F(CoordinatorGrpcTest, AStatusThatNobodyKnowsIsRefused) {
  wire::ShuffleServerHeartBeatRequest beat = Beat("a");
  beat.set_status(static_cast<wire::ServerStatus>(77));
  EXPECT_EQ(Call(&Stub::heartbeat, beat).status(), wire::INVALID_REQUEST);
}

TEST_F(CoordinatorGrpcTest, ClientsAreToldTheStorageType) {
  for (const auto& response : {Call<Empty, wire::FetchClientConfResponse>(&Stub::fetchClientConf),
                               Call<wire::FetchClientConfRequest, wire::FetchClientConfResponse>(
                                   &Stub::fetchClientConfV2)}) {
    EXPECT_EQ(response.status(), wire::SUCCESS);
    ASSERT_EQ(response.clientconf_size(), 1);
    EXPECT_EQ(response.clientconf(0).key(), "rss.storage.type");
    EXPECT_EQ(response.clientconf(0).value(), "MEMORY_LOCALFILE");
  }
}

TEST_F(CoordinatorGrpcTest, ThereIsNoRemoteStorage) {
  const auto response = Call(&Stub::fetchRemoteStorage);
  EXPECT_EQ(response.status(), wire::SUCCESS);
  EXPECT_TRUE(response.has_remotestorage());
  EXPECT_EQ(response.remotestorage().path(), "");
}

TEST_F(CoordinatorGrpcTest, ApplicationsRegisterAndBeat) {
  wire::ApplicationInfoRequest info;
  info.set_appid("app_1");
  info.set_user("user");
  EXPECT_EQ(Call(&Stub::registerApplicationInfo, info).status(), wire::SUCCESS);
  wire::AppHeartBeatRequest beat;
  beat.set_appid("app_2");
  EXPECT_EQ(Call(&Stub::appHeartbeat, beat).status(), wire::SUCCESS);
  EXPECT_NE(metrics_.Render().find("dovetail_coordinator_applications 2"), std::string::npos);
}

TEST_F(CoordinatorGrpcTest, AccessGivesAFreshUuidOrDenies) {
  wire::AccessClusterRequest request;
  request.set_accessid("anyone");
  request.add_tags("ss_v5");
  const auto denied = Call(&Stub::accessCluster, request);
  EXPECT_EQ(denied.status(), wire::ACCESS_DENIED);
  EXPECT_EQ(denied.uuid(), "");
  EXPECT_NE(denied.retmsg().find("ss_v5"), std::string::npos);
  (void)Call(&Stub::heartbeat, Beat("a"));
  std::set<std::string> uuids;
  for (int i = 0; i < 50; ++i) {
    const auto granted = Call(&Stub::accessCluster, request);
    EXPECT_EQ(granted.status(), wire::SUCCESS);
    EXPECT_THAT(granted.uuid(),
                testing::MatchesRegex(
                    "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
    uuids.insert(granted.uuid());
  }
  EXPECT_EQ(uuids.size(), 50U);
}

TEST_F(CoordinatorGrpcTest, ToolsSeeTheServers) {
  EXPECT_FALSE(Call(&Stub::checkServiceAvailable).available());
  EXPECT_EQ(Call(&Stub::getShuffleServerNum).num(), 0);
  (void)Call(&Stub::heartbeat, Beat("a"));
  (void)Call(&Stub::heartbeat, Beat("b"));
  EXPECT_TRUE(Call(&Stub::checkServiceAvailable).available());
  EXPECT_EQ(Call(&Stub::getShuffleServerNum).num(), 2);
  const auto list = Call(&Stub::getShuffleServerList);
  ASSERT_EQ(list.servers_size(), 2);
  EXPECT_EQ(list.servers(0).id(), "a");
  EXPECT_EQ(list.servers(1).port(), 19999);
  EXPECT_EQ(Call(&Stub::reportClientOperation).status(), wire::SUCCESS);
}

TEST_F(CoordinatorGrpcTest, EveryFieldUnsetHasADefinedAnswer) {
  EXPECT_EQ(Call(&Stub::heartbeat).status(), wire::INVALID_REQUEST);
  EXPECT_EQ(Call(&Stub::getShuffleAssignments).status(), wire::INVALID_REQUEST);
  EXPECT_EQ(Call(&Stub::registerApplicationInfo).status(), wire::INVALID_REQUEST);
  EXPECT_EQ(Call(&Stub::appHeartbeat).status(), wire::INVALID_REQUEST);
  EXPECT_EQ(Call(&Stub::accessCluster).status(), wire::ACCESS_DENIED);
  (void)Call(&Stub::heartbeat, Beat("a"));
  EXPECT_EQ(Call(&Stub::accessCluster).status(), wire::SUCCESS);
}

TEST_F(CoordinatorGrpcTest, BytesThatAreNoRequestAreAnswered) {
  for (const std::string& junk :
       {std::string("\xff\xff\xff\xff\xff\xff"), std::string("\x22\x7f short"),
        std::string("\x22\x02\xff\xfe", 4), std::string(1 << 20, '\x7a')}) {
    std::string answer;
    ASSERT_TRUE(CallRaw("getShuffleAssignments", junk, &answer).ok());
    wire::GetShuffleAssignmentsResponse response;
    ASSERT_TRUE(response.ParseFromString(answer));
    EXPECT_EQ(response.status(), wire::INVALID_REQUEST);
    for (const char* method :
         {"heartbeat", "registerApplicationInfo", "appHeartbeat", "accessCluster",
          "fetchClientConf", "fetchClientConfV2", "fetchRemoteStorage", "reportClientOperation"}) {
      ASSERT_TRUE(CallRaw(method, junk, &answer).ok()) << method;
      // The status is field 1 of all of them. Where field 4 is unknown, it is no text.
      const bool well_formed = junk.size() == 4 && !answer.starts_with("\x08");
      EXPECT_TRUE(well_formed || answer.starts_with("\x08\x09")) << method;
    }
    for (const char* method :
         {"getShuffleServerList", "getShuffleServerNum", "checkServiceAvailable"}) {
      EXPECT_TRUE(CallRaw(method, junk).ok()) << method;
    }
  }
  EXPECT_EQ(Call(&Stub::heartbeat, Beat("a")).status(), wire::SUCCESS);
}

TEST_F(CoordinatorGrpcTest, WhatIsNotServedSaysSo) {
  EXPECT_EQ(CallRaw("getShuffleDataStorageInfo", "").error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(CallRaw("noSuchMethod", "").error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(CoordinatorGrpcTest, EveryCallIsObservedOnceWithItsStatus) {
  (void)Call(&Stub::heartbeat);
  (void)Call(&Stub::getShuffleAssignments, Ask(1));
  (void)Call(&Stub::accessCluster);
  (void)Call<Empty, wire::FetchClientConfResponse>(&Stub::fetchClientConf);
  const std::vector<Observed> observed = WaitForObserved(4);
  std::set<std::pair<std::string, int>> seen;
  for (const Observed& call : observed) {
    EXPECT_GE(call.seconds, 0);
    seen.insert({call.method, call.status});
  }
  const std::set<std::pair<std::string, int>> expected = {
      {"heartbeat", wire::INVALID_REQUEST},
      {"getShuffleAssignments", wire::INTERNAL_ERROR},
      {"accessCluster", wire::ACCESS_DENIED},
      {"fetchClientConf", wire::SUCCESS}};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(observed.size(), 4U);
}

}  // namespace
}  // namespace dovetail::server
