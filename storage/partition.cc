#include "storage/partition.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/check.h"

namespace dovetail::storage {

Partition::Appended Partition::Append(std::span<const IncomingBlock> blocks,
                                      std::span<const ConstBytes> pieces, int64_t large_bytes) {
  Appended appended;
  std::lock_guard lock(mutex_);
  static_cast<BlockList::Appended&>(appended) =
      staging_.Append(arena_, blocks, pieces, frozen_.get());
  appended.staged_bytes = staging_.data_bytes();
  if (!listed_ && !frozen_ && !staging_.empty()) {
    listed_ = true;
    appended.became_flushable = true;
  }
  if (large_bytes > 0 && !large_ && !frozen_ && staging_.data_bytes() > large_bytes) {
    large_ = true;
    appended.became_large = true;
  }
  return appended;
}

bool Partition::Selection::Take(const BlockList& list, uint32_t block, const PageRequest& request) {
  const BlockMeta& meta = list.meta(block);
  if (request.filter && !request.filter->Contains(meta.task_attempt_id)) return true;
  if (bytes >= request.bytes_soft_max || blocks.size() >= kPageBlocksMax) return false;
  if (meta.length + kSegmentBytes > request.bytes_hard_max - cost()) return false;
  blocks.emplace_back(&list, block);
  bytes += meta.length;
  return true;
}

Partition::Selection Partition::Select(const PageRequest& request) const {
  const BlockList* lists[] = {&staging_, frozen_.get()};
  size_t list = 0;
  int64_t last = -1;  // the block that the page goes on behind; -1: from the list's first run on
  for (size_t i = 0; request.last_block_id != -1 && last < 0 && i < 2; ++i) {
    const auto found = lists[i] ? lists[i]->Find(request.last_block_id) : std::nullopt;
    if (!found) continue;
    last = *found;
    list = i;
  }
  Selection selection;
  for (; list < 2; ++list) {
    if (!lists[list]) continue;
    const BlockList& blocks = *lists[list];
    size_t run = last < 0 ? blocks.run_count() : blocks.RunOf(static_cast<uint32_t>(last)) + 1;
    for (; run > 0; --run, last = -1) {
      const BlockList::Run range = blocks.run(run - 1);
      for (uint32_t i = last < 0 ? range.begin : static_cast<uint32_t>(last) + 1; i < range.end;
           ++i) {
        if (!selection.Take(blocks, i, request)) return selection;
      }
    }
  }
  selection.is_end = true;
  return selection;
}

int64_t Partition::PageBytes(const PageRequest& request) const {
  std::lock_guard lock(mutex_);
  return Select(request).cost();
}

MemoryPage Partition::ReadPage(const PageRequest& request) const {
  std::lock_guard lock(mutex_);
  const Selection selection = Select(request);
  MemoryPage page;
  page.is_end = selection.is_end;
  page.blocks.reserve(selection.blocks.size());
  for (const auto& [list, i] : selection.blocks) {
    page.blocks.push_back(PageBlock{list->meta(i), page.data_bytes});
    list->AppendSlices(i, page.data);
    page.data_bytes += list->meta(i).length;
  }
  DOVETAIL_CHECK(page.data_bytes == selection.bytes);
  CopyWhatPinsTooMuch(page);
  return page;
}

std::optional<Partition::FrozenBatch> Partition::Freeze() {
  std::lock_guard lock(mutex_);
  listed_ = false;
  if (frozen_ || staging_.empty()) return std::nullopt;
  frozen_ = std::make_shared<const BlockList>(std::move(staging_));
  staging_ = BlockList();
  large_ = false;
  return FrozenBatch{frozen_, committed_bytes_};
}

Partition::Settled Partition::Commit(const FrozenBatch& batch, Extent extent) {
  std::lock_guard lock(mutex_);
  if (frozen_ != batch.blocks) return {.ended = true};
  DOVETAIL_CHECK(extent.logical_offset == committed_bytes_ &&
                 extent.data_bytes == frozen_->data_bytes());
  committed_bytes_ = extent.logical_end();
  extents_.push_back(std::move(extent));
  frozen_.reset();
  listed_ = !staging_.empty();
  return {.flushable = listed_};
}

Partition::Settled Partition::Unfreeze(const FrozenBatch& batch) {
  std::lock_guard lock(mutex_);
  if (frozen_ != batch.blocks) return {.ended = true};
  staging_.Prepend(*frozen_);
  frozen_.reset();
  listed_ = true;
  return {.flushable = true};
}

std::vector<Extent> Partition::extents() const {
  std::lock_guard lock(mutex_);
  return extents_;
}

int64_t Partition::committed_bytes() const {
  std::lock_guard lock(mutex_);
  return committed_bytes_;
}

void Partition::MarkLost() {
  std::lock_guard lock(mutex_);
  lost_ = true;
}

bool Partition::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
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
  BlockList staging;  // freed outside the lock
  std::shared_ptr<const BlockList> frozen;
  std::vector<Extent> extents;
  {
    std::lock_guard lock(mutex_);
    std::swap(staging, staging_);
    frozen.swap(frozen_);
    extents.swap(extents_);
    listed_ = false;
    committed_bytes_ = 0;
  }
  cleared.staged_blocks = static_cast<int64_t>(staging.size());
  cleared.staged_bytes = staging.data_bytes();
  cleared.extents = static_cast<int64_t>(extents.size());
  BlockBitmap reports;
  std::lock_guard lock(reports_mutex_);
  std::swap(reports, reports_);
  cleared.report_bytes = report_bytes_;
  report_bytes_ = 0;
  return cleared;
}

}  // namespace dovetail::storage
