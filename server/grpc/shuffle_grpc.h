// The gRPC face of ShuffleService: rss.common.ShuffleServer on the callback API. All requests
// and answers are raw byte buffers: block data is copied once (send) or not at all (read), and a
// request is bounded before it becomes a message (server/rpc/request.h).
//
// Threads: gRPC's; every method may run on any number of them at once. Nothing blocks; a call that
// waits holds only its reactor. Lifetime: service, metrics and watch outlive the gRPC server.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "server/answer_watch.h"
#include "server/call_metrics.h"
#include "server/shuffle_service.h"

namespace dovetail::server {

std::unique_ptr<grpc::Service> MakeShuffleGrpc(ShuffleService& service, CallMetrics& metrics,
                                               AnswerWatch& watch);

}  // namespace dovetail::server
