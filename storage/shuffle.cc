#include "storage/shuffle.h"

#include <algorithm>

#include "engine/base/check.h"

namespace dovetail::storage {

Shuffle::Shuffle(const Shared& shared, int64_t generation)
    : shared_(shared),
      generation_(generation),
      counted_(shared.stats.shuffles),
      tickets_(shared.ticket_ids, shared.stats.tickets) {}

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
  std::unique_ptr<Partition>& slot = partitions_[partition];
  if (!slot) {
    slot = std::make_unique<Partition>(shared_.arena);
    shared_.stats.partitions.fetch_add(1);
    shared_.budget.AddMetadata(kPartitionOverheadBytes);
  }
  return *slot;
}

Partition* Shuffle::Find(int32_t partition) const {
  std::shared_lock lock(mutex_);
  const auto it = partitions_.find(partition);
  return it == partitions_.end() ? nullptr : it->second.get();
}

void Shuffle::Purge() {
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
  for (Partition* partition : partitions) {
    const Partition::Cleared cleared = partition->Clear();
    bytes += cleared.bytes + cleared.blocks * kBlockOverheadBytes;
    shared_.stats.report_bytes.fetch_sub(cleared.report_bytes);
  }
  const auto count = static_cast<int64_t>(partitions.size());
  shared_.stats.partitions.fetch_sub(count);
  shared_.budget.FreeMetadata(count * kPartitionOverheadBytes);
  if (bytes > 0) shared_.budget.Free(bytes);
}

}  // namespace dovetail::storage
