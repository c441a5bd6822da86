// From block id to its place in a partition's list of blocks, for the duplicate check and for
// paging. Open addressing with 4-byte slots: 5 to 11 bytes a block, part of the 64 that
// accounting charges per block (a node-based map would take that alone). Small lists are searched
// without any table.
//
// Threads: none; guarded by the partition.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/hash.h"

namespace dovetail::storage {

class BlockIndex {
 public:
  // id_at(i) gives the id of block i; the list holds `count` blocks.
  template <class IdAt>
  std::optional<uint32_t> Find(int64_t block_id, size_t count, const IdAt& id_at) const {
    if (slots_.empty()) {
      for (uint32_t i = 0; i < count; ++i) {
        if (id_at(i) == block_id) return i;
      }
      return std::nullopt;
    }
    for (size_t slot = Home(block_id);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot] == kFree) return std::nullopt;
      if (id_at(slots_[slot]) == block_id) return slots_[slot];
    }
  }

  // Takes up the block at position `count - 1`, just added to the list.
  template <class IdAt>
  void Added(size_t count, const IdAt& id_at) {
    if (count <= kUnindexedMax) return;
    if (count * 4 > slots_.size() * 3) {
      slots_.assign(std::bit_ceil(count * 2), kFree);
      for (uint32_t i = 0; i < count; ++i) Insert(id_at(i), i);
    } else {
      Insert(id_at(static_cast<uint32_t>(count - 1)), static_cast<uint32_t>(count - 1));
    }
  }

  void Clear() { std::vector<uint32_t>().swap(slots_); }

 private:
  static constexpr size_t kUnindexedMax = 16;
  static constexpr uint32_t kFree = UINT32_MAX;

  // Every bit of the id moves every bit of the place (ids of one partition differ only in their
  // task and sequence bits), and nobody outside knows the seed: ids that collide cannot be chosen.
  size_t Home(int64_t block_id) const {
    return MixBits(static_cast<uint64_t>(block_id) ^ ProcessHashSeed()) & (slots_.size() - 1);
  }

  void Insert(int64_t block_id, uint32_t position) {
    size_t slot = Home(block_id);
    while (slots_[slot] != kFree) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = position;
  }

  std::vector<uint32_t> slots_;  // power of two, or empty
};

}  // namespace dovetail::storage
