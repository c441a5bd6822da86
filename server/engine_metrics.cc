#include "server/engine_metrics.h"

#include <atomic>
#include <cmath>

#include "engine/base/check.h"
#include "engine/counters.h"
#include "engine/engine.h"

namespace dovetail::server {
namespace {

using engine::EngineCounters;
using engine::LatencyCounts;
using engine::RingCounters;
using Count = std::atomic<int64_t>;

// Classes of latencies that are told apart on the page, every second one: 16 us to 16.8 s.
constexpr size_t kFirstClass = 4;
constexpr size_t kLastClass = 24;
constexpr size_t kClassStep = 2;

std::vector<double> LatencyBounds() {
  std::vector<double> bounds;
  for (size_t i = kFirstClass; i <= kLastClass; i += kClassStep) {
    bounds.push_back(std::ldexp(1e-6, static_cast<int>(i)));
  }
  return bounds;
}

MetricsRegistry::HistogramFigures FiguresOf(const LatencyCounts& counts) {
  MetricsRegistry::HistogramFigures figures;
  size_t next = 0;
  for (size_t bound = kFirstClass; bound <= kLastClass; bound += kClassStep) {
    int64_t sum = 0;
    for (; next <= bound; ++next) sum += counts.count(next);
    figures.counts.push_back(sum);
  }
  for (; next < LatencyCounts::kClasses; ++next) figures.above += counts.count(next);
  figures.sum = static_cast<double>(counts.microseconds()) / 1e6;
  return figures;
}

// Of one engine, or of one of its shards.
class EngineAdder {
 public:
  EngineAdder(MetricsRegistry& registry, const void* owner, Labels labels)
      : registry_(registry), owner_(owner), labels_(std::move(labels)) {}

  void Counter(const char* name, const char* help, const Count& value,
               const Labels& more = {}) const {
    registry_.AddCounterCallback(
        owner_, name, help, [&value] { return static_cast<double>(value.load()); }, With(more));
  }
  void Gauge(const char* name, const char* help, const Count& value) const {
    registry_.AddGauge(
        owner_, name, help, [&value] { return static_cast<double>(value.load()); }, labels_);
  }
  template <class Read>
  void GaugeOf(const char* name, const char* help, Read read, const Labels& more = {}) const {
    registry_.AddGauge(
        owner_, name, help, [read] { return static_cast<double>(read()); }, With(more));
  }
  void Latency(const char* name, const char* help, const LatencyCounts& counts,
               const Labels& more) const {
    registry_.AddHistogramCallback(
        owner_, name, help, LatencyBounds(), [&counts] { return FiguresOf(counts); }, With(more));
  }

 private:
  Labels With(const Labels& more) const {
    Labels all = labels_;
    all.insert(more.begin(), more.end());
    return all;
  }

