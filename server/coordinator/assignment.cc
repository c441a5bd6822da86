#include "server/coordinator/assignment.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/check.h"

namespace dovetail::server {

// Adjacent partitions are worked on at about the same time, so a block is as large as keeps all
// servers busy with one wave of tasks: smaller would give a reader of neighbours more servers to
// ask, larger would leave servers idle. Not knowing the wave, ranges go round one by one.
Assignment::Assignment(const AssignmentShape& shape, std::vector<ServerIdentity> servers)
    : shape_(shape), servers_(std::move(servers)) {
  const auto count = static_cast<int64_t>(servers_.size());
  DOVETAIL_CHECK(shape.partitions >= 1 && shape.partitions_per_range >= 1);
  DOVETAIL_CHECK(shape.replicas >= 1 && shape.replicas <= count);
  const int64_t per_range = shape.partitions_per_range;
  ranges_ = (shape.partitions + per_range - 1) / per_range;
  const int64_t wave = std::clamp(shape.task_concurrency, 0, shape.partitions);
  block_ = std::max<int64_t>(1, wave / (count * per_range));
  whole_rounds_ = ranges_ / (block_ * count) * (block_ * count);
}

int32_t Assignment::FirstPartition(int64_t range) const {
  DOVETAIL_CHECK(range >= 0 && range < ranges_);
  return static_cast<int32_t>(range * shape_.partitions_per_range);
}

int32_t Assignment::LastPartition(int64_t range) const {
  const int64_t last = int64_t{FirstPartition(range)} + shape_.partitions_per_range - 1;
  return static_cast<int32_t>(std::min<int64_t>(last, std::numeric_limits<int32_t>::max()));
}

size_t Assignment::ServerIndex(int64_t range, int32_t replica) const {
  DOVETAIL_CHECK(range >= 0 && range < ranges_);
  DOVETAIL_CHECK(replica >= 0 && replica < shape_.replicas);
  const auto count = static_cast<int64_t>(servers_.size());
  // What is left for a round that does not fill is spread over all servers all the same.
  const int64_t turn = range < whole_rounds_
                           ? range / block_
                           : (range - whole_rounds_) * count / (ranges_ - whole_rounds_);
  return static_cast<size_t>((turn + replica) % count);
}

}  // namespace dovetail::server
