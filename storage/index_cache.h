// The heads (headers and index records) of committed groups that are still in memory, so that the
// index of a partition is usually answered without a read. Bounded: the heads that were used
// longest ago go first, and can always be read again from their segment. Kept by group, because a
// group is one allocation and one look-up of the lock, whatever number of partitions it has.
//
// Threads: any; one mutex. Lifetime: the cache outlives its entries; an entry is held by the
// extents of its group.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/base/buffer.h"

namespace dovetail::storage {

// The heads of a group's batches, one after the other.
using GroupHeads = std::shared_ptr<const std::vector<std::byte>>;

class IndexCache {
 public:
  explicit IndexCache(int64_t bytes_max) : bytes_max_(bytes_max) {}
  ~IndexCache();

  // The place of one group's heads in the cache; they leave it with its end.
  class Entry {
   public:
    Entry(IndexCache& cache, GroupHeads heads) : cache_(cache), heads_(std::move(heads)) {}
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // Null when it had to go.
    GroupHeads Get();

   private:
    friend class IndexCache;
    IndexCache& cache_;
    GroupHeads heads_;                     // guarded by the cache's mutex
    std::list<Entry*>::iterator place_{};  // valid while heads_ is set
  };

  std::shared_ptr<Entry> Add(GroupHeads heads);

  struct Figures {
    int64_t bytes = 0;
    int64_t entries = 0;
    int64_t hits_total = 0;
    int64_t misses_total = 0;
    int64_t evictions_total = 0;
  };
  Figures figures() const;

 private:
  // What an entry takes beside its heads: the two objects, their reference counts, the list's node.
  static constexpr int64_t kEntryBytes = 160;

  static int64_t CostOf(const GroupHeads& heads) {
    return static_cast<int64_t>(heads->size()) + kEntryBytes;
  }
  GroupHeads DropLocked(Entry& entry);

  const int64_t bytes_max_;
  mutable std::mutex mutex_;
  std::list<Entry*> by_use_;  // guarded by mutex_; last used at the back
  Figures figures_;           // guarded by mutex_
};

}  // namespace dovetail::storage
