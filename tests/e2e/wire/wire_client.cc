#include "tests/e2e/wire/wire_client.h"

#include <utility>

#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

std::shared_ptr<grpc::Channel> Connect(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials(), arguments);
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

WireClient::WireClient(int port)
    : channel_(Connect(port)),
      shuffle_(wire::ShuffleServer::NewStub(channel_)),
      coordinator_(wire::CoordinatorServer::NewStub(channel_)),
      generic_(std::make_unique<grpc::GenericStub>(channel_)) {}

RawAnswer WireClient::Raw(const std::string& path, const std::vector<std::string>& slices) {
  std::vector<grpc::Slice> parts;
  for (const std::string& slice : slices) parts.emplace_back(slice);
  const grpc::ByteBuffer request(parts.data(), parts.size());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  grpc::CompletionQueue queue;
  RawAnswer answer;
  grpc::ByteBuffer response;
  auto call = generic_->PrepareUnaryCall(&context, path, request, &queue);
  call->StartCall();
  call->Finish(&response, &answer.status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  answer.bytes = BytesOf(response);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return answer;
}

wire::StatusCode WireClient::Register(const Target& target, int32_t partitions) {
  wire::ShuffleRegisterRequest request;
  request.set_appid(target.app);
  request.set_shuffleid(target.shuffle);
  for (int32_t partition = 0; partition < partitions; ++partition) {
    wire::ShufflePartitionRange* range = request.add_partitionranges();
    range->set_start(partition);
    range->set_end(partition);
  }
  return Register(request);
}

wire::StatusCode WireClient::Register(const wire::ShuffleRegisterRequest& request) {
  const auto response = Ask(&wire::ShuffleServer::Stub::registerShuffle, request);
  if (response.status() == wire::SUCCESS) {
    std::lock_guard lock(mutex_);
    apps_.insert(request.appid());
  }
  return response.status();
}

wire::RequireBufferResponse WireClient::Require(const Target& target, int64_t bytes) {
  wire::RequireBufferRequest request;
  request.set_appid(target.app);
  request.set_shuffleid(target.shuffle);
  request.set_requiresize(static_cast<int32_t>(bytes));
  return Ask(&wire::ShuffleServer::Stub::requireBuffer, request);
}

int64_t WireClient::Ticket(const Target& target, int64_t bytes) {
  const wire::RequireBufferResponse response = Require(target, bytes);
  EXPECT_EQ(response.status(), wire::SUCCESS) << response.retmsg();
  EXPECT_GT(response.requirebufferid(), 0);
  return response.requirebufferid();
}

wire::SendShuffleDataResponse WireClient::Send(const wire::SendShuffleDataRequest& request) {
  return Ask(&wire::ShuffleServer::Stub::sendShuffleData, request);
}

wire::StatusCode WireClient::Store(const Target& target,
                                   const std::vector<wire::ShuffleData>& groups) {
  return Send(MakeSend(target, Ticket(target, TicketBytes(groups)), groups)).status();
}

wire::StatusCode WireClient::Unregister(const Target& target) {
  wire::ShuffleUnregisterRequest request;
  request.set_appid(target.app);
  request.set_shuffleid(target.shuffle);
  return Ask(&wire::ShuffleServer::Stub::unregisterShuffle, request).status();
}

wire::StatusCode WireClient::UnregisterApp(const std::string& app) {
  wire::ShuffleUnregisterByAppIdRequest request;
  request.set_appid(app);
  return Ask(&wire::ShuffleServer::Stub::unregisterShuffleByAppId, request).status();
}

void WireClient::UnregisterAll() {
  std::set<std::string> apps;
  {
    std::lock_guard lock(mutex_);
    apps.swap(apps_);
  }
  for (const std::string& app : apps) EXPECT_EQ(UnregisterApp(app), wire::SUCCESS);
}

}  // namespace dovetail::e2e
