#include "storage/shuffle.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace dovetail::storage {

Shuffle::Shuffle(const Shared& shared, int64_t generation, std::string folder)
    : shared_(shared),
      generation_(generation),
      folder_(std::move(folder)),
      counted_(shared.stats.shuffles),
      tickets_(shared.ticket_ids, shared.stats.tickets) {
  for (int i = 0; i < shared.slots; ++i) slots_.push_back(std::make_unique<Slot>());
}

Shuffle::~Shuffle() { DOVETAIL_CHECK(gate_.closed()); }

Status Shuffle::AddRanges(std::span<const PartitionRange> ranges) {
  std::unique_lock lock(mutex_);
  if (purged_) return Fail(ErrorCode::kNotFound, "shuffle");
  const int64_t before = ranges_.size();
  const Status added = ranges_.Add(ranges);
  shared_.stats.ranges.fetch_add(ranges_.size() - before);
  return added;
}

bool Shuffle::Registered(int32_t partition) const {
  std::shared_lock lock(mutex_);
  return ranges_.Contains(partition);
}

bool Shuffle::Registered(std::span<const int32_t> partitions) const {
  std::shared_lock lock(mutex_);
  return std::ranges::all_of(partitions, [&](int32_t p) { return ranges_.Contains(p); });
}

Partition& Shuffle::At(int32_t partition) {
  if (Partition* found = Find(partition)) return *found;
  std::unique_lock lock(mutex_);
  std::unique_ptr<Partition>& place = partitions_[partition];
  if (!place) {
    place = std::make_unique<Partition>(shared_.arena, partition);
    shared_.stats.partitions.fetch_add(1);
    shared_.budget.AddMetadata(kPartitionOverheadBytes);
  }
  return *place;
}

Partition* Shuffle::Find(int32_t partition) const {
  std::shared_lock lock(mutex_);
  const auto it = partitions_.find(partition);
  return it == partitions_.end() ? nullptr : it->second.get();
}

// Finalizer of splitmix64: every bit of the input moves every bit of the result, so neighbouring
// partitions spread over any number of slots.
int Shuffle::SlotOf(int32_t partition) const {
  uint64_t x =
      static_cast<uint32_t>(partition) + static_cast<uint64_t>(generation_) * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<int>((x ^ (x >> 31)) % slots_.size());
}

Partition::Appended Shuffle::Append(int32_t partition, std::span<const IncomingBlock> blocks,
                                    std::span<const ConstBytes> pieces) {
  Partition& there = At(partition);
  const int slot = SlotOf(partition);
  const Partition::Appended appended =
      there.Append(blocks, pieces, shared_.options.hybrid.memory_single_buffer_max_spill_size);
  slots_[static_cast<size_t>(slot)]->staged_bytes.fetch_add(appended.stored_bytes);
  if (appended.became_flushable) List(slot, &there);
  if (appended.became_large) ListFirst(there);
  return appended;
}

void Shuffle::List(int slot, Partition* partition) {
  Slot& of = *slots_[static_cast<size_t>(slot)];
  std::lock_guard lock(of.mutex);
  of.flushable.push_back(partition);
}

void Shuffle::ListFirst(Partition& partition) {
  Slot& of = *slots_[static_cast<size_t>(SlotOf(partition.id()))];
  std::lock_guard lock(of.mutex);
  of.flushable.push_front(&partition);
}

int64_t Shuffle::flushable_bytes(int slot) const {
  const Slot& of = *slots_[static_cast<size_t>(slot)];
  return of.staged_bytes.load() - of.requested_bytes.load();
}

int64_t Shuffle::flushable_bytes() const {
  int64_t bytes = 0;
  for (int slot = 0; slot < static_cast<int>(slots_.size()); ++slot) bytes += flushable_bytes(slot);
  return bytes;
}

bool Shuffle::RequestFlush(Disk& disk, int slot, int64_t bytes,
                           std::function<void(int64_t)> settled) {
  Slot& of = *slots_[static_cast<size_t>(slot)];
  std::shared_ptr<SegmentLog> log;
  {
    std::lock_guard lock(logs_mutex_);
    if (!logs_closed_) {
      std::shared_ptr<SegmentLog>& place = logs_[{disk.index(), slot}];
      if (!place) {
        place =
            std::make_shared<SegmentLog>(SegmentLog::Place{.disk = &disk,
                                                           .shard = slot % disk.engine().shards(),
                                                           .slot = slot,
                                                           .folder = folder_},
                                         shared_.options.local_file, shared_from_this());
      }
      log = place;
    }
  }
  if (!log) return false;
  of.requested_bytes.fetch_add(bytes);
  log->Want(bytes, [self = shared_from_this(), &of, settled = std::move(settled)](int64_t part) {
    of.requested_bytes.fetch_sub(part);
    settled(part);
  });
  return true;
}

