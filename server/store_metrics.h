// Exports the store's numbers under their names in docs/metrics.md. Read at scrape time from the
// store itself.
//
// Threads: called while the daemon is built. Lifetime: RemoveCallbacks(&store) on the registry
// before the store ends.
#pragma once

#include "engine/base/metrics.h"
#include "storage/shuffle_store.h"

namespace dovetail::server {

void AddStoreMetrics(MetricsRegistry& registry, const storage::ShuffleStore& store);

}  // namespace dovetail::server
