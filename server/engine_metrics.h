// The figures of every data path's engine for /metrics: labelled with the path, and those of rings
// with their shard too.
#pragma once

#include <string>
#include <vector>

#include "engine/base/metrics.h"
#include "storage/shuffle_store.h"

namespace dovetail::server {

// reasons: why each path has the engine that it has, in the order of the store's disks. The store
// calls registry.RemoveCallbacks(&store) at its end.
void AddEngineMetrics(MetricsRegistry& registry, storage::ShuffleStore& store,
                      const std::vector<std::string>& reasons);

}  // namespace dovetail::server
