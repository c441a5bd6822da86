// One partition of a shuffle in memory: its blocks in order of arrival, and the ids that map tasks
// reported for it.
//
// Block data is copied into arena chunks that belong to this partition; blocks follow each other
// without gaps and may cross from one chunk into the next, so no chunk but the last has unused
// room. Bytes below the written mark of a chunk never change: readers hold slices of them while
// others append.
//
// Order is arrival order and stable between calls, which the paging of docs/protocol.md, "Paging"
// needs. A block id occurs once: of duplicates the first copy wins.
//
// Threads: any; one mutex for blocks, one for reports, neither held across I/O. Accounting is the
// caller's: it counts a batch before Append and frees what Append says was a duplicate, and what
// Clear returns.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/buffer.h"
#include "storage/block.h"
#include "storage/block_bitmap.h"
#include "storage/block_index.h"
#include "storage/task_filter.h"

namespace dovetail::storage {

class Partition {
 public:
  // What a block costs in an answer beside its data, and the most blocks of one answer: tiny blocks
  // must not make it many times larger than the client asked for.
  static constexpr int64_t kSegmentBytes = 64;
  static constexpr size_t kPageBlocksMax = 1 << 16;

  explicit Partition(Arena& arena) : arena_(arena) {}
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  struct Appended {
    int64_t stored_blocks = 0;
    int64_t stored_bytes = 0;  // data only
    int64_t duplicate_blocks = 0;
    int64_t duplicate_bytes = 0;  // data only
  };
  // Copies the blocks in and makes them visible at once.
  Appended Append(std::span<const IncomingBlock> blocks, std::span<const ConstBytes> pieces);

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

  // Adds reported ids; returns by how many bytes the memory they take changed.
  int64_t Report(std::span<const int64_t> block_ids);
  void CollectReports(BlockBitmap& into) const;
  int64_t report_bytes() const;

  struct Cleared {
    int64_t blocks = 0;
    int64_t bytes = 0;  // data only
    int64_t report_bytes = 0;
  };
  // Forgets everything. Slices that are out stay valid.
  Cleared Clear();

 private:
  struct StoredBlock {
    BlockMeta meta;
    uint32_t chunk = 0;   // index of the chunk that its first byte is in
    uint32_t offset = 0;  // inside that chunk
  };
  struct Selection {
    std::vector<uint32_t> blocks;
    int64_t bytes = 0;  // data only
    bool is_end = false;

    int64_t cost() const { return bytes + static_cast<int64_t>(blocks.size()) * kSegmentBytes; }
  };

  Selection Select(const PageRequest& request) const;
  void CopyIn(std::span<const ConstBytes> pieces, int64_t bytes_to_come);
  void AddChunk(int64_t bytes_to_come);
  void AppendSlices(const StoredBlock& block, MemoryPage& page) const;
  void CopyWhatPinsTooMuch(MemoryPage& page) const;

  Arena& arena_;

  mutable std::mutex blocks_mutex_;
  std::vector<StoredBlock> blocks_;                   // guarded by blocks_mutex_
  BlockIndex index_;                                  // guarded by blocks_mutex_
  std::vector<std::shared_ptr<ArenaBuffer>> chunks_;  // guarded by blocks_mutex_
  size_t last_chunk_used_ = 0;                        // guarded by blocks_mutex_
  int64_t data_bytes_ = 0;                            // guarded by blocks_mutex_

  mutable std::mutex reports_mutex_;
  BlockBitmap reports_;       // guarded by reports_mutex_
  int64_t report_bytes_ = 0;  // guarded by reports_mutex_
};

}  // namespace dovetail::storage
