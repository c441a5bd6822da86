// One data path: its engine, and whether it takes new flushes. What a disk is, and why:
//
//   usable  takes flushes
//   full    ENOSPC or EDQUOT from a write, or used space above disk_high_watermark; left when used
//           space is below disk_low_watermark and, after a failed write, that write's size is free
//           again. Still serves reads.
//   broken  an append failed with an I/O error; left when a probe file was written, read back and
//           removed.
//   slow    an operation has been in flight for longer than io_duration_threshold_sec; left when
//           none is. What was on its way there goes to another disk.
//   busy    the process had no descriptor or memory for a flush; left at the next look.
//
// The states are independent pieces of evidence: a disk is usable when none of them holds. Nothing
// but its own exit clears a piece.
//
// Threads: any. The look at the disk (Check) is asked for by the ticker and runs in the engine; a
// hung disk answers late, and that is what makes it slow. Lifetime: outlives segments and logs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/metrics.h"
#include "engine/base/result.h"
#include "engine/engine.h"
#include "storage/options.h"

namespace dovetail::storage {

struct DiskStats {
  std::atomic<int64_t> appended_bytes_total{0};
  std::atomic<int64_t> appended_groups_total{0};
  std::atomic<int64_t> appended_batches_total{0};
  std::atomic<int64_t> append_failures_total{0};
  std::atomic<int64_t> read_bytes_total{0};
  std::atomic<int64_t> reads_total{0};
  std::atomic<int64_t> read_failures_total{0};
  std::atomic<int64_t> lost_partitions_total{0};
  std::atomic<int64_t> segments{0};
  std::atomic<int64_t> segments_created_total{0};
  std::atomic<int64_t> reserved_bytes{0};  // behind the ends of open segments
  std::atomic<int64_t> reserve_retries_total{0};
  std::atomic<int64_t> groups_abandoned_total{0};
  std::atomic<int64_t> removals_pending{0};
  std::atomic<int64_t> flush_bytes_in_flight{0};
  std::atomic<int64_t> file_system_bytes{0};
  std::atomic<int64_t> file_system_free_bytes{0};
};

// Seconds since then; histogram may be null.
void Observe(Histogram* histogram, TimePoint started);

class Disk {
 public:
  // on_usable: called without any lock when the disk became usable again.
  Disk(int index, std::string data_path, std::unique_ptr<engine::Engine> engine,
       const LocalFileStoreOptions& options, Clock clock, std::function<void()> on_usable);

  int index() const { return index_; }
  const std::string& data_path() const { return data_path_; }
  engine::Engine& engine() { return *engine_; }
  DiskStats& stats() { return stats_; }
  const DiskStats& stats() const { return stats_; }

  // What is observed, where somebody wants it; set before the first flush or read.
  struct Histograms {
    Histogram* append_seconds = nullptr;
    Histogram* read_seconds = nullptr;
    Histogram* group_bytes = nullptr;
  };
  void SetHistograms(const Histograms& histograms) { histograms_ = histograms; }
  const Histograms& histograms() const { return histograms_; }

  bool usable() const;
  bool full() const { return full_.load(); }
  bool broken() const { return broken_.load(); }
  bool slow() const { return slow_.load(); }
  bool busy() const { return busy_.load(); }

  // How appends to the file go: as configured, as far as the file system takes it.
  engine::IoMode AppendMode(const engine::File& file) const;
  // What an append of `bytes` ended with.
  void OnAppendFailed(const Error& error, int64_t bytes);

  // One operation under way, for the slow state. on_slow runs at each look that finds the disk slow
  // while the operation is under way, on the ticker, without any lock: whoever waits need not go on
  // waiting.
  class Watch {
   public:
    explicit Watch(Disk& disk, std::function<void()> on_slow = nullptr);
    ~Watch();
    Watch(Watch&& other) noexcept;
    Watch& operator=(Watch&&) = delete;

   private:
    friend class Disk;
    using InFlight = std::multimap<TimePoint, std::function<void()>>;

    Disk* disk_;
    InFlight::iterator started_;
  };

  // Looks at space, at the age of what is in flight and, when broken, tries the disk. Never waits.
  void Check();
  // Runs the task at the next look, on the ticker, without any lock: for what failed and is to be
  // tried again. A disk that ends before drops it.
  void AtNextLook(std::function<void()> task);

 private:
  void CheckAge();
  void OnSpace(const engine::SpaceInfo& space);
  void Probe();
  void ProbeFile(const engine::FileRef& file);
  void Leave(std::atomic<bool>& evidence, const char* name);

  const int index_;
  const std::string data_path_;
  const LocalFileStoreOptions options_;
  const Clock clock_;
  const std::function<void()> on_usable_;
  DiskStats stats_;
  Histograms histograms_;
  std::atomic<bool> full_{false};
  std::atomic<bool> broken_{false};
  std::atomic<bool> slow_{false};
  std::atomic<bool> busy_{false};
  std::atomic<bool> checking_{false};

  std::mutex mutex_;
  Watch::InFlight in_flight_;                        // guarded by mutex_, by when they began
  int64_t failed_write_bytes_ = 0;                   // guarded by mutex_
  std::vector<std::function<void()>> at_next_look_;  // guarded by mutex_
  // Last, and so ended first: what it still completes touches all of the above.
  const std::unique_ptr<engine::Engine> engine_;
};

}  // namespace dovetail::storage
