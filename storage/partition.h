// One partition of a shuffle: its blocks in memory, its committed extents, and the ids that map
// tasks reported for it.
//
//   staging -> frozen (handed to a flush, at most one batch) -> extents (committed)
//
// A block is visible in at least one of memory and extents at every instant: Commit shows the
// extent and drops the frozen batch in one step; a flush that failed puts its blocks back in front.
// Of duplicate ids in memory the first copy wins. The logical log (index offsets) is gap-free from
// 0: a batch takes its place when it is frozen, and only one is.
//
// Memory is read newest append first, the blocks of one append in their order; that order is stable
// between calls, as the paging of docs/protocol.md, "Paging" needs. Newest first because of blocks
// that are sent again after they were committed, which nothing remembers: such a block is new in
// memory, and a reader whose last block it is goes on with everything that is older. The other way
// round it would skip what had come in between.
//
// Lost is sticky: committed data that turned out unreadable makes every later read an error.
//
// Threads: any; one mutex for blocks and extents, one for reports, neither held across I/O.
// Accounting is the caller's: it counts a batch before Append, and frees what Append and Clear say
// and what a frozen batch holds when it is committed or ended.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/arena.h"
#include "storage/block.h"
#include "storage/block_bitmap.h"
#include "storage/block_list.h"
#include "storage/extent.h"
#include "storage/task_filter.h"

namespace dovetail::storage {

class Partition {
 public:
  // What a block costs in an answer beside its data, and the most blocks of one answer: tiny blocks
  // must not make it many times larger than the client asked for.
  static constexpr int64_t kSegmentBytes = 64;
  static constexpr size_t kPageBlocksMax = 1 << 16;

  Partition(Arena& arena, int32_t id) : arena_(arena), id_(id) {}
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  int32_t id() const { return id_; }

  struct Appended : BlockList::Appended {
    int64_t staged_bytes = 0;       // all that is staged now
    bool became_flushable = false;  // the caller puts the partition on the list of those to flush
    bool became_large = false;      // passed large_bytes for the first time since the last Freeze
  };
  // Copies the blocks in and makes them visible at once.
  // large_bytes: staged bytes above which the partition should be flushed at once; 0: never.
  Appended Append(std::span<const IncomingBlock> blocks, std::span<const ConstBytes> pieces,
                  int64_t large_bytes);

  struct PageRequest {
    int64_t last_block_id = -1;  // -1, or an id that is not (any more) here: from the first block
    int64_t bytes_soft_max = 0;  // the page ends with the block that reaches this
    int64_t bytes_hard_max = INT64_MAX;  // and before the block that would make it cost more
    const TaskFilter* filter = nullptr;  // only blocks of these tasks
  };
  // What the page that ReadPage would give now costs: its data, and kSegmentBytes a block. Takes no
  // references.
  int64_t PageBytes(const PageRequest& request) const;
  MemoryPage ReadPage(const PageRequest& request) const;

  struct FrozenBatch {
    std::shared_ptr<const BlockList> blocks;
    int64_t logical_offset = 0;
  };
  // Freezes what is staged. Nothing when a batch is frozen already or nothing is staged. Takes the
  // partition off the list of those to flush.
  std::optional<FrozenBatch> Freeze();

  struct Settled {
    bool ended = false;      // the partition was cleared meanwhile: nothing happened
    bool flushable = false;  // the caller puts the partition on the list again
  };
  // The frozen batch is on disk.
  Settled Commit(const FrozenBatch& batch, Extent extent);
  // The frozen batch is not going to be on disk: back to staging, in front.
  Settled Unfreeze(const FrozenBatch& batch);

  // The committed extents, in logical order, without gaps.
  std::vector<Extent> extents() const;
  int64_t committed_bytes() const;

  void MarkLost();
  bool lost() const;

  // Adds reported ids; returns by how many bytes the memory they take changed.
  int64_t Report(std::span<const int64_t> block_ids);
  void CollectReports(BlockBitmap& into) const;
  int64_t report_bytes() const;

  struct Cleared {
    int64_t staged_blocks = 0;
    int64_t staged_bytes = 0;  // data only
    int64_t extents = 0;
    int64_t report_bytes = 0;
  };
  // Forgets everything. Slices that are out, and a flush under way, keep what they hold; the
  // memory of a frozen batch is the caller's to free when the flush has let go of it.
  Cleared Clear();

 private:
  struct Selection {
    std::vector<std::pair<const BlockList*, uint32_t>> blocks;
    int64_t bytes = 0;  // data only
    bool is_end = false;

    // False: the page ends before this block.
    bool Take(const BlockList& list, uint32_t block, const PageRequest& request);
    int64_t cost() const { return bytes + static_cast<int64_t>(blocks.size()) * kSegmentBytes; }
  };
  Selection Select(const PageRequest& request) const;
  void CopyWhatPinsTooMuch(MemoryPage& page) const;

  Arena& arena_;
  const int32_t id_;

  mutable std::mutex mutex_;
  BlockList staging_;                        // guarded by mutex_
  std::shared_ptr<const BlockList> frozen_;  // guarded by mutex_
  bool listed_ = false;                      // guarded by mutex_: on the list of those to flush
  bool large_ = false;                       // guarded by mutex_: was said to have become large
  std::vector<Extent> extents_;              // guarded by mutex_
  int64_t committed_bytes_ = 0;              // guarded by mutex_
  bool lost_ = false;                        // guarded by mutex_

  mutable std::mutex reports_mutex_;
  BlockBitmap reports_;       // guarded by reports_mutex_
  int64_t report_bytes_ = 0;  // guarded by reports_mutex_
};

}  // namespace dovetail::storage
