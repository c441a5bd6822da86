#include "server/disk_metrics.h"

#include <atomic>

namespace dovetail::server {
namespace {

using storage::Disk;
using storage::DiskStats;

class DiskAdder {
 public:
  DiskAdder(MetricsRegistry& registry, const void* owner, Disk& disk)
      : registry_(registry), owner_(owner), disk_(disk), labels_{{"path", disk.data_path()}} {}

  template <class Read>
  void Gauge(const char* name, const char* help, Read read) {
    registry_.AddGauge(
        owner_, name, help, [&disk = disk_, read] { return static_cast<double>(read(disk)); },
        labels_);
  }

  void State(const char* state, bool (Disk::*holds)() const) {
    Labels labels = labels_;
    labels["state"] = state;
    registry_.AddGauge(
        owner_, "dovetail_disk_state", "1 while there is evidence that the data path is so",
        [&disk = disk_, holds] { return (disk.*holds)() ? 1.0 : 0.0; }, labels);
  }

  void Count(const char* name, const char* help, const std::atomic<int64_t>& value) {
    registry_.AddCounterCallback(
        owner_, name, help, [&value] { return static_cast<double>(value.load()); }, labels_);
  }

  Histogram* Times(const char* name, const char* help) {
    return &registry_.AddHistogram(name, help, LatencyBoundsSeconds(), labels_);
  }

  Histogram* Sizes(const char* name, const char* help) {
    std::vector<double> bounds;
    for (double bytes = 4096; bytes <= (1 << 30); bytes *= 4) bounds.push_back(bytes);
    return &registry_.AddHistogram(name, help, bounds, labels_);
  }

 private:
  MetricsRegistry& registry_;
  const void* const owner_;
  Disk& disk_;
  const Labels labels_;
};

void AddStates(DiskAdder& add) {
  add.Gauge("dovetail_disk_usable", "1 while the data path takes new data",
            [](const Disk& d) { return d.usable() ? 1 : 0; });
  add.State("full", &Disk::full);
  add.State("broken", &Disk::broken);
  add.State("slow", &Disk::slow);
  add.State("busy", &Disk::busy);
  add.Gauge("dovetail_disk_total_bytes", "Size of the file system at the last look",
            [](const Disk& d) { return d.stats().file_system_bytes.load(); });
  add.Gauge("dovetail_disk_free_bytes", "Free bytes of the file system at the last look",
            [](const Disk& d) { return d.stats().file_system_free_bytes.load(); });
}

void AddWrites(DiskAdder& add, const DiskStats& stats) {
  add.Count("dovetail_disk_append_bytes_total", "Bytes of groups written",
            stats.appended_bytes_total);
  add.Count("dovetail_disk_groups_total", "Groups written", stats.appended_groups_total);
  add.Count("dovetail_disk_batches_total", "Batches of partitions written",
            stats.appended_batches_total);
  add.Count("dovetail_disk_append_failures_total", "Groups that could not be written",
            stats.append_failures_total);
  add.Count("dovetail_disk_groups_abandoned_total", "Groups taken back from a slow data path",
            stats.groups_abandoned_total);
  add.Count("dovetail_disk_reserve_retries_total",
            "Reservations tried again with exactly what a group needs",
            stats.reserve_retries_total);
  add.Count("dovetail_disk_segments_created_total", "Segment files made",
            stats.segments_created_total);
  add.Gauge("dovetail_disk_segments", "Segment files not removed yet",
            [](const Disk& d) { return d.stats().segments.load(); });
  add.Gauge("dovetail_disk_reserved_bytes", "Space reserved behind the ends of segments",
            [](const Disk& d) { return d.stats().reserved_bytes.load(); });
  add.Gauge("dovetail_disk_flush_bytes_in_flight", "Bytes of groups gathered and not written yet",
            [](const Disk& d) { return d.stats().flush_bytes_in_flight.load(); });
  add.Gauge("dovetail_disk_removals_pending", "Logs whose files are being removed",
            [](const Disk& d) { return d.stats().removals_pending.load(); });
}

void AddReads(DiskAdder& add, const DiskStats& stats) {
  add.Count("dovetail_disk_reads_total", "Reads of segments", stats.reads_total);
  add.Count("dovetail_disk_read_bytes_total", "Bytes of them", stats.read_bytes_total);
  add.Count("dovetail_disk_read_failures_total", "Reads that failed", stats.read_failures_total);
  add.Count("dovetail_disk_lost_partitions_total",
            "Times that a read found data of a partition lost", stats.lost_partitions_total);
}

}  // namespace

void AddDiskMetrics(MetricsRegistry& registry, storage::ShuffleStore& store) {
  for (const std::unique_ptr<Disk>& disk : store.disks()) {
    DiskAdder add(registry, &store, *disk);
    AddStates(add);
    AddWrites(add, disk->stats());
    AddReads(add, disk->stats());
    disk->SetHistograms(
        {.append_seconds = add.Times("dovetail_disk_append_seconds",
                                     "Time from the start of a group's write to its end"),
         .read_seconds = add.Times("dovetail_disk_read_seconds", "Time of one read of a segment"),
         .group_bytes = add.Sizes("dovetail_disk_group_bytes", "Sizes of groups written")});
  }
}

}  // namespace dovetail::server
