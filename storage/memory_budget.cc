#include "storage/memory_budget.h"

#include "engine/base/check.h"

namespace dovetail::storage {

MemoryBudget::~MemoryBudget() {
  DOVETAIL_CHECK(figures_.promised_bytes == 0 && figures_.used_bytes == 0 &&
                 figures_.metadata_bytes == 0);
}

bool MemoryBudget::TryPromise(int64_t bytes) {
  DOVETAIL_CHECK(bytes > 0);
  std::lock_guard lock(mutex_);
  // Ordered so that no sum of hostile sizes can overflow.
  if (bytes > capacity_bytes_ - figures_.total_bytes()) return false;
  figures_.promised_bytes += bytes;
  return true;
}

void MemoryBudget::ReturnPromise(int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    DOVETAIL_CHECK(bytes >= 0 && bytes <= figures_.promised_bytes);
    figures_.promised_bytes -= bytes;
  }
  Changed();
}

void MemoryBudget::Redeem(int64_t promised_bytes, int64_t used_bytes) {
  {
    std::lock_guard lock(mutex_);
    DOVETAIL_CHECK(promised_bytes >= 0 && promised_bytes <= figures_.promised_bytes);
    DOVETAIL_CHECK(used_bytes >= 0);
    figures_.promised_bytes -= promised_bytes;
    figures_.used_bytes += used_bytes;
  }
  if (used_bytes < promised_bytes) Changed();
}

void MemoryBudget::Free(int64_t used_bytes) {
  {
    std::lock_guard lock(mutex_);
    DOVETAIL_CHECK(used_bytes >= 0 && used_bytes <= figures_.used_bytes);
    figures_.used_bytes -= used_bytes;
  }
  Changed();
}

void MemoryBudget::AddMetadata(int64_t bytes) {
  std::lock_guard lock(mutex_);
  DOVETAIL_CHECK(bytes >= 0);
  figures_.metadata_bytes += bytes;
}

void MemoryBudget::FreeMetadata(int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    DOVETAIL_CHECK(bytes >= 0 && bytes <= figures_.metadata_bytes);
    figures_.metadata_bytes -= bytes;
  }
  Changed();
}

MemoryBudget::Figures MemoryBudget::figures() const {
  std::lock_guard lock(mutex_);
  return figures_;
}

void MemoryBudget::Changed() {
  if (on_room_) on_room_();
}

}  // namespace dovetail::storage
