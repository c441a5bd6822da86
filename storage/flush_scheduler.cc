#include "storage/flush_scheduler.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "storage/shuffle.h"

namespace dovetail::storage {
namespace {

int CountSlots(const std::vector<Disk*>& disks) {
  int slots = 0;
  for (Disk* disk : disks) slots += disk->engine().shards();
  return std::max(slots, 1);
}

}  // namespace

FlushScheduler::FlushScheduler(Inputs inputs, const StoreOptions& options)
    : inputs_(std::move(inputs)),
      slots_(CountSlots(inputs_.disks)),
      high_bytes_(static_cast<int64_t>(static_cast<double>(inputs_.budget.capacity_bytes()) *
                                       options.hybrid.memory_spill_high_watermark)),
      low_bytes_(static_cast<int64_t>(static_cast<double>(inputs_.budget.capacity_bytes()) *
                                      options.hybrid.memory_spill_low_watermark)),
      disk_bytes_max_(options.local_file.flush_bytes_in_flight_max),
      requested_bytes_by_disk_(inputs_.disks.size()) {}

// How much has to be asked for now, on top of what is asked for or under way.
int64_t FlushScheduler::TargetLocked() {
  const MemoryBudget::Figures figures = inputs_.budget.figures();
  const int64_t staying = figures.used_bytes - inputs_.frozen_bytes() - requested_bytes_;
  int64_t target = 0;
  if (staying > high_bytes_) target = staying - low_bytes_;
  const int64_t wanted = std::max(refused_bytes_, inputs_.waiting_bytes());
  if (wanted > 0) {
    const int64_t capacity = inputs_.budget.capacity_bytes();
    if (figures.total_bytes() + wanted <= capacity) refused_bytes_ = 0;
    const int64_t room = capacity - figures.promised_bytes - figures.metadata_bytes - staying;
    target = std::max(target, wanted - room);
  }
  return target;
}

void FlushScheduler::Evaluate() {
  if (!CanFlush()) return;
  std::lock_guard lock(mutex_);
  int64_t target = TargetLocked();
  if (target <= 0) return;
  // Their bytes change all the time, and what sorts must not change meanwhile: asked once.
  std::vector<std::pair<int64_t, std::shared_ptr<Shuffle>>> largest_first;
  for (std::shared_ptr<Shuffle>& shuffle : inputs_.shuffles()) {
    const int64_t bytes = shuffle->flushable_bytes();
    largest_first.emplace_back(bytes, std::move(shuffle));
  }
  std::ranges::sort(largest_first, [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [bytes, shuffle] : largest_first) {
    // An equal part of every slot, so that all shards have work; then what is still missing.
    for (const int64_t part : {target / slots_ + 1, target}) {
      for (int slot = 0; slot < slots_ && target > 0; ++slot) {
        target -= RequestLocked(shuffle, slot, std::min(part, target));
      }
    }
    if (target <= 0) return;
  }
}

void FlushScheduler::OnRefused(int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    refused_bytes_ = std::max(refused_bytes_, bytes);
  }
  Evaluate();
}

void FlushScheduler::FlushSlot(const std::shared_ptr<Shuffle>& shuffle, int slot, int64_t bytes) {
  if (!CanFlush()) return;
  std::lock_guard lock(mutex_);
  RequestLocked(shuffle, slot, bytes);
}

Disk* FlushScheduler::DiskOfLocked(int slot) {
  const auto count = static_cast<int>(inputs_.disks.size());
  const int home = slot % count;
  for (int i = 0; i < count; ++i) {
    Disk* disk = inputs_.disks[static_cast<size_t>((home + i) % count)];
    if (disk->usable()) return disk;
  }
  return nullptr;
}

int64_t FlushScheduler::RequestLocked(const std::shared_ptr<Shuffle>& shuffle, int slot,
                                      int64_t bytes_max) {
  const int64_t bytes = std::min(bytes_max, shuffle->flushable_bytes(slot));
  if (bytes <= 0) return 0;
  Disk* disk = DiskOfLocked(slot);
  if (!disk) return 0;
  int64_t& on_disk = requested_bytes_by_disk_[static_cast<size_t>(disk->index())];
  if (on_disk + disk->stats().flush_bytes_in_flight.load() >= disk_bytes_max_) return 0;
  const bool asked = shuffle->RequestFlush(
      *disk, slot, bytes, [this, disk](int64_t settled) { OnSettled(disk, settled); });
  if (!asked) return 0;
  // Settling happens on a strand and waits for this mutex.
  on_disk += bytes;
  requested_bytes_ += bytes;
  return bytes;
}

void FlushScheduler::OnSettled(Disk* disk, int64_t bytes) {
  std::lock_guard lock(mutex_);
  int64_t& on_disk = requested_bytes_by_disk_[static_cast<size_t>(disk->index())];
  DOVETAIL_CHECK(bytes <= on_disk && bytes <= requested_bytes_);
  on_disk -= bytes;
  requested_bytes_ -= bytes;
}

}  // namespace dovetail::storage
