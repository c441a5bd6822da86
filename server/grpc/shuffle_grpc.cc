#include "server/grpc/shuffle_grpc.h"

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "proto/shuffle.grpc.pb.h"
#include "server/grpc/data_codec.h"
#include "server/grpc/send_codec.h"
#include "server/rpc/call.h"
#include "server/rpc/request.h"

namespace dovetail::server {
namespace {

namespace wire = rss::common;
using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

BlockIdLayout ToLayout(const wire::BlockIdLayout& layout) {
  return {layout.sequencenobits(), layout.partitionidbits(), layout.taskattemptidbits()};
}

template <class Request>
ShuffleKey KeyOf(const Request& request) {
  return {request.appid(), request.shuffleid()};
}

// Every method is taken raw: a request is counted before it becomes a message, and one that is none
// gets an answer of the protocol.
using Server = wire::ShuffleServer;
using RawWrites =
    Server::WithRawCallbackMethod_finishShuffle<Server::WithRawCallbackMethod_commitShuffleTask<
        Server::WithRawCallbackMethod_reportShuffleResult<
            Server::WithRawCallbackMethod_sendShuffleData<
                Server::WithRawCallbackMethod_requireBuffer<
                    Server::WithRawCallbackMethod_registerShuffle<Server::CallbackService>>>>>>;
using RawReads = Server::WithRawCallbackMethod_getLocalShuffleData<
    Server::WithRawCallbackMethod_getLocalShuffleIndex<
        Server::WithRawCallbackMethod_getMemoryShuffleData<
            Server::WithRawCallbackMethod_getShuffleResultForMultiPart<
                Server::WithRawCallbackMethod_getShuffleResult<RawWrites>>>>>;
using RawService =
    Server::WithRawCallbackMethod_getSortedShuffleData<Server::WithRawCallbackMethod_startSortMerge<
        Server::WithRawCallbackMethod_unregisterShuffleByAppId<
            Server::WithRawCallbackMethod_unregisterShuffle<
                Server::WithRawCallbackMethod_appHeartbeat<RawReads>>>>>;

class ShuffleGrpc final : public RawService {
 public:
  ShuffleGrpc(ShuffleService& service, CallMetrics& metrics, AnswerWatch& watch)
      : service_(service), metrics_(metrics), watch_(watch) {}

  ServerUnaryReactor* registerShuffle(CallbackServerContext* context, const ByteBuffer* request,
                                      ByteBuffer* response) override {
    return Serve<wire::ShuffleRegisterRequest, wire::ShuffleRegisterResponse>(
        {"registerShuffle", context, request, response},
        [this](auto& asked, auto&) { return Register(asked); });
  }

  ServerUnaryReactor* requireBuffer(CallbackServerContext* context, const ByteBuffer* request,
                                    ByteBuffer* response) override {
    return ServeLater<wire::RequireBufferRequest, int64_t>(
        {"requireBuffer", context, request, response},
        [this](auto& asked, auto done) {
          const RequireCall args{
              .key = KeyOf(asked),
              .partitions = {asked.partitionids().begin(), asked.partitionids().end()},
              .bytes = asked.requiresize()};
          service_.RequireBuffer(args, done);
        },
        [this](Call& call, Reply<int64_t> reply) {
          wire::RequireBufferResponse message;
          message.set_requirebufferid(reply.outcome.ok() ? reply.value : kNoTicket);
          Answer(call, reply.outcome, message);
        });
  }

  ServerUnaryReactor* sendShuffleData(CallbackServerContext* context, const ByteBuffer* request,
                                      ByteBuffer* response) override {
    const Arrival arrival{"sendShuffleData", context, request, response};
    auto* call = new Call(arrival, watch_);
    wire::SendShuffleDataResponse message;
    Answer(*call, Send(*request), message);
    return call;
  }

  ServerUnaryReactor* reportShuffleResult(CallbackServerContext* context, const ByteBuffer* request,
                                          ByteBuffer* response) override {
    return Serve<wire::ReportShuffleResultRequest, wire::ReportShuffleResultResponse>(
        {"reportShuffleResult", context, request, response},
        [this](auto& asked, auto&) { return Report(asked); });
  }

  ServerUnaryReactor* getShuffleResult(CallbackServerContext* context, const ByteBuffer* request,
                                       ByteBuffer* response) override {
    return ServeLater<wire::GetShuffleResultRequest, storage::ReportsAnswer>(
        {"getShuffleResult", context, request, response},
        [this](auto& asked, auto done) {
          service_.GetResult({.key = KeyOf(asked),
                              .partitions = {asked.partitionid()},
                              .layout = ToLayout(asked.blockidlayout())},
                             done);
        },
        AnswerResult<wire::GetShuffleResultResponse>());
  }

