#include "tests/e2e/wire/methods.h"

#include <algorithm>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/reader.h"

namespace dovetail::e2e {
namespace {

using Stub = wire::ShuffleServer::Stub;

constexpr std::string_view kService = "/rss.common.ShuffleServer/";

template <class Response>
std::string RestOf(const std::string& bytes) {
  Response response;
  response.ParseFromString(bytes);
  response.clear_status();
  response.clear_retmsg();
  return response.ShortDebugString();
}

template <class Request, class Response>
MethodRule Rule(std::string_view name, void (*fill)(Request&, const Target&, int32_t partition)) {
  MethodRule rule;
  rule.path = std::string(kService).append(name);
  rule.has_shuffle = Request::descriptor()->FindFieldByName("shuffleId") != nullptr;
  for (const char* field :
       {"partitionId", "partitions", "partitionIds", "partitionToBlockIds", "shuffleData"}) {
    rule.has_partition |= Request::descriptor()->FindFieldByName(field) != nullptr;
  }
  rule.make = [fill](const Target& target, int32_t partition) {
    Request request;
    request.set_appid(target.app);
    if constexpr (requires { request.set_shuffleid(0); }) request.set_shuffleid(target.shuffle);
    if (fill != nullptr) fill(request, target, partition);
    return request.SerializeAsString();
  };
  rule.status = [](const std::string& bytes) {
    Response response;
    EXPECT_TRUE(response.ParseFromString(bytes)) << Response::descriptor()->name();
    return response.status();
  };
  rule.rest = RestOf<Response>;
  return rule;
}

MethodRule Answering(wire::StatusCode when_unknown, MethodRule rule) {
  rule.when_unknown = when_unknown;
  // What is never looked at cannot be wrong.
  if (when_unknown == wire::INVALID_REQUEST) rule.has_shuffle = rule.has_partition = false;
  return rule;
}

std::vector<MethodRule> WriteMethods() {
  return {
      Answering(wire::SUCCESS, Rule<wire::ShuffleRegisterRequest, wire::ShuffleRegisterResponse>(
                                   "registerShuffle", nullptr)),
      Rule<wire::RequireBufferRequest, wire::RequireBufferResponse>(
          "requireBuffer",
          [](wire::RequireBufferRequest& request, const Target&, int32_t partition) {
            request.set_requiresize(1000);
            request.add_partitionids(partition);
          }),
      Rule<wire::SendShuffleDataRequest, wire::SendShuffleDataResponse>(
          "sendShuffleData",
          [](wire::SendShuffleDataRequest& request, const Target& target, int32_t partition) {
            request = MakeSend(target, 1, {MakeBlocks(partition, 0, 1, 100)});
          }),
      Rule<wire::ReportShuffleResultRequest, wire::ReportShuffleResultResponse>(
          "reportShuffleResult",
          [](wire::ReportShuffleResultRequest& request, const Target&, int32_t partition) {
            wire::PartitionToBlockIds* report = request.add_partitiontoblockids();
            report->set_partitionid(partition);
            report->add_blockids(5);
          }),
      Answering(wire::INVALID_REQUEST,
                Rule<wire::ShuffleCommitRequest, wire::ShuffleCommitResponse>("commitShuffleTask",
                                                                              nullptr)),
      Answering(
          wire::INVALID_REQUEST,
          Rule<wire::FinishShuffleRequest, wire::FinishShuffleResponse>("finishShuffle", nullptr)),
      Answering(wire::INVALID_REQUEST,
                Rule<wire::StartSortMergeRequest, wire::StartSortMergeResponse>("startSortMerge",
                                                                                nullptr)),
      Rule<wire::AppHeartBeatRequest, wire::AppHeartBeatResponse>("appHeartbeat", nullptr),
      Answering(wire::SUCCESS,
                Rule<wire::ShuffleUnregisterRequest, wire::ShuffleUnregisterResponse>(
                    "unregisterShuffle", nullptr)),
      Answering(wire::SUCCESS,
                Rule<wire::ShuffleUnregisterByAppIdRequest, wire::ShuffleUnregisterByAppIdResponse>(
                    "unregisterShuffleByAppId", nullptr)),
  };
}

std::vector<MethodRule> ReadMethods() {
  return {
      Rule<wire::GetShuffleResultRequest, wire::GetShuffleResultResponse>(
          "getShuffleResult",
          [](wire::GetShuffleResultRequest& request, const Target&, int32_t partition) {
            request.set_partitionid(partition);
            *request.mutable_blockidlayout() = SparkLayout();
          }),
      Rule<wire::GetShuffleResultForMultiPartRequest, wire::GetShuffleResultForMultiPartResponse>(
          "getShuffleResultForMultiPart",
          [](wire::GetShuffleResultForMultiPartRequest& request, const Target&, int32_t partition) {
            request.add_partitions(partition);
            *request.mutable_blockidlayout() = SparkLayout();
          }),
      Rule<wire::GetMemoryShuffleDataRequest, wire::GetMemoryShuffleDataResponse>(
          "getMemoryShuffleData",
          [](wire::GetMemoryShuffleDataRequest& request, const Target& target, int32_t partition) {
            request = ToRequest({.target = target, .partition = partition, .filter = {}});
          }),
      Rule<wire::GetLocalShuffleIndexRequest, wire::GetLocalShuffleIndexResponse>(
          "getLocalShuffleIndex",
          [](wire::GetLocalShuffleIndexRequest& request, const Target&, int32_t partition) {
            request.set_partitionid(partition);
            request.set_partitionnumperrange(1);
            request.set_partitionnum(10);
          }),
      Rule<wire::GetLocalShuffleDataRequest, wire::GetLocalShuffleDataResponse>(
          "getLocalShuffleData",
          [](wire::GetLocalShuffleDataRequest& request, const Target&, int32_t partition) {
            request.set_partitionid(partition);
            request.set_partitionnumperrange(1);
            request.set_partitionnum(10);
            request.set_length(40);
          }),
      Answering(wire::INVALID_REQUEST,
                Rule<wire::GetSortedShuffleDataRequest, wire::GetSortedShuffleDataResponse>(
                    "getSortedShuffleData", nullptr)),
  };
}

bool Named(const MethodRule& method, std::string_view name) {
  return method.path.substr(kService.size()) == name;
}

}  // namespace

const std::vector<MethodRule>& ShuffleMethods() {
  static const std::vector<MethodRule> methods = [] {
    std::vector<MethodRule> all = WriteMethods();
    for (MethodRule& method : ReadMethods()) all.push_back(std::move(method));
    return all;
  }();
  return methods;
}

const MethodRule& ShuffleMethod(std::string_view name) {
  return *std::ranges::find_if(ShuffleMethods(),
                               [&](const MethodRule& method) { return Named(method, name); });
}

std::string RestOfRefusal(const MethodRule& method) {
  return Named(method, "requireBuffer") ? "requireBufferId: -1" : "";
}

wire::StatusCode CallBytes(WireClient& client, const MethodRule& method, const std::string& bytes) {
  const RawAnswer answer = client.Raw(method.path, bytes);
  EXPECT_TRUE(answer.status.ok()) << method.path << ": gRPC status " << answer.status.error_code()
                                  << " " << answer.status.error_message();
  const wire::StatusCode status = method.status(answer.bytes);
  if (status != wire::SUCCESS) {
    EXPECT_EQ(method.rest(answer.bytes), RestOfRefusal(method)) << method.path;
    EXPECT_TRUE(wire::StatusCode_IsValid(status)) << method.path << ": " << status;
  }
  return status;
}

wire::StatusCode Call(WireClient& client, const MethodRule& method, const Target& target,
                      int32_t partition) {
  return CallBytes(client, method, method.make(target, partition));
}

}  // namespace dovetail::e2e
