// What an operator can set of the network edges and of the process. Values are checked by config/
// before they arrive here; the defaults below are the shipped ones (config/dovetail.toml, held
// equal by a test).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dovetail::server {

struct CoordinatorOptions {
  // A server that sent no heartbeat for this long gets no more assignments.
  int64_t server_heartbeat_timeout_sec = 30;
  // Most servers that one shuffle is spread over when the client leaves it to the coordinator.
  int64_t shuffle_nodes_max = 9;
};

struct LogOptions {
  std::string log_level = "INFO";  // DEBUG, INFO, WARN, ERROR
};

struct ServerOptions {
  // Tiers in use. MEMORY_LOCALFILE is the only one that is served; any other is refused at start.
  std::string store_type = "MEMORY_LOCALFILE";
  // Address that all ports listen on.
  std::string bind_address = "0.0.0.0";
  // Host name or address that clients are told. Empty: the address of the default route, else
  // 127.0.0.1.
  std::string advertise_host;
  // 0 takes a free port.
  int64_t grpc_port = 19999;
  int64_t http_port = 20010;
  // Largest gRPC message taken in.
  int64_t grpc_message_bytes_max = 1LL << 30;
  // Memory that gRPC may hold for messages that have not reached the store yet.
  int64_t grpc_memory_bytes_max = 2LL << 30;
  // Calls in flight on one gRPC connection.
  int64_t grpc_streams_max = 1024;
  // How long a client may take for an answer before the call is cut.
  int64_t grpc_answer_timeout_ms = 60'000;
  // Tags that assignments can ask for, beside the built-in ss_v5 and GRPC.
  std::vector<std::string> tags;
  // Pause between two heartbeats to the coordinator.
  int64_t heartbeat_interval_seconds = 2;
  // How long SIGTERM lets calls in flight finish.
  int64_t stop_deadline_ms = 10'000;
  CoordinatorOptions coordinator;
  LogOptions log;
};

}  // namespace dovetail::server