std::vector<FlushSource::Batch> Shuffle::FreezeSome(int slot, int64_t bytes_max) {
  Slot& of = *slots_[static_cast<size_t>(slot)];
  std::vector<Batch> batches;
  int64_t bytes = 0;
  while (bytes < bytes_max) {
    Partition* partition = nullptr;
    {
      std::lock_guard lock(of.mutex);
      if (of.flushable.empty()) break;
      partition = of.flushable.front();
      of.flushable.pop_front();
    }
    std::optional<Partition::FrozenBatch> frozen = partition->Freeze();
    if (!frozen) continue;
    const int64_t frozen_bytes = frozen->blocks->data_bytes();
    of.staged_bytes.fetch_sub(frozen_bytes);
    shared_.stats.frozen_bytes.fetch_add(frozen_bytes);
    bytes += frozen_bytes;
    batches.push_back({partition, std::move(*frozen)});
  }
  return batches;
}

void Shuffle::OnCommitted(int slot, std::vector<Batch>& batches, std::vector<Extent> extents) {
  // Counted before they are visible: a purge gives back what it finds.
  shared_.stats.extents.fetch_add(static_cast<int64_t>(batches.size()));
  shared_.budget.AddMetadata(static_cast<int64_t>(batches.size()) * kExtentOverheadBytes);
  int64_t ended = 0;
  int64_t freed = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    Batch& batch = batches[i];
    const BlockList& blocks = *batch.frozen.blocks;
    const auto count = static_cast<int64_t>(blocks.size());
    const int64_t bytes = blocks.data_bytes();
    const Partition::Settled settled = batch.partition->Commit(batch.frozen, std::move(extents[i]));
    if (settled.ended) {
      ++ended;
    } else {
      shared_.stats.flushed_blocks_total.fetch_add(count);
      shared_.stats.flushed_bytes_total.fetch_add(bytes);
    }
    if (settled.flushable) List(slot, batch.partition);
    freed += bytes + count * kBlockOverheadBytes;
    shared_.stats.frozen_bytes.fetch_sub(bytes);
    batch.frozen.blocks.reset();
  }
  shared_.stats.extents.fetch_sub(ended);
  shared_.budget.FreeMetadata(ended * kExtentOverheadBytes);
  shared_.budget.Free(freed);
  shared_.on_flush_ended();
}

void Shuffle::OnFailed(int slot, std::vector<Batch>& batches) {
  int64_t freed = 0;
  for (Batch& batch : batches) {
    const auto count = static_cast<int64_t>(batch.frozen.blocks->size());
    const int64_t bytes = batch.frozen.blocks->data_bytes();
    const Partition::Settled settled = batch.partition->Unfreeze(batch.frozen);
    if (settled.ended) freed += bytes + count * kBlockOverheadBytes;
    if (settled.flushable) {
      slots_[static_cast<size_t>(slot)]->staged_bytes.fetch_add(bytes);
      List(slot, batch.partition);
    }
    shared_.stats.frozen_bytes.fetch_sub(bytes);
    batch.frozen.blocks.reset();
  }
  if (freed > 0) shared_.budget.Free(freed);
  shared_.on_flush_ended();
}

void Shuffle::Purge(std::function<void()> removed) {
  DOVETAIL_CHECK(gate_.closed());
  const TicketTable::Dropped tickets = tickets_.TakeAll();
  if (tickets.bytes > 0) shared_.budget.ReturnPromise(tickets.bytes);

  // The objects stay until the last reader lets go of the shuffle; only what they hold goes now.
  std::vector<Partition*> partitions;
  {
    std::unique_lock lock(mutex_);
    purged_ = true;
    partitions.reserve(partitions_.size());
    for (const auto& entry : partitions_) partitions.push_back(entry.second.get());
    shared_.stats.ranges.fetch_sub(ranges_.size());
    ranges_ = PartitionRanges();
  }
  int64_t bytes = 0;
  int64_t extents = 0;
  for (Partition* partition : partitions) {
    const Partition::Cleared cleared = partition->Clear();
    bytes += cleared.staged_bytes + cleared.staged_blocks * kBlockOverheadBytes;
    shared_.stats.report_bytes.fetch_sub(cleared.report_bytes);
    extents += cleared.extents;
  }
  const auto count = static_cast<int64_t>(partitions.size());
  shared_.stats.partitions.fetch_sub(count);
  shared_.stats.extents.fetch_sub(extents);
  shared_.budget.FreeMetadata(count * kPartitionOverheadBytes + extents * kExtentOverheadBytes);
  if (bytes > 0) shared_.budget.Free(bytes);

  std::map<std::pair<int, int>, std::shared_ptr<SegmentLog>> logs;
  {
    std::lock_guard lock(logs_mutex_);
    logs_closed_ = true;
    logs.swap(logs_);
  }
  if (logs.empty()) return removed();
  auto left = std::make_shared<std::atomic<size_t>>(logs.size());
  for (auto& entry : logs) {
    entry.second->Close([left, removed] {
      if (left->fetch_sub(1) == 1) removed();
    });
  }
}

}  // namespace dovetail::storage
