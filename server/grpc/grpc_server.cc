#include "server/grpc/grpc_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

namespace dovetail::server {
namespace {

// A send is 16 MiB and more: with the default windows of 64 KiB it would crawl.
constexpr int kStreamWindowBytes = 16 << 20;
constexpr int kFrameBytes = 1 << 20;

std::string Address(const std::string& host, int64_t port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(ipv6 ? "[{}]:{}" : "{}:{}"), host, port);
}

void Configure(const ServerOptions& options, grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("dovetail");
  quota.Resize(static_cast<size_t>(options.grpc_memory_bytes_max));
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(
      static_cast<int>(std::min<int64_t>(options.grpc_message_bytes_max, INT_MAX)));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  builder.AddChannelArgument(
      GRPC_ARG_MAX_CONCURRENT_STREAMS,
      static_cast<int>(std::min<int64_t>(options.grpc_streams_max, INT_MAX)));
  // Without this two daemons would quietly share one port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

}  // namespace

std::expected<std::unique_ptr<GrpcServer>, std::string> GrpcServer::Start(
    const ServerOptions& options, const std::vector<grpc::Service*>& services) {
  grpc::ServerBuilder builder;
  Configure(options, builder);
  const std::string address = Address(options.bind_address, options.grpc_port);
  std::unique_ptr<GrpcServer> server(new GrpcServer());
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &server->port_);
  for (grpc::Service* service : services) builder.RegisterService(service);
  server->server_ = builder.BuildAndStart();
  if (!server->server_ || server->port_ == 0) {
    return std::unexpected(fmt::format(
        "cannot listen for gRPC on {}: the port is in use or the address is not one of this "
        "machine; set grpc_port or bind_address",
        address));
  }
  return server;
}

GrpcServer::~GrpcServer() {
  if (server_) server_->Shutdown(std::chrono::system_clock::now());
}

bool GrpcServer::Stop(std::chrono::system_clock::time_point deadline) {
  server_->Shutdown(deadline);
  const bool finished = std::chrono::system_clock::now() < deadline;
  server_->Wait();
  return finished;
}

}  // namespace dovetail::server
