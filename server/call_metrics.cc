#include "server/call_metrics.h"

#include <mutex>

#include "engine/base/check.h"
#include "server/reply.h"

namespace dovetail::server {

CallMetrics::CallMetrics(MetricsRegistry& registry) : registry_(registry) {}

CallMetrics::~CallMetrics() = default;

CallMetrics::Method& CallMetrics::Of(std::string_view method) {
  {
    std::shared_lock lock(mutex_);
    const auto it = methods_.find(method);
    if (it != methods_.end()) return it->second;
  }
  std::unique_lock lock(mutex_);
  Method& made = methods_[std::string(method)];
  if (!made.seconds) {
    made.seconds = &registry_.AddHistogram(
        "dovetail_grpc_request_seconds", "Time from the arrival of a call to its answer",
        LatencyBoundsSeconds(), {{"method", std::string(method)}});
  }
  return made;
}

void CallMetrics::Observe(std::string_view method, int status, double seconds) {
  DOVETAIL_CHECK(status >= 0 && status < kStatuses);
  Method& of = Of(method);
  of.seconds->Observe(seconds);
  std::atomic<Counter*>& slot = of.requests[static_cast<size_t>(status)];
  Counter* counter = slot.load(std::memory_order_acquire);
  if (!counter) {
    // The registry gives the same counter to whoever comes with the same labels.
    counter = &registry_.AddCounter(
        "dovetail_grpc_requests_total", "Calls answered",
        {{"method", std::string(method)}, {"status", ToString(static_cast<StatusCode>(status))}});
    slot.store(counter, std::memory_order_release);
  }
  counter->Increment();
}

}  // namespace dovetail::server
