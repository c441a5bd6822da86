// Decides which shuffles flush, to which disks, and when. It touches no file and has no thread: it
// runs under its own mutex on the thread that crossed a limit, and on the ticker.
//
// Two reasons to flush: memory in use that is not being flushed yet passes the high watermark (then
// down to the low one), and a request for memory that was refused or waits (then until it would
// fit, or nothing is left to flush). The largest shuffles go first, so that groups are well filled.
// What is on its way to one disk is bounded; the rest waits for it.
//
// A partition's place is its slot (a stable hash); a slot's home is one shard of one disk. While
// the home is not usable the slot goes to the same shard of another disk.
//
// Threads: any. Lifetime: budget, disks and the shuffles' registry outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "storage/disk.h"
#include "storage/memory_budget.h"
#include "storage/options.h"

namespace dovetail::storage {

class Shuffle;

class FlushScheduler {
 public:
  struct Inputs {
    const MemoryBudget& budget;
    std::vector<Disk*> disks;  // may be empty: then nothing is ever flushed
    // Bytes frozen for flushes that have not ended.
    std::function<int64_t()> frozen_bytes;
    // What the first waiting requireBuffer asked for; 0 when none waits.
    std::function<int64_t()> waiting_bytes;
    std::function<std::vector<std::shared_ptr<Shuffle>>()> shuffles;
  };

  FlushScheduler(Inputs inputs, const StoreOptions& options);

  int slots() const { return slots_; }

  // Something changed: blocks were stored, memory came back, a disk became usable, time passed.
  void Evaluate();
  // A request for this much memory found no room.
  void OnRefused(int64_t bytes);
  // One partition of the shuffle's slot passed memory_single_buffer_max_spill_size.
  void FlushSlot(const std::shared_ptr<Shuffle>& shuffle, int slot, int64_t bytes);

  bool CanFlush() const { return !inputs_.disks.empty(); }

 private:
  int64_t TargetLocked();
  Disk* DiskOfLocked(int slot);
  // Returns the bytes that were asked for.
  int64_t RequestLocked(const std::shared_ptr<Shuffle>& shuffle, int slot, int64_t bytes_max);
  void OnSettled(Disk* disk, int64_t bytes);

  const Inputs inputs_;
  const int slots_;
  const int64_t high_bytes_;
  const int64_t low_bytes_;
  const int64_t disk_bytes_max_;

  std::mutex mutex_;
  int64_t requested_bytes_ = 0;  // guarded by mutex_: asked of logs, not frozen yet
  std::vector<int64_t> requested_bytes_by_disk_;  // guarded by mutex_
  int64_t refused_bytes_ = 0;                     // guarded by mutex_: the largest not served since
};

}  // namespace dovetail::storage
