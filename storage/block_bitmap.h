// The ids of the blocks that map tasks reported for one partition: a set of 64-bit ids, and the
// bytes in which the Java client reads it (Roaring64NavigableMap, legacy form: docs/protocol.md,
// "Bitmaps"; big-endian high words, each followed by a 32-bit Roaring bitmap in the portable
// format).
//
// Threads: none of its own, no lock; the owner (a Partition) serializes access. Ids come from the
// wire: any int64.
#pragma once

#include <cstdint>
#include <map>
#include <roaring/roaring.hh>
#include <span>
#include <string>

namespace dovetail::storage {

class BlockBitmap {
 public:
  BlockBitmap() = default;
  BlockBitmap(const BlockBitmap&) = default;
  BlockBitmap& operator=(const BlockBitmap&) = default;
  // Moved from, a bitmap is empty.
  BlockBitmap(BlockBitmap&& other) noexcept { Swap(other); }
  BlockBitmap& operator=(BlockBitmap&& other) noexcept;
  ~BlockBitmap() = default;

  // Adds ids; those already there are no error (reports are retried). Returns how many were new.
  // Fastest when the ids ascend.
  int64_t Add(std::span<const int64_t> block_ids);

  // Adds every id of other.
  void Union(const BlockBitmap& other);

  bool Empty() const { return words_.empty(); }
  int64_t Cardinality() const { return cardinality_; }
  bool Contains(int64_t block_id) const;

  // Estimate of the heap bytes held, for the limit on reports: 0 when empty, never below the
  // serialized size. Costs nothing: it is kept up to date by whatever changes the set.
  int64_t MemoryBytes() const { return memory_bytes_; }

  // The Java form; 0 bytes when empty (the client takes that as the empty set). Stretches of
  // consecutive ids are written as runs where that is shorter. The cost grows with the size of the
  // result.
  std::string Serialize() const;

 private:
  void Swap(BlockBitmap& other) noexcept;

  // High 32 bits of an id -> bitmap of its low 32 bits, in unsigned ascending order as Java writes
  // them. None is empty, and none holds run containers (adding to those is slow).
  std::map<uint32_t, Roaring> words_;
  int64_t cardinality_ = 0;
  int64_t memory_bytes_ = 0;
};

}  // namespace dovetail::storage