  MetricsRegistry& registry_;
  const void* const owner_;
  const Labels labels_;
};

void AddTransfers(const EngineAdder& add, const EngineCounters& counters) {
  struct Kind {
    const char* name;
    const Count& operations;
    const Count& bytes;
  };
  for (const Kind& kind : {Kind{"append", counters.appends, counters.append_bytes},
                           Kind{"read", counters.reads, counters.read_bytes},
                           Kind{"pipe", counters.pipes, counters.pipe_bytes}}) {
    const Labels labels = {{"kind", kind.name}};
    add.Counter("dovetail_engine_operations_total", "Operations completed with success",
                kind.operations, labels);
    add.Counter("dovetail_engine_bytes_total", "Bytes of them", kind.bytes, labels);
  }
}

void AddIncidents(const EngineAdder& add, const EngineCounters& counters) {
  add.Counter("dovetail_disk_continued_total", "Short or interrupted transfers that went on",
              counters.continued);
  add.Counter("dovetail_disk_rollbacks_total", "Failed appends that were cut back",
              counters.rollbacks);
  add.Counter("dovetail_disk_rollback_failures_total", "Failed appends whose cut failed too",
              counters.rollback_failures);
  add.Counter("dovetail_disk_direct_refused_total", "Files opened that take no direct I/O",
              counters.direct_refused);
  add.Counter("dovetail_disk_reopened_total",
              "Segments opened again that had been closed for want of descriptors",
              counters.reopened);
  add.Counter("dovetail_disk_unreserved_total", "Reservations that the file system does not offer",
              counters.unreserved);
  add.Gauge("dovetail_disk_open_descriptors", "File descriptors of segments", counters.descriptors);
}

void AddOperations(const EngineAdder& add, const RingCounters& ring) {
  struct Kind {
    const char* name;
    const RingCounters::Kind& counters;
  };
  for (const Kind& kind :
       {Kind{"append", ring.appends}, Kind{"read", ring.reads}, Kind{"pipe", ring.pipes}}) {
    const Labels labels = {{"kind", kind.name}};
    add.Latency("dovetail_uring_operation_seconds",
                "Time from taking an operation to its end, well or not", kind.counters.latency,
                labels);
    add.Counter("dovetail_uring_bytes_total", "Bytes of operations that ended well",
                kind.counters.bytes, labels);
  }
  add.Gauge("dovetail_uring_operations_in_flight", "Operations taken and not ended",
            ring.in_flight);
  add.Gauge("dovetail_uring_requests_in_kernel", "Requests that the ring has not answered",
            ring.in_kernel);
}

void AddRing(const EngineAdder& add, const RingCounters& ring) {
  add.Counter("dovetail_uring_requests_total", "Requests given to the ring", ring.requests);
  add.Counter("dovetail_uring_enters_total",
              "System calls that gave requests and took results: requests by enters is the batch",
              ring.enters);
  add.Counter("dovetail_uring_wakeups_total", "Wakes of the sleeping shard by other threads",
              ring.wakeups);
  add.Counter("dovetail_uring_retries_total", "Requests that were refused for the moment",
              ring.retries);
  add.Counter("dovetail_uring_cancels_total", "Cancellations asked for", ring.cancels);
  add.Counter("dovetail_uring_cancelled_total", "Cancellations granted", ring.cancelled);
  add.Counter("dovetail_uring_overflows_total", "Times that the completion queue was full",
              ring.overflows);
  add.Counter("dovetail_uring_busy_total", "Times that the kernel took no requests for the moment",
              ring.entries_busy);
  add.Counter("dovetail_uring_splice_total", "Splices of file data into a pipe", ring.splices);
  add.Counter("dovetail_uring_splice_bytes_total", "Bytes of them", ring.splice_bytes);
  add.Counter("dovetail_uring_fixed_file_requests_total",
              "Requests through a registered descriptor", ring.fixed_file_requests);
  add.Counter("dovetail_uring_fixed_buffer_requests_total", "Requests from registered memory",
              ring.fixed_buffer_requests);
  add.Counter("dovetail_uring_slab_waits_total",
              "Turns in which an append waited for memory to gather in", ring.slab_waits);
}

void AddFallbacks(const EngineAdder& add, const RingCounters& ring) {
  struct Reason {
    const char* name;
    const Count& count;
  };
  for (const Reason& reason : {Reason{"file_table_refused", ring.file_table_refused},
                               Reason{"file_table_full", ring.file_table_full},
                               Reason{"buffers_refused", ring.slabs_refused},
                               Reason{"splice_refused", ring.splice_refused}}) {
    add.Counter("dovetail_uring_fallbacks_total",
                "Times that a feature of the ring was not to be had", reason.count,
                {{"reason", reason.name}});
  }
}

}  // namespace

void AddEngineMetrics(MetricsRegistry& registry, storage::ShuffleStore& store,
                      const std::vector<std::string>& reasons) {
  DOVETAIL_CHECK(reasons.size() == store.disks().size());
  for (size_t i = 0; i < reasons.size(); ++i) {
    const storage::Disk& disk = *store.disks()[i];
    const engine::Engine& engine = store.disks()[i]->engine();
    const EngineAdder add(registry, &store, {{"path", disk.data_path()}});
    add.GaugeOf("dovetail_engine_info",
                "Always 1; the labels say what the data path's engine is, and why",
                [] { return 1; }, {{"engine", engine.info().name}, {"reason", reasons[i]}});
    add.GaugeOf("dovetail_disk_operations_in_flight", "Operations of the engine not completed yet",
                [&engine] { return engine.in_flight(); });
    if (const EngineCounters* counters = engine.counters()) {
      AddTransfers(add, *counters);
      AddIncidents(add, *counters);
    }
    for (int shard = 0; shard < engine.shards(); ++shard) {
      const RingCounters* ring = engine.ring_counters(shard);
      if (ring == nullptr) break;
      const EngineAdder of_shard(registry, &store,
                                 {{"path", disk.data_path()}, {"shard", std::to_string(shard)}});
      AddOperations(of_shard, *ring);
      AddRing(of_shard, *ring);
      AddFallbacks(of_shard, *ring);
    }
  }
}

}  // namespace dovetail::server
