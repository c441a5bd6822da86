#include "server/grpc/grpc_server.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/support/server_interceptor.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <thread>
#include <utility>

namespace dovetail::server {
namespace {

// A send is 16 MiB and more: with the default windows of 64 KiB it would crawl.
constexpr int kStreamWindowBytes = 16 << 20;
constexpr int kFrameBytes = 1 << 20;

// gRPC's own default, said aloud.
constexpr int kKeepAliveMs = 2 * 60 * 60 * 1000;
// So that calls are cut, and counted, before their connection is closed.
constexpr int64_t kCutFirstMs = 3'000;

constexpr std::chrono::milliseconds kStopPoll{10};

// Lives as long as one call does.
class CountedCall final : public grpc::experimental::Interceptor {
 public:
  explicit CountedCall(std::atomic<int64_t>& calls) : calls_(calls) { calls_.fetch_add(1); }
  ~CountedCall() override { calls_.fetch_sub(1); }
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    methods->Proceed();
  }

 private:
  std::atomic<int64_t>& calls_;
};

class CallCounter final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallCounter(std::atomic<int64_t>& calls) : calls_(calls) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo*) override {
    return new CountedCall(calls_);
  }

 private:
  std::atomic<int64_t>& calls_;
};

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
  // A call can be cut only if its connection can be written to. One whose peer takes nothing at all
  // is closed by the kernel (TCP_USER_TIMEOUT, which gRPC sets from these; 20 s by itself, and then
  // it would cut answers that may take longer).
  const int unread_ms =
      static_cast<int>(std::min<int64_t>(options.grpc_answer_timeout_ms + kCutFirstMs, INT_MAX));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, unread_ms);
  // Without this two daemons would quietly share one port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

}  // namespace

std::expected<std::unique_ptr<GrpcServer>, std::string> GrpcServer::Start(
    const ServerOptions& options, const std::vector<grpc::Service*>& services) {
  // A client that sends text that is not UTF-8 is answered, and may not fill our log. What gRPC
  // itself has to say of a port that it cannot have is said by the error below.
  google::protobuf::SetLogHandler(nullptr);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  gpr_set_log_function([](gpr_log_func_args* args) { spdlog::debug("gRPC: {}", args->message); });
  // Never undone: the library's own end waits up to 10 s for a poller when an answer had stalled.
  grpc_init();
  grpc::ServerBuilder builder;
  Configure(options, builder);
  const std::string address = Address(options.bind_address, options.grpc_port);
  std::unique_ptr<GrpcServer> server(new GrpcServer());
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &server->port_);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<CallCounter>(server->calls_));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
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
  // The library's own deadline would be spent on idle clients that do not hang up, and it does not
  // say whether a call was cut.
  std::atomic<bool> is_down{false};
  std::jthread shutdown([&] {
    server_->Shutdown();
    is_down.store(true);
  });
  while (calls_.load() > 0 && std::chrono::system_clock::now() < deadline) {
    std::this_thread::sleep_for(kStopPoll);
  }
  const bool finished = calls_.load() == 0;
  while (!is_down.load()) {
    grpc_server_cancel_all_calls(server_->c_server());
    std::this_thread::sleep_for(kStopPoll);
  }
  return finished;
}

}  // namespace dovetail::server
