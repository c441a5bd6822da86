#include "storage/block_list.h"

#include <algorithm>
#include <cstring>

namespace dovetail::storage {
namespace {

int64_t DataBytes(std::span<const IncomingBlock> blocks) {
  int64_t bytes = 0;
  for (const IncomingBlock& block : blocks) bytes += block.meta.length;
  return bytes;
}

}  // namespace

std::optional<uint32_t> BlockList::Find(int64_t block_id) const {
  return index_.Find(block_id, blocks_.size(),
                     [this](uint32_t i) { return blocks_[i].meta.block_id; });
}

size_t BlockList::RunOf(uint32_t block) const {
  const auto after = std::ranges::upper_bound(run_begins_, block);
  return static_cast<size_t>(after - run_begins_.begin()) - 1;
}

BlockList::Appended BlockList::Append(Arena& arena, std::span<const IncomingBlock> blocks,
                                      std::span<const ConstBytes> pieces, const BlockList* before) {
  Appended appended;
  const auto id_at = [this](uint32_t i) { return blocks_[i].meta.block_id; };
  const size_t size_before = blocks_.size();
  int64_t bytes_to_come = DataBytes(blocks);
  for (const IncomingBlock& block : blocks) {
    const int64_t bytes = block.meta.length;
    const int64_t id = block.meta.block_id;
    if (Find(id) || (before && before->Find(id))) {
      ++appended.duplicate_blocks;
      appended.duplicate_bytes += bytes;
      bytes_to_come -= bytes;
      continue;
    }
    if (LastChunkFull()) AddChunk(arena, bytes_to_come);
    blocks_.push_back({block.meta, static_cast<uint32_t>(chunks_.size() - 1),
                       static_cast<uint32_t>(last_chunk_used_)});
    index_.Added(blocks_.size(), id_at);
    CopyIn(arena, pieces.subspan(block.first_piece, block.piece_count), bytes_to_come);
    ++appended.stored_blocks;
    appended.stored_bytes += bytes;
    bytes_to_come -= bytes;
    data_bytes_ += bytes;
  }
  if (blocks_.size() > size_before) run_begins_.push_back(static_cast<uint32_t>(size_before));
  return appended;
}

// bytes_to_come: what is left of the batch for this partition, this block included; it sizes new
// chunks.
void BlockList::CopyIn(Arena& arena, std::span<const ConstBytes> pieces, int64_t bytes_to_come) {
  for (ConstBytes piece : pieces) {
    while (!piece.empty()) {
      if (LastChunkFull()) AddChunk(arena, bytes_to_come);
      const size_t room = chunks_.back()->size() - last_chunk_used_;
      const size_t bytes = std::min(room, piece.size());
      std::memcpy(chunks_.back()->data() + last_chunk_used_, piece.data(), bytes);
      last_chunk_used_ += bytes;
      piece = piece.subspan(bytes);
      bytes_to_come -= static_cast<int64_t>(bytes);
    }
  }
}

// Room for what is known to come, and an eighth of what is there: a partition with one small block
// stays small, a growing one gets few chunks and leaves at most an eighth of itself unused.
void BlockList::AddChunk(Arena& arena, int64_t bytes_to_come) {
  const int64_t wanted = std::max(bytes_to_come, data_bytes_ / 8);
  const auto bytes =
      static_cast<size_t>(std::clamp<int64_t>(wanted, Arena::kCellBytesMin, Arena::kCellBytesMax));
  chunks_.push_back(std::make_shared<ArenaBuffer>(arena, bytes));
  last_chunk_used_ = 0;
}

void BlockList::Prepend(const BlockList& first) {
  BlockList joined;
  joined.blocks_ = first.blocks_;
  joined.run_begins_ = first.run_begins_;
  for (const uint32_t begin : run_begins_) {
    joined.run_begins_.push_back(begin + static_cast<uint32_t>(first.size()));
  }
  joined.chunks_ = first.chunks_;
  const auto shift = static_cast<uint32_t>(first.chunks_.size());
  for (StoredBlock block : blocks_) {
    block.chunk += shift;
    joined.blocks_.push_back(block);
  }
  joined.chunks_.insert(joined.chunks_.end(), chunks_.begin(), chunks_.end());
  joined.data_bytes_ = first.data_bytes_ + data_bytes_;
  // Where nothing was staged the last chunk is the frozen one's: it counts as full, because a late
  // reader of the frozen list may still be about and nothing must be written where it looks.
  joined.last_chunk_used_ = chunks_.empty() ? first.chunks_.back()->size() : last_chunk_used_;
  const auto id_at = [&joined](uint32_t i) { return joined.blocks_[i].meta.block_id; };
  for (size_t count = 1; count <= joined.blocks_.size(); ++count) joined.index_.Added(count, id_at);
  *this = std::move(joined);
}

void BlockList::AppendSlices(size_t i, SliceChain& chain) const {
  size_t chunk = blocks_[i].chunk;
  size_t offset = blocks_[i].offset;
  auto left = static_cast<size_t>(blocks_[i].meta.length);
  while (left > 0) {
    const std::shared_ptr<ArenaBuffer>& buffer = chunks_[chunk];
    const size_t bytes = std::min(left, buffer->size() - offset);
    const std::byte* start = buffer->data() + offset;
    // Neighbours in one chunk become one slice: fewer pieces for the network and the disk.
    ConstBytes* last = chain.empty() ? nullptr : &chain.back().bytes;
    if (last && chain.back().owner == buffer && last->data() + last->size() == start) {
      *last = ConstBytes(last->data(), last->size() + bytes);
    } else {
      chain.push_back(Slice{buffer, ConstBytes(start, bytes)});
    }
    left -= bytes;
    ++chunk;
    offset = 0;
  }
}

}  // namespace dovetail::storage
