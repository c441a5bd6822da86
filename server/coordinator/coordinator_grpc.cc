#include "server/coordinator/coordinator_grpc.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proto/coordinator.grpc.pb.h"
#include "proto/coordinator.pb.h"

namespace dovetail::server {
namespace {

namespace wire = rss::common;
using google::protobuf::Empty;
using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// Ranges that are turned into bytes at a time.
constexpr int64_t kRangesPerSlice = 4'096;

// One call whose answer is ready: reports it when it is over and then ends itself.
class FinishedCall final : public ServerUnaryReactor {
 public:
  FinishedCall(const ObserveCall& observe, const char* method)
      : observe_(observe), method_(method), arrived_(std::chrono::steady_clock::now()) {}

  void FinishWith(int status, std::function<void()> release = nullptr) {
    status_ = status;
    release_ = std::move(release);
    Finish(grpc::Status::OK);
  }

  void OnDone() override {
    if (release_) release_();
    if (observe_) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - arrived_;
      observe_(method_, status_, took.count());
    }
    delete this;
  }

 private:
  const ObserveCall& observe_;
  const char* const method_;
  const std::chrono::steady_clock::time_point arrived_;
  std::function<void()> release_;
  int status_ = 0;
};

template <class Response>
void Put(const Outcome& outcome, Response* response) {
  response->set_status(static_cast<wire::StatusCode>(outcome.code));
  response->set_retmsg(outcome.message);
}

void Put(const ServerIdentity& from, wire::ShuffleServerId* to) {
  to->set_id(from.id);
  to->set_ip(from.ip);
  to->set_port(from.grpc_port);
  to->set_netty_port(from.netty_port);
  to->set_jetty_port(from.http_port);
}

template <class Strings>
std::vector<std::string> Copied(const Strings& from) {
  return {from.begin(), from.end()};
}

ServerReport ReportFrom(const wire::ShuffleServerHeartBeatRequest& request) {
  ServerReport report;
  const wire::ShuffleServerId& server = request.serverid();
  report.server = {.id = server.id(),
                   .ip = server.ip(),
                   .grpc_port = server.port(),
                   .netty_port = server.netty_port(),
                   .http_port = server.jetty_port()};
  report.used_memory_bytes = request.usedmemory();
  report.promised_memory_bytes = request.preallocatedmemory();
  report.available_memory_bytes = request.availablememory();
  report.tags = Copied(request.tags());
  // A number that is none of ours stays one and is refused by the coordinator.
  report.status = static_cast<MemberStatus>(static_cast<int>(request.status()));
  if (request.has_ishealthy()) {
    report.status = request.ishealthy().value() ? MemberStatus::kActive : MemberStatus::kUnhealthy;
  }
  return report;
}

AssignmentRequest RequestFrom(const wire::GetShuffleServerRequest& request) {
  return {.app_id = request.applicationid(),
          .shuffle_id = request.shuffleid(),
          .shape = {.partitions = request.partitionnum(),
                    .partitions_per_range = request.partitionnumperrange(),
                    .replicas = request.datareplica(),
                    .task_concurrency = request.estimatetaskconcurrency()},
          .required_tags = Copied(request.requiretags()),
          .servers_wanted = request.assignmentshuffleservernumber(),
          .faulty_server_ids = Copied(request.faultyserverids())};
}

template <class Message>
grpc::Slice SliceOf(const Message& message) {
  grpc::Slice slice(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return slice;
}

// Messages of one type written one after the other are one message whose lists are joined, so a
// large answer is written piece by piece and never exists as objects.
ByteBuffer BytesOf(const Reply<Assignment>& reply) {
  wire::GetShuffleAssignmentsResponse piece;
  Put(reply.outcome, &piece);
  std::vector<grpc::Slice> slices = {SliceOf(piece)};
  const Assignment& assignment = reply.value;
  for (int64_t begin = 0; begin < assignment.ranges(); begin += kRangesPerSlice) {
    piece.Clear();
    const int64_t end = std::min(begin + kRangesPerSlice, assignment.ranges());
    for (int64_t range = begin; range < end; ++range) {
      wire::PartitionRangeAssignment* entry = piece.add_assignments();
      entry->set_startpartition(assignment.FirstPartition(range));
      entry->set_endpartition(assignment.LastPartition(range));
      for (int32_t replica = 0; replica < assignment.replicas(); ++replica) {
        Put(assignment.servers()[assignment.ServerIndex(range, replica)], entry->add_server());
      }
    }
    slices.push_back(SliceOf(piece));
  }
  return ByteBuffer(slices.data(), slices.size());
}

// A random UUID, version 4.
std::string RandomUuid() {
  std::random_device random;
  std::array<uint32_t, 4> words{};
  for (uint32_t& word : words) word = random();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:04x}{:08x}", words[0], words[1] >> 16,
                     words[1] & 0xfff, 0x8000 | (words[2] >> 16 & 0x3fff), words[2] & 0xffff,
                     words[3]);
}

