// The partitions that a shuffle registered on this server: a set of inclusive ranges, neighbours
// merged. Registering 100,000 single partitions one by one ends as one range, so a range costs
// nothing until data comes.
//
// Threads: no lock of its own; the Shuffle guards it. Input comes from the wire and is checked
// here.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "engine/base/result.h"

namespace dovetail::storage {

struct PartitionRange {
  int32_t start = 0;
  int32_t end = 0;  // inclusive
};

class PartitionRanges {
 public:
  // Separate ranges that one shuffle may have after merging.
  static constexpr size_t kRangesMax = 1 << 20;

  // kInvalid for start < 0 or end < start, kBusy past kRangesMax; nothing is added then.
  Status Add(std::span<const PartitionRange> ranges);
  bool Contains(int32_t partition) const;
  // Separate ranges after merging.
  int64_t size() const { return static_cast<int64_t>(end_by_start_.size()); }

 private:
  void AddOne(PartitionRange range);

  std::map<int32_t, int32_t> end_by_start_;
};

}  // namespace dovetail::storage
