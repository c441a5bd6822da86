// The figures of every data path for /metrics, labelled with its path, and the histograms that the
// disks fill.
#pragma once

#include "engine/base/metrics.h"
#include "storage/shuffle_store.h"

namespace dovetail::server {

// Before the first request: from here on the disks observe into the registry's histograms, so the
// registry outlives the store. The store calls registry.RemoveCallbacks(&store) at its end.
void AddDiskMetrics(MetricsRegistry& registry, storage::ShuffleStore& store);

}  // namespace dovetail::server
