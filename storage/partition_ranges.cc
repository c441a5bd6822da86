#include "storage/partition_ranges.h"

#include <algorithm>
#include <iterator>

namespace dovetail::storage {

Status PartitionRanges::Add(std::span<const PartitionRange> ranges) {
  for (const PartitionRange& range : ranges) {
    if (range.start < 0 || range.end < range.start) return Fail(ErrorCode::kInvalid, "range");
  }
  if (end_by_start_.size() + ranges.size() > kRangesMax) {
    // Most of them usually merge: find out on a copy, so that a refusal changes nothing.
    PartitionRanges merged = *this;
    for (const PartitionRange& range : ranges) {
      merged.AddOne(range);
      if (merged.end_by_start_.size() > kRangesMax)
        return Fail(ErrorCode::kBusy, "partition ranges");
    }
    end_by_start_.swap(merged.end_by_start_);
    return {};
  }
  for (const PartitionRange& range : ranges) AddOne(range);
  return {};
}

void PartitionRanges::AddOne(PartitionRange range) {
  // 64 bits, so that "one after the end" exists for the largest partition too.
  int64_t start = range.start;
  int64_t end = range.end;
  auto next = end_by_start_.upper_bound(range.start);
  if (next != end_by_start_.begin()) {
    const auto previous = std::prev(next);
    if (int64_t{previous->second} + 1 >= start) {
      start = previous->first;
      end = std::max(end, int64_t{previous->second});
      next = end_by_start_.erase(previous);
    }
  }
  while (next != end_by_start_.end() && next->first <= end + 1) {
    end = std::max(end, int64_t{next->second});
    next = end_by_start_.erase(next);
  }
  end_by_start_.emplace_hint(next, static_cast<int32_t>(start), static_cast<int32_t>(end));
}

bool PartitionRanges::Contains(int32_t partition) const {
  auto it = end_by_start_.upper_bound(partition);
  if (it == end_by_start_.begin()) return false;
  return std::prev(it)->second >= partition;
}

}  // namespace dovetail::storage
