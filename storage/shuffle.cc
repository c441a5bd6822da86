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
  return ranges_.Add(ranges);
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
    std::shared_lock lock(mutex_);
    partitions.reserve(partitions_.size());
    for (const auto& entry : partitions_) partitions.push_back(entry.second.get());
  }
  int64_t bytes = 0;
  for (Partition* partition : partitions) {
    const Partition::Cleared cleared = partition->Clear();
    bytes += cleared.bytes + cleared.blocks * kBlockOverheadBytes;
    shared_.stats.report_bytes.fetch_sub(cleared.report_bytes);
  }
  shared_.stats.partitions.fetch_sub(static_cast<int64_t>(partitions.size()));
  if (bytes > 0) shared_.budget.Free(bytes);
}

}  // namespace dovetail::storage
