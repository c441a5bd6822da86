#include "tests/sim/truth.h"

#include <algorithm>
#include <cstring>

#include "storage/memory_budget.h"

namespace dovetail::sim {

std::string BytesOf(const BlockMeta& meta) {
  const auto length = static_cast<size_t>(meta.length);
  std::string bytes((length + 7) / 8 * 8, '\0');
  uint64_t word = static_cast<uint64_t>(meta.crc);
  for (size_t at = 0; at < bytes.size(); at += 8) {
    word = word * 0x9E3779B97F4A7C15ULL + 0xD1B54A32D192ED03ULL;
    const uint64_t mixed = word ^ (word >> 29);
    std::memcpy(bytes.data() + at, &mixed, 8);
  }
  bytes.resize(length);
  return bytes;
}

std::string Flatten(const SliceChain& chain) {
  std::string all;
  for (const Slice& slice : chain) {
    all.append(reinterpret_cast<const char*>(slice.bytes.data()), slice.bytes.size());
  }
  return all;
}

bool Same(const BlockMeta& a, const BlockMeta& b) {
  return a.block_id == b.block_id && a.crc == b.crc && a.task_attempt_id == b.task_attempt_id &&
         a.length == b.length && a.uncompress_length == b.uncompress_length;
}

int64_t CostOf(const BlockMeta& meta) { return meta.length + storage::kBlockOverheadBytes; }

bool PartitionTruth::Acked(const BlockMeta& meta) const {
  const auto found = acked.find(meta.block_id);
  return found != acked.end() &&
         std::ranges::any_of(found->second, [&](const auto& copy) { return Same(copy, meta); });
}

}  // namespace dovetail::sim