using Service = wire::CoordinatorServer::WithRawCallbackMethod_getShuffleAssignments<
    wire::CoordinatorServer::CallbackService>;

// getShuffleDataStorageInfo is left to the generated code, which answers UNIMPLEMENTED.
class CoordinatorGrpc final : public Service {
 public:
  CoordinatorGrpc(Coordinator& coordinator, ObserveCall observe, int64_t entries_in_flight_max)
      : coordinator_(coordinator),
        observe_(std::move(observe)),
        entries_in_flight_max_(entries_in_flight_max) {}

  ServerUnaryReactor* heartbeat(CallbackServerContext*,
                                const wire::ShuffleServerHeartBeatRequest* request,
                                wire::ShuffleServerHeartBeatResponse* response) override {
    FinishedCall* call = Begin("heartbeat");
    return End(call, coordinator_.Heartbeat(ReportFrom(*request)), response);
  }

  ServerUnaryReactor* getShuffleAssignments(CallbackServerContext*, const ByteBuffer* request,
                                            ByteBuffer* response) override;

  ServerUnaryReactor* fetchClientConf(CallbackServerContext*, const Empty*,
                                      wire::FetchClientConfResponse* response) override {
    return ClientConf("fetchClientConf", response);
  }

  ServerUnaryReactor* fetchClientConfV2(CallbackServerContext*, const wire::FetchClientConfRequest*,
                                        wire::FetchClientConfResponse* response) override {
    return ClientConf("fetchClientConfV2", response);
  }

  // There is no remote tier: an empty storage.
  ServerUnaryReactor* fetchRemoteStorage(CallbackServerContext*,
                                         const wire::FetchRemoteStorageRequest*,
                                         wire::FetchRemoteStorageResponse* response) override {
    FinishedCall* call = Begin("fetchRemoteStorage");
    response->set_status(wire::SUCCESS);
    response->mutable_remotestorage();
    return End(call);
  }

  ServerUnaryReactor* registerApplicationInfo(CallbackServerContext*,
                                              const wire::ApplicationInfoRequest* request,
                                              wire::ApplicationInfoResponse* response) override {
    FinishedCall* call = Begin("registerApplicationInfo");
    return End(call, coordinator_.SeeApplication(request->appid()), response);
  }

  ServerUnaryReactor* appHeartbeat(CallbackServerContext*, const wire::AppHeartBeatRequest* request,
                                   wire::AppHeartBeatResponse* response) override {
    FinishedCall* call = Begin("coordinatorAppHeartbeat");
    return End(call, coordinator_.SeeApplication(request->appid()), response);
  }

  ServerUnaryReactor* accessCluster(CallbackServerContext*,
                                    const wire::AccessClusterRequest* request,
                                    wire::AccessClusterResponse* response) override {
    FinishedCall* call = Begin("accessCluster");
    const Outcome outcome = coordinator_.CheckAccess(Copied(request->tags()));
    if (outcome.ok()) response->set_uuid(RandomUuid());
    return End(call, outcome, response);
  }

