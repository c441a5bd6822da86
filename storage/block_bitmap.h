// The ids of the blocks that map tasks reported for one partition: a set of 64-bit ids, and the bytes in which the
// Java client reads it (Roaring64NavigableMap, legacy form: protocol.md 4.8; big-endian high words, each followed by
// a 32-bit Roaring bitmap in the portable format).
//
// Threads: none of its own, no lock; the owner (a Partition) serializes access. Ids come from the wire: any int64.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include <roaring/roaring.hh>

namespace dovetail::storage {

class BlockBitmap {
 public:
  // Adds ids; those already there are no error (reports are retried). Returns how many were new.
  int64_t Add(std::span<const int64_t> block_ids);

  // Adds every id of other.
  void Union(const BlockBitmap& other);

  bool Empty() const { return words_.empty(); }
  int64_t Cardinality() const;
  bool Contains(int64_t block_id) const;

  // Estimate of the heap bytes held, for the limit on reports. Never below the serialized size.
  int64_t MemoryBytes() const;

  // The Java form; 0 bytes when empty (the client takes that as the empty set).
  std::string Serialize() const;

 private:
  // High 32 bits of an id -> bitmap of its low 32 bits, in unsigned ascending order as Java writes them.
  std::map<uint32_t, roaring::Roaring> words_;
};

}  // namespace dovetail::storage
