#include "server/coordinator/coordinator_grpc.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proto/coordinator.grpc.pb.h"
#include "proto/coordinator.pb.h"
#include "server/rpc/call.h"
#include "server/rpc/request.h"

namespace dovetail::server {
namespace {

namespace wire = rss::common;
using google::protobuf::Empty;
using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// Ranges that are turned into bytes at a time.
constexpr int64_t kRangesPerSlice = 4'096;

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
ByteBuffer AssignmentBytes(const Reply<Assignment>& reply) {
  wire::GetShuffleAssignmentsResponse piece;
  Put(reply.outcome, piece);
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

using Server = wire::CoordinatorServer;
using RawClusters =
    Server::WithRawCallbackMethod_accessCluster<Server::WithRawCallbackMethod_appHeartbeat<
        Server::WithRawCallbackMethod_registerApplicationInfo<
            Server::WithRawCallbackMethod_getShuffleAssignments<
                Server::WithRawCallbackMethod_heartbeat<Server::CallbackService>>>>>;
using RawSettings = Server::WithRawCallbackMethod_fetchRemoteStorage<
    Server::WithRawCallbackMethod_fetchClientConfV2<
        Server::WithRawCallbackMethod_fetchClientConf<RawClusters>>>;
using RawService = Server::WithRawCallbackMethod_getShuffleDataStorageInfo<
    Server::WithRawCallbackMethod_reportClientOperation<
        Server::WithRawCallbackMethod_checkServiceAvailable<
            Server::WithRawCallbackMethod_getShuffleServerNum<
                Server::WithRawCallbackMethod_getShuffleServerList<RawSettings>>>>>;

// getShuffleDataStorageInfo is left to the generated code, which answers UNIMPLEMENTED.
class CoordinatorGrpc final : public RawService {
 public:
  CoordinatorGrpc(Coordinator& coordinator, ObserveCall observe, AnswerWatch& watch,
                  int64_t entries_in_flight_max)
      : coordinator_(coordinator),
        observe_(std::move(observe)),
        watch_(watch),
        entries_in_flight_max_(entries_in_flight_max) {}

  ServerUnaryReactor* heartbeat(CallbackServerContext* context, const ByteBuffer* request,
                                ByteBuffer* response) override {
    return Serve<wire::ShuffleServerHeartBeatRequest, wire::ShuffleServerHeartBeatResponse>(
        {"heartbeat", context, request, response},
        [this](auto& asked, auto&) { return coordinator_.Heartbeat(ReportFrom(asked)); });
  }

  ServerUnaryReactor* getShuffleAssignments(CallbackServerContext*, const ByteBuffer* request,
                                            ByteBuffer* response) override;

  ServerUnaryReactor* fetchClientConf(CallbackServerContext* context, const ByteBuffer* request,
                                      ByteBuffer* response) override {
    return Serve<Empty, wire::FetchClientConfResponse>(
        {"fetchClientConf", context, request, response},
        [](auto&, auto& answer) { return ClientConf(answer); });
  }

  ServerUnaryReactor* fetchClientConfV2(CallbackServerContext* context, const ByteBuffer* request,
                                        ByteBuffer* response) override {
    return Serve<wire::FetchClientConfRequest, wire::FetchClientConfResponse>(
        {"fetchClientConfV2", context, request, response},
        [](auto&, auto& answer) { return ClientConf(answer); });
  }

  // There is no remote tier: an empty storage.
  ServerUnaryReactor* fetchRemoteStorage(CallbackServerContext* context, const ByteBuffer* request,
                                         ByteBuffer* response) override {
    return Serve<wire::FetchRemoteStorageRequest, wire::FetchRemoteStorageResponse>(
        {"fetchRemoteStorage", context, request, response}, [](auto&, auto& answer) {
          answer.mutable_remotestorage();
          return Outcome{};
        });
  }

  ServerUnaryReactor* registerApplicationInfo(CallbackServerContext* context,
                                              const ByteBuffer* request,
                                              ByteBuffer* response) override {
    return Serve<wire::ApplicationInfoRequest, wire::ApplicationInfoResponse>(
        {"registerApplicationInfo", context, request, response},
        [this](auto& asked, auto&) { return coordinator_.SeeApplication(asked.appid()); });
  }

  ServerUnaryReactor* appHeartbeat(CallbackServerContext* context, const ByteBuffer* request,
                                   ByteBuffer* response) override {
    return Serve<wire::AppHeartBeatRequest, wire::AppHeartBeatResponse>(
        {"coordinatorAppHeartbeat", context, request, response},
        [this](auto& asked, auto&) { return coordinator_.SeeApplication(asked.appid()); });
  }

  ServerUnaryReactor* accessCluster(CallbackServerContext* context, const ByteBuffer* request,
                                    ByteBuffer* response) override {
    return Serve<wire::AccessClusterRequest, wire::AccessClusterResponse>(
        {"accessCluster", context, request, response}, [this](auto& asked, auto& answer) {
          Outcome outcome = coordinator_.CheckAccess(Copied(asked.tags()));
          if (outcome.ok()) answer.set_uuid(RandomUuid());
          return outcome;
        });
  }

  // For statistics that nobody keeps.
  ServerUnaryReactor* reportClientOperation(CallbackServerContext* context,
                                            const ByteBuffer* request,
                                            ByteBuffer* response) override {
    return Serve<wire::ReportShuffleClientOpRequest, wire::ReportShuffleClientOpResponse>(
        {"reportClientOperation", context, request, response},
        [](auto&, auto&) { return Outcome{}; });
  }

  ServerUnaryReactor* getShuffleServerList(CallbackServerContext* context,
                                           const ByteBuffer* request,
                                           ByteBuffer* response) override {
    return Tell<wire::GetShuffleServerListResponse>(
        {"getShuffleServerList", context, request, response}, [this](auto& answer) {
          for (const ServerIdentity& server : coordinator_.Servers())
            Put(server, answer.add_servers());
        });
  }

  ServerUnaryReactor* getShuffleServerNum(CallbackServerContext* context, const ByteBuffer* request,
                                          ByteBuffer* response) override {
    return Tell<wire::GetShuffleServerNumResponse>(
        {"getShuffleServerNum", context, request, response}, [this](auto& answer) {
          answer.set_num(static_cast<int32_t>(coordinator_.server_count()));
        });
  }

  ServerUnaryReactor* checkServiceAvailable(CallbackServerContext* context,
                                            const ByteBuffer* request,
                                            ByteBuffer* response) override {
    return Tell<wire::CheckServiceAvailableResponse>(
        {"checkServiceAvailable", context, request, response},
        [this](auto& answer) { answer.set_available(coordinator_.available()); });
  }

 private:
  // handle(request, response) fills what the response holds beside status and text.
  template <class Request, class Response, class Handle>
  ServerUnaryReactor* Serve(const Arrival& arrival, const Handle& handle) {
    auto* call = new Call(arrival, watch_);
    Request asked;
    Response message;
    Outcome outcome = ParseRequest(*arrival.request, asked);
    if (outcome.ok()) outcome = handle(asked, message);
    Put(outcome, message);
    Answer(*call, outcome.code, BytesOf(message));
    return call;
  }

  // For requests without fields and answers without a status: the request is not looked at.
  template <class Response, class Fill>
  ServerUnaryReactor* Tell(const Arrival& arrival, const Fill& fill) {
    auto* call = new Call(arrival, watch_);
    Response message;
    fill(message);
    Answer(*call, StatusCode::kSuccess, BytesOf(message));
    return call;
  }

  void Answer(Call& call, StatusCode code, ByteBuffer bytes, int64_t entries = 0) {
    call.Answer(std::move(bytes), [this, &call, code, entries] {
      entries_in_flight_.fetch_sub(entries);
      if (observe_) observe_(call.method(), static_cast<int>(code), call.seconds());
    });
  }

  static Outcome ClientConf(wire::FetchClientConfResponse& answer) {
    for (const auto& [key, value] : Coordinator::ClientSettings()) {
      wire::ClientConfItem* item = answer.add_clientconf();
      item->set_key(key);
      item->set_value(value);
    }
    return {};
  }

  Coordinator& coordinator_;
  const ObserveCall observe_;
  AnswerWatch& watch_;
  const int64_t entries_in_flight_max_;
  std::atomic<int64_t> entries_in_flight_ = 0;
};

ServerUnaryReactor* CoordinatorGrpc::getShuffleAssignments(CallbackServerContext* context,
                                                           const ByteBuffer* request,
                                                           ByteBuffer* response) {
  auto* call = new Call({"getShuffleAssignments", context, request, response}, watch_);
  wire::GetShuffleServerRequest asked;
  Reply<Assignment> reply;
  reply.outcome = ParseRequest(*request, asked);
  if (reply.outcome.ok()) reply = coordinator_.Assign(RequestFrom(asked));
  const int64_t entries = reply.value.ranges() * reply.value.replicas();
  if (entries_in_flight_.fetch_add(entries) + entries > entries_in_flight_max_) {
    reply = {{StatusCode::kInternalError,
              "too many large assignments are on their way to other clients; ask again"},
             {}};
  }
  Answer(*call, reply.outcome.code, AssignmentBytes(reply), entries);
  return call;
}

}  // namespace

std::unique_ptr<grpc::Service> MakeCoordinatorGrpc(Coordinator& coordinator, ObserveCall observe,
                                                   AnswerWatch& watch,
                                                   int64_t entries_in_flight_max) {
  return std::make_unique<CoordinatorGrpc>(coordinator, std::move(observe), watch,
                                           entries_in_flight_max);
}

}  // namespace dovetail::server