  ServerUnaryReactor* getShuffleServerList(CallbackServerContext*, const Empty*,
                                           wire::GetShuffleServerListResponse* response) override {
    FinishedCall* call = Begin("getShuffleServerList");
    for (const ServerIdentity& server : coordinator_.Servers()) {
      Put(server, response->add_servers());
    }
    return End(call);
  }

  ServerUnaryReactor* getShuffleServerNum(CallbackServerContext*, const Empty*,
                                          wire::GetShuffleServerNumResponse* response) override {
    FinishedCall* call = Begin("getShuffleServerNum");
    response->set_num(static_cast<int32_t>(coordinator_.server_count()));
    return End(call);
  }

  ServerUnaryReactor* checkServiceAvailable(
      CallbackServerContext*, const Empty*,
      wire::CheckServiceAvailableResponse* response) override {
    FinishedCall* call = Begin("checkServiceAvailable");
    response->set_available(coordinator_.available());
    return End(call);
  }

  // For statistics that nobody keeps.
  ServerUnaryReactor* reportClientOperation(
      CallbackServerContext*, const wire::ReportShuffleClientOpRequest*,
      wire::ReportShuffleClientOpResponse* response) override {
    FinishedCall* call = Begin("reportClientOperation");
    return End(call, Outcome{}, response);
  }

 private:
  FinishedCall* Begin(const char* method) const { return new FinishedCall(observe_, method); }

  static ServerUnaryReactor* End(FinishedCall* call) {
    call->FinishWith(wire::SUCCESS);
    return call;
  }

  template <class Response>
  static ServerUnaryReactor* End(FinishedCall* call, const Outcome& outcome, Response* response) {
    Put(outcome, response);
    call->FinishWith(static_cast<int>(outcome.code));
    return call;
  }

  ServerUnaryReactor* ClientConf(const char* method, wire::FetchClientConfResponse* response) {
    FinishedCall* call = Begin(method);
    for (const auto& [key, value] : Coordinator::ClientSettings()) {
      wire::ClientConfItem* item = response->add_clientconf();
      item->set_key(key);
      item->set_value(value);
    }
    return End(call, Outcome{}, response);
  }

  Coordinator& coordinator_;
  const ObserveCall observe_;
  const int64_t entries_in_flight_max_;
  std::atomic<int64_t> entries_in_flight_ = 0;
};

ServerUnaryReactor* CoordinatorGrpc::getShuffleAssignments(CallbackServerContext*,
                                                           const ByteBuffer* request,
                                                           ByteBuffer* response) {
  FinishedCall* call = Begin("getShuffleAssignments");
  wire::GetShuffleServerRequest message;
  ByteBuffer bytes = *request;
  Reply<Assignment> reply;
  if (grpc::SerializationTraits<wire::GetShuffleServerRequest>::Deserialize(&bytes, &message)
          .ok()) {
    reply = coordinator_.Assign(RequestFrom(message));
  } else {
    reply.outcome = Invalid("the request is not a GetShuffleServerRequest");
  }
  const int64_t entries = reply.value.ranges() * reply.value.replicas();
  if (entries_in_flight_.fetch_add(entries) + entries > entries_in_flight_max_) {
    reply = {{StatusCode::kInternalError,
              "too many large assignments are on their way to other clients; ask again"},
             {}};
  }
  *response = BytesOf(reply);
  call->FinishWith(static_cast<int>(reply.outcome.code),
                   [this, entries] { entries_in_flight_.fetch_sub(entries); });
  return call;
}

}  // namespace

std::unique_ptr<grpc::Service> MakeCoordinatorGrpc(Coordinator& coordinator, ObserveCall observe,
                                                   int64_t entries_in_flight_max) {
  return std::make_unique<CoordinatorGrpc>(coordinator, std::move(observe), entries_in_flight_max);
}

}  // namespace dovetail::server