  ServerUnaryReactor* getShuffleResultForMultiPart(CallbackServerContext* context,
                                                   const ByteBuffer* request,
                                                   ByteBuffer* response) override {
    return ServeLater<wire::GetShuffleResultForMultiPartRequest, storage::ReportsAnswer>(
        {"getShuffleResultForMultiPart", context, request, response},
        [this](auto& asked, auto done) {
          service_.GetResult({.key = KeyOf(asked),
                              .partitions = {asked.partitions().begin(), asked.partitions().end()},
                              .layout = ToLayout(asked.blockidlayout())},
                             done);
        },
        AnswerResult<wire::GetShuffleResultForMultiPartResponse>());
  }

  ServerUnaryReactor* getMemoryShuffleData(CallbackServerContext* context,
                                           const ByteBuffer* request,
                                           ByteBuffer* response) override {
    return ServeLater<wire::GetMemoryShuffleDataRequest, storage::MemoryAnswer>(
        {"getMemoryShuffleData", context, request, response},
        [this](auto& asked, auto done) {
          service_.ReadMemory(
              {.key = KeyOf(asked),
               .partition = asked.partitionid(),
               .last_block_id = asked.lastblockid(),
               .read_bytes = asked.readbuffersize(),
               .task_bitmap = std::move(*asked.mutable_serializedexpectedtaskidsbitmap())},
              done);
        },
        [this](Call& call, Reply<storage::MemoryAnswer> reply) {
          Observe(call, reply.outcome);
          call.Answer(EncodeMemoryReply(std::move(reply)));
        });
  }

  ServerUnaryReactor* getLocalShuffleIndex(CallbackServerContext* context,
                                           const ByteBuffer* request,
                                           ByteBuffer* response) override {
    return ServeLater<wire::GetLocalShuffleIndexRequest, storage::FileAnswer>(
        {"getLocalShuffleIndex", context, request, response},
        [this](auto& asked, auto done) {
          service_.ReadLocalIndex(KeyOf(asked), asked.partitionid(), done);
        },
        [this](Call& call, Reply<storage::FileAnswer> reply) {
          Observe(call, reply.outcome);
          call.Answer(EncodeIndexReply(std::move(reply)));
        });
  }

  ServerUnaryReactor* getLocalShuffleData(CallbackServerContext* context, const ByteBuffer* request,
                                          ByteBuffer* response) override {
    return ServeLater<wire::GetLocalShuffleDataRequest, storage::FileAnswer>(
        {"getLocalShuffleData", context, request, response},
        [this](auto& asked, auto done) {
          service_.ReadLocalData({.key = KeyOf(asked),
                                  .partition = asked.partitionid(),
                                  .offset = asked.offset(),
                                  .length = asked.length()},
                                 done);
        },
        [this](Call& call, Reply<storage::FileAnswer> reply) {
          Observe(call, reply.outcome);
          call.Answer(EncodeDataReply(std::move(reply)));
        });
  }

  ServerUnaryReactor* appHeartbeat(CallbackServerContext* context, const ByteBuffer* request,
                                   ByteBuffer* response) override {
    return Serve<wire::AppHeartBeatRequest, wire::AppHeartBeatResponse>(
        {"appHeartbeat", context, request, response},
        [this](auto& asked, auto&) { return service_.Heartbeat(asked.appid()); });
  }

  ServerUnaryReactor* unregisterShuffle(CallbackServerContext* context, const ByteBuffer* request,
                                        ByteBuffer* response) override {
    return Serve<wire::ShuffleUnregisterRequest, wire::ShuffleUnregisterResponse>(
        {"unregisterShuffle", context, request, response},
        [this](auto& asked, auto&) { return service_.Unregister(KeyOf(asked)); });
  }

  ServerUnaryReactor* unregisterShuffleByAppId(CallbackServerContext* context,
                                               const ByteBuffer* request,
                                               ByteBuffer* response) override {
    return Serve<wire::ShuffleUnregisterByAppIdRequest, wire::ShuffleUnregisterByAppIdResponse>(
        {"unregisterShuffleByAppId", context, request, response},
        [this](auto& asked, auto&) { return service_.UnregisterApp(asked.appid()); });
  }

