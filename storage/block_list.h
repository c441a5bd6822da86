// A run of blocks in memory, in order of arrival, with their data in arena chunks. Blocks follow
// each other without gaps and may cross from one chunk into the next. A block id occurs once.
//
// A list grows while it stages; once frozen for a flush (held as shared_ptr<const BlockList>) it
// never changes again. Bytes below the written mark of a chunk never change: slices of them are
// handed out while the list grows.
//
// Threads: none of its own; the partition guards a growing list, a frozen one may be read by any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/buffer.h"
#include "storage/block.h"
#include "storage/block_index.h"

namespace dovetail::storage {

class BlockList {
 public:
  struct Appended {
    int64_t stored_blocks = 0;
    int64_t stored_bytes = 0;  // data only
    int64_t duplicate_blocks = 0;
    int64_t duplicate_bytes = 0;  // data only
  };

  // Copies in those blocks whose id is in neither this list nor `before` (may be null).
  Appended Append(Arena& arena, std::span<const IncomingBlock> blocks,
                  std::span<const ConstBytes> pieces, const BlockList* before);
  // Takes what `first` holds in front of what is here; its chunks are shared, not copied.
  void Prepend(const BlockList& first);

  size_t size() const { return blocks_.size(); }
  bool empty() const { return blocks_.empty(); }
  int64_t data_bytes() const { return data_bytes_; }
  // Every Append that stored something made a run: blocks [begin, end). Runs are numbered from 0.
  struct Run {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  size_t run_count() const { return run_begins_.size(); }
  Run run(size_t number) const {
    const bool last = number + 1 == run_begins_.size();
    return {run_begins_[number],
            last ? static_cast<uint32_t>(blocks_.size()) : run_begins_[number + 1]};
  }
  size_t RunOf(uint32_t block) const;

  const BlockMeta& meta(size_t i) const { return blocks_[i].meta; }
  std::optional<uint32_t> Find(int64_t block_id) const;

  // Adds the block's data at the end of the chain, joined to its last slice where the memory is.
  void AppendSlices(size_t i, SliceChain& chain) const;

 private:
  struct StoredBlock {
    BlockMeta meta;
    uint32_t chunk = 0;   // index of the chunk that its first byte is in
    uint32_t offset = 0;  // inside that chunk
  };

  void CopyIn(Arena& arena, std::span<const ConstBytes> pieces, int64_t bytes_to_come);
  void AddChunk(Arena& arena, int64_t bytes_to_come);
  bool LastChunkFull() const {
    return chunks_.empty() || last_chunk_used_ == chunks_.back()->size();
  }

  std::vector<StoredBlock> blocks_;
  std::vector<uint32_t> run_begins_;
  BlockIndex index_;
  std::vector<std::shared_ptr<ArenaBuffer>> chunks_;
  size_t last_chunk_used_ = 0;
  int64_t data_bytes_ = 0;
};

}  // namespace dovetail::storage
