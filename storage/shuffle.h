// One registered life of a shuffle: its partitions, its tickets, its logs on disk and the gate that
// ends it. The same (app, shuffle id) registered again after an unregister is another Shuffle with
// a larger generation; the two share nothing, so the removal of the old one can go on in the
// background.
//
// Writers enter the gate; after Close nobody stores anything here, and the last one out (or the
// closer) purges: all memory is given back exactly once and all files are removed (what a flush
// under way holds is given back when it has ended). Readers do not
// enter: they look at closed() after they have read, and a read that the purge may have disturbed
// becomes "not registered". A flush that is under way when the life ends finds nothing to commit.
//
// Threads: any. Lifetime: shared; whoever works on a shuffle holds it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/gate.h"
#include "storage/index_cache.h"
#include "storage/memory_budget.h"
#include "storage/partition.h"
#include "storage/partition_ranges.h"
#include "storage/segment_log.h"
#include "storage/stats.h"
#include "storage/ticket_table.h"

namespace dovetail::storage {

class Shuffle : public FlushSource, public std::enable_shared_from_this<Shuffle> {
 public:
  struct Shared {  // what all shuffles of a store use; outlives them
    Arena& arena;
    MemoryBudget& budget;
    StoreStats& stats;
    IndexCache& index_cache;
    std::atomic<int64_t>& ticket_ids;
    const StoreOptions& options;
    int slots = 1;
    std::function<void()> on_flush_ended;
  };

  // folder: of this life, below every data path.
  Shuffle(const Shared& shared, int64_t generation, std::string folder);
  ~Shuffle() override;

  int64_t generation() const override { return generation_; }
  Gate& gate() { return gate_; }
  TicketTable& tickets() { return tickets_; }

  Status AddRanges(std::span<const PartitionRange> ranges);
  bool Registered(int32_t partition) const;
  bool Registered(std::span<const int32_t> partitions) const;

  // Stores blocks of one partition, made at its first use. REQUIRES: Registered(partition), and the
  // caller is inside the gate.
  Partition::Appended Append(int32_t partition, std::span<const IncomingBlock> blocks,
                             std::span<const ConstBytes> pieces);
  // The partition, made at its first use. REQUIRES: as above.
  Partition& At(int32_t partition);
  // nullptr when nothing came for it yet.
  Partition* Find(int32_t partition) const;

  // Where a partition flushes to: a stable hash that spreads.
  int SlotOf(int32_t partition) const;
  // Staged bytes that no flush was asked to take yet.
  int64_t flushable_bytes(int slot) const;
  int64_t flushable_bytes() const;
  // settled: called with parts of `bytes` as they are frozen or cannot be flushed now, on the
  // shard's strand. False, and settled is never called, when the life is being purged.
  // In front of all others of its slot, at the next flush.
  void ListFirst(Partition& partition);
  [[nodiscard]] bool RequestFlush(Disk& disk, int slot, int64_t bytes,
                                  std::function<void(int64_t)> settled);

  std::vector<Batch> FreezeSome(int slot, int64_t bytes_max) override;
  std::shared_ptr<IndexCache::Entry> Cache(GroupHeads heads) override {
    return shared_.index_cache.Add(std::move(heads));
  }
  void OnCommitted(int slot, std::vector<Batch>& batches, std::vector<Extent> extents) override;
  void OnFailed(int slot, std::vector<Batch>& batches) override;

  // Gives everything back to the budget and begins the removal of the files; removed runs when the
  // last is gone. Called once, after the gate closed and all have left.
  void Purge(std::function<void()> removed);

 private:
  // What of one slot waits to be flushed.
  struct Slot {
    std::mutex mutex;
    std::deque<Partition*> flushable;  // guarded by mutex
    std::atomic<int64_t> staged_bytes{0};
    std::atomic<int64_t> requested_bytes{0};
  };

  void List(int slot, Partition* partition);

  const Shared shared_;
  const int64_t generation_;
  const std::string folder_;
  Counted counted_;
  Gate gate_;
  TicketTable tickets_;
  std::vector<std::unique_ptr<Slot>> slots_;  // constant after construction

  mutable std::shared_mutex mutex_;
  bool purged_ = false;                                                 // guarded by mutex_
  PartitionRanges ranges_;                                              // guarded by mutex_
  std::unordered_map<int32_t, std::unique_ptr<Partition>> partitions_;  // guarded by mutex_

  std::mutex logs_mutex_;
  std::map<std::pair<int, int>, std::shared_ptr<SegmentLog>> logs_;  // by disk and slot
  bool logs_closed_ = false;                                         // guarded by logs_mutex_
};

}  // namespace dovetail::storage
