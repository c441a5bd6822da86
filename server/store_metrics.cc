#include "server/store_metrics.h"

#include <atomic>

namespace dovetail::server {
namespace {

using storage::ShuffleStore;

class Adder {
 public:
  Adder(MetricsRegistry& registry, const ShuffleStore& store)
      : registry_(registry), store_(store) {}

  template <class Read>
  void Gauge(const char* name, const char* help, Read read) {
    registry_.AddGauge(&store_, name, help,
                       [&store = store_, read] { return static_cast<double>(read(store)); });
  }

  void Count(const char* name, const char* help, const std::atomic<int64_t>& value,
             const Labels& labels = {}) {
    registry_.AddCounterCallback(
        &store_, name, help, [&value] { return static_cast<double>(value.load()); }, labels);
  }

  template <class Read>
  void CountOf(const char* name, const char* help, const Labels& labels, Read read) {
    registry_.AddCounterCallback(
        &store_, name, help,
        [&store = store_, read] {
          return static_cast<double>(read(store.index_cache().figures()));
        },
        labels);
  }

 private:
  MetricsRegistry& registry_;
  const ShuffleStore& store_;
};

void AddGauges(Adder& add) {
  add.Gauge("dovetail_memory_capacity_bytes", "Bytes that blocks and tickets may take together",
            [](const ShuffleStore& s) { return s.budget().capacity_bytes(); });
  add.Gauge("dovetail_memory_used_bytes", "Bytes of stored blocks, 64 a block included",
            [](const ShuffleStore& s) { return s.budget().figures().used_bytes; });
  add.Gauge("dovetail_memory_promised_bytes", "Bytes of tickets that were not used yet",
            [](const ShuffleStore& s) { return s.budget().figures().promised_bytes; });
  add.Gauge("dovetail_memory_metadata_bytes",
            "Bytes of partitions, and of batches in segments, for being there",
            [](const ShuffleStore& s) { return s.budget().figures().metadata_bytes; });
  add.Gauge("dovetail_tickets", "Tickets that were not used yet",
            [](const ShuffleStore& s) { return s.stats().tickets.load(); });
  add.Gauge("dovetail_require_waiting", "Calls of requireBuffer that wait for room",
            [](const ShuffleStore& s) { return s.require_waiting(); });
  add.Gauge("dovetail_read_bytes_max", "Bytes of answers that may be on their way at once",
            [](const ShuffleStore& s) { return s.read_budget().bytes_max(); });
  add.Gauge("dovetail_read_bytes_in_flight", "Bytes of answers on their way",
            [](const ShuffleStore& s) { return s.read_budget().bytes_in_flight(); });
  add.Gauge("dovetail_read_waiting", "Reads that wait for their share of read_bytes_max",
            [](const ShuffleStore& s) { return s.read_budget().waiting(); });
  add.Gauge("dovetail_arena_reserved_bytes", "Memory for block data taken from the system so far",
            [](const ShuffleStore& s) { return s.arena().reserved_bytes(); });
  add.Gauge("dovetail_arena_used_bytes", "Part of it that holds data now, rounding included",
            [](const ShuffleStore& s) { return s.arena().used_bytes(); });
  add.Gauge("dovetail_apps", "Applications alive here",
            [](const ShuffleStore& s) { return s.stats().apps.load(); });
  add.Gauge("dovetail_shuffles", "Shuffles registered or still being removed",
            [](const ShuffleStore& s) { return s.stats().shuffles.load(); });
  add.Gauge("dovetail_partitions", "Partitions that hold data or reports",
            [](const ShuffleStore& s) { return s.stats().partitions.load(); });
  add.Gauge("dovetail_flushing_bytes", "Bytes of block data handed to flushes that have not ended",
            [](const ShuffleStore& s) { return s.stats().frozen_bytes.load(); });
  add.Gauge("dovetail_extents", "Batches of partitions that lie in segments",
            [](const ShuffleStore& s) { return s.stats().extents.load(); });
  add.Gauge("dovetail_removals_pending", "Ended shuffles whose memory or files are not gone yet",
            [](const ShuffleStore& s) { return s.stats().removals_pending.load(); });
  add.Gauge("dovetail_index_cache_bytes", "Memory of index records kept",
            [](const ShuffleStore& s) { return s.index_cache().figures().bytes; });
  add.Gauge("dovetail_report_bytes", "Memory of reported block ids",
            [](const ShuffleStore& s) { return s.stats().report_bytes.load(); });
}

void AddIndexCache(Adder& add) {
  using Figures = storage::IndexCache::Figures;
  const char* help = "Heads of batches looked up in the index cache";
  add.CountOf("dovetail_index_cache_lookups_total", help, {{"result", "hit"}},
              [](const Figures& f) { return f.hits_total; });
  add.CountOf("dovetail_index_cache_lookups_total", help, {{"result", "miss"}},
              [](const Figures& f) { return f.misses_total; });
  add.CountOf("dovetail_index_cache_evictions_total", "Heads dropped from the index cache", {},
              [](const Figures& f) { return f.evictions_total; });
}

void AddCounters(Adder& add, const storage::StoreStats& stats) {
  add.Count("dovetail_registered_apps_total", "Applications that began here",
            stats.registered_apps_total);
  add.Count("dovetail_registered_shuffles_total", "Lives of shuffles that began here",
            stats.registered_shuffles_total);
  add.Count("dovetail_apps_expired_total", "Applications forgotten because they made no call",
            stats.expired_apps_total);
  add.Count("dovetail_tickets_expired_total", "Tickets taken back because no send used them",
            stats.expired_tickets_total);
  add.Count("dovetail_received_bytes_total",
            "Bytes of block data acknowledged, duplicates included", stats.received_bytes_total);
  add.Count("dovetail_received_blocks_total", "Blocks acknowledged, duplicates included",
            stats.received_blocks_total);
  add.Count("dovetail_duplicate_blocks_total", "Blocks that were already there when they came",
            stats.duplicate_blocks_total);
  const Labels memory{{"tier", "memory"}};
  add.Count("dovetail_read_bytes_total", "Bytes of block data answered to reads",
            stats.memory_read_bytes_total, memory);
  add.Count("dovetail_read_blocks_total", "Blocks answered to reads",
            stats.memory_read_blocks_total, memory);
  const Labels file{{"tier", "file"}};
  add.Count("dovetail_read_bytes_total", "Bytes of block data answered to reads",
            stats.file_read_bytes_total, file);
  add.Count("dovetail_index_read_bytes_total", "Bytes of index records answered to reads",
            stats.index_read_bytes_total);
  add.Count("dovetail_flushed_bytes_total", "Bytes of block data moved from memory to segments",
            stats.flushed_bytes_total);
  add.Count("dovetail_flushed_blocks_total", "Blocks moved from memory to segments",
            stats.flushed_blocks_total);
  add.Count("dovetail_filtered_reads_total", "Reads that asked for the blocks of some tasks only",
            stats.filtered_memory_reads_total, memory);
  const char* refused = "Calls of requireBuffer refused for want of memory";
  add.Count("dovetail_require_refused_total", refused, stats.require_no_buffer_total,
            {{"reason", "no_room"}});
  add.Count("dovetail_require_refused_total", refused, stats.require_too_large_total,
            {{"reason", "larger_than_capacity"}});
  add.Count("dovetail_read_refused_total", "Reads that waited for read_bytes_max in vain",
            stats.read_no_buffer_total);
}

}  // namespace

void AddStoreMetrics(MetricsRegistry& registry, const storage::ShuffleStore& store) {
  Adder add(registry, store);
  AddGauges(add);
  AddIndexCache(add);
  AddCounters(add, store.stats());
}

}  // namespace dovetail::server
