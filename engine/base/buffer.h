// Shared read-only bytes with an owner. A Slice keeps the memory under it alive for as long as it
// lives, whatever happens meanwhile to the partition that the bytes came from: a reply on its way
// to the network needs nothing else.
//
// Threads: a Slice is a value; the bytes under it never change once a Slice on them exists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/arena.h"

namespace dovetail {

using ConstBytes = std::span<const std::byte>;

struct Slice {
  std::shared_ptr<const void> owner;
  ConstBytes bytes;
};

using SliceChain = std::vector<Slice>;

// One arena cell, freed with its last owner. Writable by the one who made it, and only beyond what
// slices cover.
class ArenaBuffer {
 public:
  ArenaBuffer(Arena& arena, size_t bytes) : arena_(arena), cell_(arena.Allocate(bytes)) {}
  ~ArenaBuffer() { arena_.Free(cell_); }
  ArenaBuffer(const ArenaBuffer&) = delete;
  ArenaBuffer& operator=(const ArenaBuffer&) = delete;

  std::byte* data() const { return cell_.data; }
  size_t size() const { return cell_.size; }

 private:
  Arena& arena_;
  const Arena::Cell cell_;
};

}  // namespace dovetail
