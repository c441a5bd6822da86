#include "server/grpc/shuffle_grpc.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "proto/shuffle.grpc.pb.h"
#include "server/grpc/memory_codec.h"
#include "server/grpc/send_codec.h"

namespace dovetail::server {
namespace {

namespace wire = rss::common;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

wire::StatusCode ToWire(StatusCode code) { return static_cast<wire::StatusCode>(code); }

BlockIdLayout ToLayout(const wire::BlockIdLayout& layout) {
  return {layout.sequencenobits(), layout.partitionidbits(), layout.taskattemptidbits()};
}

// One call on its way: finished exactly once, with its time counted.
class Call {
 public:
  Call(CallbackServerContext* context, CallMetrics& metrics, const char* method)
      : reactor_(context->DefaultReactor()), metrics_(metrics), method_(method) {}

  ServerUnaryReactor* Finish(const Outcome& outcome) {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    metrics_.Observe(method_, static_cast<int>(outcome.code),
                     std::chrono::duration<double>(elapsed).count());
    ServerUnaryReactor* reactor = reactor_;  // finishing may end the call object's owner
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  // For answers whose message is status and retMsg.
  template <class Response>
  ServerUnaryReactor* Answer(Response* response, const Outcome& outcome) {
    response->set_status(ToWire(outcome.code));
    response->set_retmsg(outcome.message);
    return Finish(outcome);
  }

  ServerUnaryReactor* reactor() const { return reactor_; }

 private:
  ServerUnaryReactor* reactor_;
  CallMetrics& metrics_;
  const char* method_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// sendShuffleData and getMemoryShuffleData are taken raw, everything else as messages.
using RawBase = wire::ShuffleServer::WithRawCallbackMethod_sendShuffleData<
    wire::ShuffleServer::WithRawCallbackMethod_getMemoryShuffleData<
        wire::ShuffleServer::CallbackService>>;

class ShuffleGrpc final : public RawBase {
 public:
  ShuffleGrpc(ShuffleService& service, CallMetrics& metrics)
      : service_(service), metrics_(metrics) {}

  ServerUnaryReactor* registerShuffle(CallbackServerContext* context,
                                      const wire::ShuffleRegisterRequest* request,
                                      wire::ShuffleRegisterResponse* response) override {
    Call call(context, metrics_, "registerShuffle");
    RegisterCall args{.key = {request->appid(), request->shuffleid()},
                      .ranges = {},
                      .properties = {request->properties().begin(), request->properties().end()},
                      .has_merge_context = request->has_mergecontext()};
    for (const wire::ShufflePartitionRange& range : request->partitionranges()) {
      args.ranges.push_back({range.start(), range.end()});
    }
    return call.Answer(response, service_.Register(std::move(args)));
  }

  ServerUnaryReactor* requireBuffer(CallbackServerContext* context,
                                    const wire::RequireBufferRequest* request,
                                    wire::RequireBufferResponse* response) override {
    Call call(context, metrics_, "requireBuffer");
    const RequireCall args{
        .key = {request->appid(), request->shuffleid()},
        .partitions = {request->partitionids().begin(), request->partitionids().end()},
        .bytes = request->requiresize()};
    ServerUnaryReactor* reactor = call.reactor();
    service_.RequireBuffer(args, [call, response](Reply<int64_t> reply) mutable {
      response->set_requirebufferid(reply.value);
      call.Answer(response, reply.outcome);
    });
    return reactor;
  }

  ServerUnaryReactor* sendShuffleData(CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override {
    Call call(context, metrics_, "sendShuffleData");
    const Outcome outcome = Send(*request);
    wire::SendShuffleDataResponse message;
    message.set_status(ToWire(outcome.code));
    message.set_retmsg(outcome.message);
    const grpc::Slice bytes(message.SerializeAsString());
    *response = grpc::ByteBuffer(&bytes, 1);
    return call.Finish(outcome);
  }

  ServerUnaryReactor* reportShuffleResult(CallbackServerContext* context,
                                          const wire::ReportShuffleResultRequest* request,
                                          wire::ReportShuffleResultResponse* response) override {
    Call call(context, metrics_, "reportShuffleResult");
    std::vector<storage::PartitionReport> reports;
    for (const wire::PartitionToBlockIds& report : request->partitiontoblockids()) {
      reports.push_back({report.partitionid(),
                         {report.blockids().data(), static_cast<size_t>(report.blockids_size())}});
    }
    return call.Answer(
        response, service_.Report({request->appid(), request->shuffleid()}, std::move(reports)));
  }

  ServerUnaryReactor* getShuffleResult(CallbackServerContext* context,
                                       const wire::GetShuffleResultRequest* request,
                                       wire::GetShuffleResultResponse* response) override {
    Call call(context, metrics_, "getShuffleResult");
    ServerUnaryReactor* reactor = call.reactor();
    service_.GetResult({.key = {request->appid(), request->shuffleid()},
                        .partitions = {request->partitionid()},
                        .layout = ToLayout(request->blockidlayout())},
                       FinishResult(call, response));
    return reactor;
  }

  ServerUnaryReactor* getShuffleResultForMultiPart(
      CallbackServerContext* context, const wire::GetShuffleResultForMultiPartRequest* request,
      wire::GetShuffleResultForMultiPartResponse* response) override {
    Call call(context, metrics_, "getShuffleResultForMultiPart");
    ServerUnaryReactor* reactor = call.reactor();
    service_.GetResult(
        {.key = {request->appid(), request->shuffleid()},
         .partitions = {request->partitions().begin(), request->partitions().end()},
         .layout = ToLayout(request->blockidlayout())},
        FinishResult(call, response));
    return reactor;
  }

  ServerUnaryReactor* getMemoryShuffleData(CallbackServerContext* context,
                                           const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override {
    Call call(context, metrics_, "getMemoryShuffleData");
    ServerUnaryReactor* reactor = call.reactor();
    wire::GetMemoryShuffleDataRequest message;
    grpc::ByteBuffer bytes(*request);
    if (!grpc::SerializationTraits<wire::GetMemoryShuffleDataRequest>::Deserialize(&bytes, &message)
             .ok()) {
      *response = EncodeMemoryReply({Invalid("the request is not a well-formed message"), {}});
      call.Finish(Invalid(""));
      return reactor;
    }
    MemoryReadCall args{.key = {message.appid(), message.shuffleid()},
                        .partition = message.partitionid(),
                        .last_block_id = message.lastblockid(),
                        .read_bytes = message.readbuffersize(),
                        .task_bitmap = message.serializedexpectedtaskidsbitmap()};
    service_.ReadMemory(std::move(args),
                        [call, response](Reply<storage::MemoryAnswer> reply) mutable {
                          const Outcome outcome = reply.outcome;
                          *response = EncodeMemoryReply(std::move(reply));
                          call.Finish(outcome);
                        });
    return reactor;
  }

  ServerUnaryReactor* getLocalShuffleIndex(CallbackServerContext* context,
                                           const wire::GetLocalShuffleIndexRequest* request,
                                           wire::GetLocalShuffleIndexResponse* response) override {
    Call call(context, metrics_, "getLocalShuffleIndex");
    return call.Answer(response, service_.ReadLocalIndex({request->appid(), request->shuffleid()},
                                                         request->partitionid()));
  }

  ServerUnaryReactor* getLocalShuffleData(CallbackServerContext* context,
                                          const wire::GetLocalShuffleDataRequest* request,
                                          wire::GetLocalShuffleDataResponse* response) override {
    Call call(context, metrics_, "getLocalShuffleData");
    return call.Answer(response,
                       service_.ReadLocalData({.key = {request->appid(), request->shuffleid()},
                                               .partition = request->partitionid(),
                                               .offset = request->offset(),
                                               .length = request->length()}));
  }

  ServerUnaryReactor* appHeartbeat(CallbackServerContext* context,
                                   const wire::AppHeartBeatRequest* request,
                                   wire::AppHeartBeatResponse* response) override {
    Call call(context, metrics_, "appHeartbeat");
    return call.Answer(response, service_.Heartbeat(request->appid()));
  }

  ServerUnaryReactor* unregisterShuffle(CallbackServerContext* context,
                                        const wire::ShuffleUnregisterRequest* request,
                                        wire::ShuffleUnregisterResponse* response) override {
    Call call(context, metrics_, "unregisterShuffle");
    return call.Answer(response, service_.Unregister({request->appid(), request->shuffleid()}));
  }

  ServerUnaryReactor* unregisterShuffleByAppId(
      CallbackServerContext* context, const wire::ShuffleUnregisterByAppIdRequest* request,
      wire::ShuffleUnregisterByAppIdResponse* response) override {
    Call call(context, metrics_, "unregisterShuffleByAppId");
    return call.Answer(response, service_.UnregisterApp(request->appid()));
  }

  // The storage type contains MEMORY, so there is nothing to commit, and remote merge is not
  // offered.
  ServerUnaryReactor* commitShuffleTask(CallbackServerContext* context,
                                        const wire::ShuffleCommitRequest*,
                                        wire::ShuffleCommitResponse* response) override {
    return NotOffered(context, "commitShuffleTask", response);
  }
  ServerUnaryReactor* finishShuffle(CallbackServerContext* context,
                                    const wire::FinishShuffleRequest*,
                                    wire::FinishShuffleResponse* response) override {
    return NotOffered(context, "finishShuffle", response);
  }
  ServerUnaryReactor* startSortMerge(CallbackServerContext* context,
                                     const wire::StartSortMergeRequest*,
                                     wire::StartSortMergeResponse* response) override {
    return NotOffered(context, "startSortMerge", response);
  }
  ServerUnaryReactor* getSortedShuffleData(CallbackServerContext* context,
                                           const wire::GetSortedShuffleDataRequest*,
                                           wire::GetSortedShuffleDataResponse* response) override {
    return NotOffered(context, "getSortedShuffleData", response);
  }

 private:
  Outcome Send(const grpc::ByteBuffer& request) {
    Result<SendMessage> message = TakeSlices(request);
    if (!message) return ToOutcome(message.error());
    Result<SendHeadFields> head = ParseSendHead(*message);
    if (!head) return Invalid("the request is not a well-formed message");
    auto admission = service_.AdmitSend({{head->app, head->shuffle}, head->ticket_id});
    if (!admission.outcome.ok()) return std::move(admission.outcome);
    Result<storage::IncomingBatch> batch =
        ParseSendBlocks(*message, admission.value->ticket_bytes());
    if (!batch) {
      return Invalid(
          "the send is malformed, a block's length is not positive or not that of its "
          "data, or the blocks need more than the ticket was issued for");
    }
    return service_.Store(std::move(*admission.value), *batch);
  }

  template <class Response>
  static ShuffleService::ResultDone FinishResult(Call call, Response* response) {
    return [call, response](Reply<storage::ReportsAnswer> reply) mutable {
      response->set_serializedbitmap(std::move(reply.value.bitmap));
      call.Answer(response, reply.outcome);
    };
  }

  template <class Response>
  ServerUnaryReactor* NotOffered(CallbackServerContext* context, const char* method,
                                 Response* response) {
    Call call(context, metrics_, method);
    return call.Answer(response,
                       Invalid(std::string(method) + " is not offered by this server: "
                                                     "its storage type is MEMORY_LOCALFILE"));
  }

  ShuffleService& service_;
  CallMetrics& metrics_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeShuffleGrpc(ShuffleService& service, CallMetrics& metrics) {
  return std::make_unique<ShuffleGrpc>(service, metrics);
}

}  // namespace dovetail::server