  // The storage type contains MEMORY, so there is nothing to commit, and remote merge is not
  // offered.
  ServerUnaryReactor* commitShuffleTask(CallbackServerContext* context, const ByteBuffer* request,
                                        ByteBuffer* response) override {
    return NotOffered<wire::ShuffleCommitResponse>(
        {"commitShuffleTask", context, request, response});
  }
  ServerUnaryReactor* finishShuffle(CallbackServerContext* context, const ByteBuffer* request,
                                    ByteBuffer* response) override {
    return NotOffered<wire::FinishShuffleResponse>({"finishShuffle", context, request, response});
  }
  ServerUnaryReactor* startSortMerge(CallbackServerContext* context, const ByteBuffer* request,
                                     ByteBuffer* response) override {
    return NotOffered<wire::StartSortMergeResponse>({"startSortMerge", context, request, response});
  }
  ServerUnaryReactor* getSortedShuffleData(CallbackServerContext* context,
                                           const ByteBuffer* request,
                                           ByteBuffer* response) override {
    return NotOffered<wire::GetSortedShuffleDataResponse>(
        {"getSortedShuffleData", context, request, response});
  }

 private:
  static constexpr int64_t kNoTicket = -1;

  // A call whose answer is ready at once: handle(request, response) fills what the response holds
  // beside status and text.
  template <class Request, class Response, class Handle>
  ServerUnaryReactor* Serve(const Arrival& arrival, const Handle& handle) {
    auto* call = new Call(arrival, watch_);
    Request asked;
    Response message;
    Outcome outcome = ParseRequest(*arrival.request, asked);
    if (outcome.ok()) outcome = handle(asked, message);
    Answer(*call, outcome, message);
    return call;
  }

  // A call that may wait: start(request, done) passes done on, which calls answer(call, reply).
  template <class Request, class Value, class Start, class Done>
  ServerUnaryReactor* ServeLater(const Arrival& arrival, const Start& start, const Done& answer) {
    auto* call = new Call(arrival, watch_);
    Request asked;
    const Outcome outcome = ParseRequest(*arrival.request, asked);
    call->DropRequest();
    const auto done = [call, answer](Reply<Value> reply) { answer(*call, std::move(reply)); };
    if (outcome.ok()) {
      start(asked, done);
    } else {
      done({outcome, {}});
    }
    return call;
  }

  template <class Response>
  std::function<void(Call&, Reply<storage::ReportsAnswer>)> AnswerResult() {
    return [this](Call& call, Reply<storage::ReportsAnswer> reply) {
      Response message;
      message.set_serializedbitmap(std::move(reply.value.bitmap));
      Answer(call, reply.outcome, message, [grant = std::move(reply.value.grant)] {});
    };
  }

  template <class Response>
  ServerUnaryReactor* NotOffered(const Arrival& arrival) {
    auto* call = new Call(arrival, watch_);
    Response message;
    Answer(*call,
           Invalid(std::string(arrival.method) +
                   " is not offered by this server: its storage type is MEMORY_LOCALFILE"),
           message);
    return call;
  }

  template <class Response>
  void Answer(Call& call, const Outcome& outcome, Response& message,
              std::function<void()> on_done = nullptr) {
    Put(outcome, message);
    Observe(call, outcome);
    call.Answer(BytesOf(message), std::move(on_done));
  }

  void Observe(const Call& call, const Outcome& outcome) {
    metrics_.Observe(call.method(), static_cast<int>(outcome.code), call.seconds());
  }

  Outcome Register(const wire::ShuffleRegisterRequest& asked) {
    RegisterCall args{.key = KeyOf(asked),
                      .ranges = {},
                      .properties = {asked.properties().begin(), asked.properties().end()},
                      .has_merge_context = asked.has_mergecontext()};
    for (const wire::ShufflePartitionRange& range : asked.partitionranges()) {
      args.ranges.push_back({range.start(), range.end()});
    }
    return service_.Register(std::move(args));
  }

  Outcome Send(const ByteBuffer& request) {
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

  Outcome Report(const wire::ReportShuffleResultRequest& asked) {
    std::vector<storage::PartitionReport> reports;
    for (const wire::PartitionToBlockIds& report : asked.partitiontoblockids()) {
      reports.push_back({report.partitionid(),
                         {report.blockids().data(), static_cast<size_t>(report.blockids_size())}});
    }
    return service_.Report(KeyOf(asked), std::move(reports));
  }

  ShuffleService& service_;
  CallMetrics& metrics_;
  AnswerWatch& watch_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeShuffleGrpc(ShuffleService& service, CallMetrics& metrics,
                                               AnswerWatch& watch) {
  return std::make_unique<ShuffleGrpc>(service, metrics, watch);
}

}  // namespace dovetail::server
