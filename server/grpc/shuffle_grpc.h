// The gRPC face of ShuffleService: rss.common.ShuffleServer on the callback API. Sends and memory
// reads are raw byte buffers, so that block data is copied once (send) or not at all (read).
//
// Threads: gRPC's; every method may run on any number of them at once. Nothing blocks; a call that
// waits holds only its reactor. Lifetime: service and metrics outlive the gRPC server.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "server/call_metrics.h"
#include "server/shuffle_service.h"

namespace dovetail::server {

std::unique_ptr<grpc::Service> MakeShuffleGrpc(ShuffleService& service, CallMetrics& metrics);

}  // namespace dovetail::server
