// What the store must remember, kept in plain maps: the oracle of the model test.
//
// The bytes of a block follow from its token, which also is its "crc" field: what is read back is
// checked against the very block that it claims to be, and no two blocks of a run have the same
// bytes.
//
// Threads: none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/clock.h"
#include "storage/block.h"

namespace dovetail::sim {

using storage::BlockMeta;

std::string BytesOf(const BlockMeta& meta);
std::string Flatten(const SliceChain& chain);
bool Same(const BlockMeta& a, const BlockMeta& b);
// What accounting charges for a stored block.
int64_t CostOf(const BlockMeta& meta);

struct PartitionTruth {
  // Every copy that was acknowledged under a block id. More than one: the client sent other bytes
  // under the same id.
  std::map<int64_t, std::vector<BlockMeta>> acked;
  std::set<int64_t> reported;
  std::string index;  // as last read: the log only grows
  bool lost = false;  // a read was made to fail
  bool made = false;  // something came for it

  bool Acked(const BlockMeta& meta) const;
};

struct Ticket {
  int64_t bytes = 0;
  TimePoint deadline;
};

struct SentBlock {
  int32_t partition = 0;
  BlockMeta meta;
};

// One registered life of a shuffle.
struct Life {
  std::string app;
  int32_t shuffle = 0;
  int64_t generation = 0;                        // lives are counted from 1
  std::map<int32_t, PartitionTruth> partitions;  // the registered ones
  std::map<int64_t, Ticket> tickets;
  std::vector<std::vector<SentBlock>> recent;  // batches that were acknowledged, to send again
  int64_t stored_blocks = 0;                   // copies that the store did not drop as duplicates
  bool ended = false;
};

struct AppTruth {
  TimePoint last_seen;
  std::map<int32_t, std::shared_ptr<Life>> shuffles;
};

}  // namespace dovetail::sim
