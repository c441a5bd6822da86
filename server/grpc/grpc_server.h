// One gRPC server on one port, with the limits that keep an untrusted peer from taking the
// process's memory.
//
// Threads: Start and Stop by the owner; the calls run on gRPC's threads. Lifetime: the services
// outlive it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "server/options.h"

namespace dovetail::server {

class GrpcServer {
 public:
  // The error is a sentence for the operator: which address, what to do.
  static std::expected<std::unique_ptr<GrpcServer>, std::string> Start(
      const ServerOptions& options, const std::vector<grpc::Service*>& services);
  ~GrpcServer();

  int port() const { return port_; }

  // Refuses new calls at once and gives those in flight until the deadline; then they are cut.
  // Returns when none is left: true when all of them finished by themselves. Clients that are only
  // connected are hung up on; they are neither waited for nor counted.
  bool Stop(std::chrono::system_clock::time_point deadline);

 private:
  GrpcServer() = default;

  // Calls that have begun and are not over, sending their answer included. Outlives server_.
  std::atomic<int64_t> calls_{0};
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace dovetail::server
