// The heads (header and index records) of committed batches that are still in memory, so that the
// index of a partition is usually answered without a read. Bounded: the head that was used longest
// ago goes first, and can always be read again from its segment.
//
// Threads: any; one mutex. Lifetime: the cache outlives its entries; an entry is held by its
// extent.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/base/buffer.h"

namespace dovetail::storage {

using BatchHead = std::shared_ptr<const std::vector<std::byte>>;

class IndexCache {
 public:
  explicit IndexCache(int64_t bytes_max) : bytes_max_(bytes_max) {}
  ~IndexCache();

  // The place of one head in the cache; leaves it with its end.
  class Entry {
   public:
    Entry(IndexCache& cache, BatchHead head) : cache_(cache), head_(std::move(head)) {}
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // Null when it had to go.
    BatchHead Get();

   private:
    friend class IndexCache;
    IndexCache& cache_;
    BatchHead head_;                       // guarded by the cache's mutex
    std::list<Entry*>::iterator place_{};  // valid while head_ is set
  };

  std::shared_ptr<Entry> Add(BatchHead head);

  struct Figures {
    int64_t bytes = 0;
    int64_t entries = 0;
    int64_t hits_total = 0;
    int64_t misses_total = 0;
    int64_t evictions_total = 0;
  };
  Figures figures() const;

 private:
  // What an entry takes beside its head: the two objects, their reference counts, the list's node.
  static constexpr int64_t kEntryBytes = 160;

  static int64_t CostOf(const BatchHead& head) {
    return static_cast<int64_t>(head->size()) + kEntryBytes;
  }
  BatchHead DropLocked(Entry& entry);

  const int64_t bytes_max_;
  mutable std::mutex mutex_;
  std::list<Entry*> by_use_;  // guarded by mutex_; last used at the back
  Figures figures_;           // guarded by mutex_
};

}  // namespace dovetail::storage
