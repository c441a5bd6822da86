// What every process can tell about itself: CPU, memory, descriptors, threads, age and how it was
// built. The names are those that the usual exporters use, so that ready-made dashboards work.
//
// Everything is read from the system at scrape time, on the scraping thread, within microseconds. A
// value that the system does not give is exported as NaN, never as a made-up 0.
#pragma once

#include <string>

#include "engine/base/metrics.h"

namespace dovetail {

// Called once, while the daemon is being built.
void AddProcessMetrics(MetricsRegistry& metrics, const std::string& version);

}  // namespace dovetail
