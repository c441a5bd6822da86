#include "storage/partition.h"

#include <algorithm>
#include <cstring>

#include "engine/base/check.h"

namespace dovetail::storage {
namespace {

int64_t DataBytes(std::span<const IncomingBlock> blocks) {
  int64_t bytes = 0;
  for (const IncomingBlock& block : blocks) bytes += block.meta.length;
  return bytes;
}

}  // namespace

Partition::Appended Partition::Append(std::span<const IncomingBlock> blocks,
                                      std::span<const ConstBytes> pieces) {
  Appended appended;
  std::lock_guard lock(blocks_mutex_);
  const auto id_at = [this](uint32_t i) { return blocks_[i].meta.block_id; };
  int64_t bytes_to_come = DataBytes(blocks);
  for (const IncomingBlock& block : blocks) {
    const int64_t bytes = block.meta.length;
    if (index_.Find(block.meta.block_id, blocks_.size(), id_at)) {
      ++appended.duplicate_blocks;
      appended.duplicate_bytes += bytes;
      bytes_to_come -= bytes;
      continue;
    }
    if (chunks_.empty() || last_chunk_used_ == chunks_.back()->size()) AddChunk(bytes_to_come);
    StoredBlock stored{block.meta, static_cast<uint32_t>(chunks_.size() - 1),
                       static_cast<uint32_t>(last_chunk_used_)};
    CopyIn(pieces.subspan(block.first_piece, block.piece_count), bytes_to_come);
    blocks_.push_back(stored);
    index_.Added(blocks_.size(), id_at);
    ++appended.stored_blocks;
    appended.stored_bytes += bytes;
    bytes_to_come -= bytes;
    data_bytes_ += bytes;
  }
  return appended;
}

// bytes_to_come: what is left of the batch for this partition, this block included; it sizes new
// chunks.
void Partition::CopyIn(std::span<const ConstBytes> pieces, int64_t bytes_to_come) {
  for (ConstBytes piece : pieces) {
    while (!piece.empty()) {
      if (last_chunk_used_ == chunks_.back()->size()) AddChunk(bytes_to_come);
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
void Partition::AddChunk(int64_t bytes_to_come) {
  const int64_t wanted = std::max(bytes_to_come, data_bytes_ / 8);
  const auto bytes =
      static_cast<size_t>(std::clamp<int64_t>(wanted, Arena::kCellBytesMin, Arena::kCellBytesMax));
  chunks_.push_back(std::make_shared<ArenaBuffer>(arena_, bytes));
  last_chunk_used_ = 0;
}

Partition::Selection Partition::Select(const PageRequest& request) const {
  Selection selection;
  size_t next = 0;
  if (request.last_block_id != -1) {
    const auto id_at = [this](uint32_t i) { return blocks_[i].meta.block_id; };
    const auto last = index_.Find(request.last_block_id, blocks_.size(), id_at);
    if (last) next = *last + 1;
  }
  for (; next < blocks_.size(); ++next) {
    const BlockMeta& meta = blocks_[next].meta;
    if (request.filter && !request.filter->Contains(meta.task_attempt_id)) continue;
    if (selection.bytes >= request.bytes_soft_max) return selection;
    if (selection.blocks.size() >= kPageBlocksMax) return selection;
    if (meta.length + kSegmentBytes > request.bytes_hard_max - selection.cost()) return selection;
    selection.blocks.push_back(static_cast<uint32_t>(next));
    selection.bytes += meta.length;
  }
  selection.is_end = true;
  return selection;
}

int64_t Partition::PageBytes(const PageRequest& request) const {
  std::lock_guard lock(blocks_mutex_);
  return Select(request).cost();
}

MemoryPage Partition::ReadPage(const PageRequest& request) const {
  std::lock_guard lock(blocks_mutex_);
  const Selection selection = Select(request);
  MemoryPage page;
  page.is_end = selection.is_end;
  page.blocks.reserve(selection.blocks.size());
  for (uint32_t i : selection.blocks) {
    page.blocks.push_back(PageBlock{blocks_[i].meta, page.data_bytes});
    AppendSlices(blocks_[i], page);
  }
  DOVETAIL_CHECK(page.data_bytes == selection.bytes);
  CopyWhatPinsTooMuch(page);
  return page;
}

void Partition::AppendSlices(const StoredBlock& block, MemoryPage& page) const {
  size_t chunk = block.chunk;
  size_t offset = block.offset;
  auto left = static_cast<size_t>(block.meta.length);
  while (left > 0) {
    const std::shared_ptr<ArenaBuffer>& buffer = chunks_[chunk];
    const size_t bytes = std::min(left, buffer->size() - offset);
    const std::byte* start = buffer->data() + offset;
    // Neighbours in one chunk become one slice: fewer pieces for the network.
    if (!page.data.empty() && page.data.back().owner == buffer &&
        page.data.back().bytes.data() + page.data.back().bytes.size() == start) {
      page.data.back().bytes =
          ConstBytes(page.data.back().bytes.data(), page.data.back().bytes.size() + bytes);
    } else {
      page.data.push_back(Slice{buffer, ConstBytes(start, bytes)});
    }
    page.data_bytes += static_cast<int64_t>(bytes);
    left -= bytes;
    ++chunk;
    offset = 0;
  }
}

// A slice keeps its whole chunk alive, also when the shuffle is gone: few blocks out of many chunks
// would hold memory that nobody counts. Such a page is copied together; what any page holds is then
// at most twice what it was granted.
void Partition::CopyWhatPinsTooMuch(MemoryPage& page) const {
  int64_t pinned = 0;
  const void* last = nullptr;
  for (const Slice& slice : page.data) {
    if (slice.owner.get() == last) continue;
    last = slice.owner.get();
    pinned += static_cast<int64_t>(static_cast<const ArenaBuffer*>(last)->size());
  }
  if (pinned <= 2 * page.data_bytes) return;
  SliceChain compact;
  int64_t left = page.data_bytes;
  std::shared_ptr<ArenaBuffer> buffer;
  size_t used = 0;
  for (const Slice& slice : page.data) {
    ConstBytes bytes = slice.bytes;
    while (!bytes.empty()) {
      if (!buffer || used == buffer->size()) {
        const auto size = std::min<int64_t>(left, Arena::kCellBytesMax);
        buffer = std::make_shared<ArenaBuffer>(arena_, static_cast<size_t>(size));
        compact.push_back({buffer, ConstBytes(buffer->data(), 0)});
        used = 0;
      }
      const size_t part = std::min(bytes.size(), buffer->size() - used);
      std::memcpy(buffer->data() + used, bytes.data(), part);
      used += part;
      left -= static_cast<int64_t>(part);
      compact.back().bytes = ConstBytes(buffer->data(), used);
      bytes = bytes.subspan(part);
    }
  }
  page.data = std::move(compact);
}

int64_t Partition::report_bytes() const {
  std::lock_guard lock(reports_mutex_);
  return report_bytes_;
}

int64_t Partition::Report(std::span<const int64_t> block_ids) {
  std::lock_guard lock(reports_mutex_);
  reports_.Add(block_ids);
  const int64_t before = report_bytes_;
  report_bytes_ = reports_.MemoryBytes();
  return report_bytes_ - before;
}

void Partition::CollectReports(BlockBitmap& into) const {
  std::lock_guard lock(reports_mutex_);
  into.Union(reports_);
}

Partition::Cleared Partition::Clear() {
  Cleared cleared;
  std::vector<std::shared_ptr<ArenaBuffer>> chunks;  // freed outside the lock
  BlockBitmap reports;
  {
    std::lock_guard lock(blocks_mutex_);
    cleared.blocks = static_cast<int64_t>(blocks_.size());
    cleared.bytes = data_bytes_;
    std::vector<StoredBlock>().swap(blocks_);
    index_.Clear();
    chunks.swap(chunks_);
    last_chunk_used_ = 0;
    data_bytes_ = 0;
  }
  std::lock_guard lock(reports_mutex_);
  std::swap(reports, reports_);
  cleared.report_bytes = report_bytes_;
  report_bytes_ = 0;
  return cleared;
}

}  // namespace dovetail::storage
