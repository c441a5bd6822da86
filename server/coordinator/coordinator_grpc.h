// The gRPC face of Coordinator: rss.common.CoordinatorServer on the callback API.
//
// Threads: gRPC's; nothing here blocks. Lifetime: the coordinator, the watch and whatever observe
// refers to outlive the gRPC server that the service is given to; the service outlives that server
// too.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "server/answer_watch.h"
#include "server/coordinator/coordinator.h"

namespace dovetail::server {

// Called once for every call when its answer is gone or given up: method, status code of the
// protocol, seconds since its arrival. On any thread.
using ObserveCall = std::function<void(std::string_view method, int status, double seconds)>;

// Entries (ranges times replicas) of all assignments that are on their way to clients, some 70
// bytes each: clients that ask and do not read cannot make us hold more than some 300 MB.
inline constexpr int64_t kAssignmentEntriesInFlightMax = 4 * Coordinator::kAssignmentEntriesMax;

std::unique_ptr<grpc::Service> MakeCoordinatorGrpc(
    Coordinator& coordinator, ObserveCall observe, AnswerWatch& watch,
    int64_t entries_in_flight_max = kAssignmentEntriesInFlightMax);

}  // namespace dovetail::server
