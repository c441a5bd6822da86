// Counts calls by method and status, with their latency, for every edge that answers calls.
//
// Threads: any. Lifetime: the registry outlives it; it outlives the edges.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "engine/base/metrics.h"

namespace dovetail::server {

class CallMetrics {
 public:
  explicit CallMetrics(MetricsRegistry& registry);
  ~CallMetrics();

  // status: a code of the protocol, 0..15.
  void Observe(std::string_view method, int status, double seconds);

 private:
  static constexpr int kStatuses = 16;
  struct Method {
    Histogram* seconds = nullptr;
    std::array<std::atomic<Counter*>, kStatuses> requests{};
  };

  Method& Of(std::string_view method);

  MetricsRegistry& registry_;
  std::shared_mutex mutex_;
  std::map<std::string, Method, std::less<>> methods_;  // guarded by mutex_; entries stay
};

}  // namespace dovetail::server
