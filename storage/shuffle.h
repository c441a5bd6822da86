// One registered life of a shuffle: its partitions, its tickets and the gate that ends it. The same
// (app, shuffle id) registered again after an unregister is another Shuffle with a larger
// generation; the two share nothing, so the removal of the old one can go on in the background.
//
// Writers enter the gate; after Close nobody stores anything here, and the last one out (or the
// closer) purges: all memory is given back exactly once. Readers do not enter: they look at
// closed() after they have read, and a read that the purge may have disturbed becomes "not
// registered".
//
// Threads: any. Lifetime: shared; whoever works on a shuffle holds it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/gate.h"
#include "storage/memory_budget.h"
#include "storage/partition.h"
#include "storage/partition_ranges.h"
#include "storage/stats.h"
#include "storage/ticket_table.h"

namespace dovetail::storage {

class Shuffle {
 public:
  struct Shared {  // what all shuffles of a store use; outlives them
    Arena& arena;
    MemoryBudget& budget;
    StoreStats& stats;
    std::atomic<int64_t>& ticket_ids;
  };

  Shuffle(const Shared& shared, int64_t generation);
  ~Shuffle();

  int64_t generation() const { return generation_; }
  Gate& gate() { return gate_; }
  TicketTable& tickets() { return tickets_; }

  Status AddRanges(std::span<const PartitionRange> ranges);
  bool Registered(int32_t partition) const;
  bool Registered(std::span<const int32_t> partitions) const;

  // The partition, made at its first use. REQUIRES: Registered(partition), and the caller is inside
  // the gate.
  Partition& At(int32_t partition);
  // nullptr when nothing came for it yet.
  Partition* Find(int32_t partition) const;

  // Gives everything back to the budget. Called once, after the gate closed and all have left.
  void Purge();

 private:
  const Shared shared_;
  const int64_t generation_;
  Counted counted_;
  Gate gate_;
  TicketTable tickets_;

  mutable std::shared_mutex mutex_;
  bool purged_ = false;                                                 // guarded by mutex_
  PartitionRanges ranges_;                                              // guarded by mutex_
  std::unordered_map<int32_t, std::unique_ptr<Partition>> partitions_;  // guarded by mutex_
};

}  // namespace dovetail::storage
