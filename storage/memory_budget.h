// The bytes that block data may take: capacity = promised (tickets) + used (stored blocks) +
// metadata (partitions that exist) + free.
//
// A ticket promises length + 32 a block (the client's figure), a stored block uses length + 64
// (what it costs us), so redeeming may take `used` over the capacity by 32 bytes a block of
// accepted sends; promises are refused until it is back. Nothing is ever clamped: a sum that would
// go below zero is a bug and ends the process.
//
// Threads: any. on_room runs after bytes were given back, on the thread that gave them back,
// without any lock.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

namespace dovetail::storage {

// What one stored block costs beside its data: its index entry, its slot in the duplicate check and
// the rounding.
inline constexpr int64_t kBlockOverheadBytes = 64;
// What the client adds per block when it computes requireSize (docs/protocol.md, "Tickets").
inline constexpr int64_t kTicketOverheadBytes = 32;

// What a partition costs for being there: its object, its first chunk's rounding, its place in the
// shuffle's table.
inline constexpr int64_t kPartitionOverheadBytes = 768;

// What a batch that lies in a segment costs in memory: its extent, with the slack of the list that
// it is in. (Index records are counted in the index cache.)
inline constexpr int64_t kExtentOverheadBytes = 96;

class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}
  ~MemoryBudget();

  // Set once, before the budget is shared.
  void SetOnRoom(std::function<void()> on_room) { on_room_ = std::move(on_room); }

  [[nodiscard]] bool TryPromise(int64_t bytes);
  void ReturnPromise(int64_t bytes);
  // Turns a whole ticket into use: the rest of a ticket that was not filled is free again.
  void Redeem(int64_t promised_bytes, int64_t used_bytes);
  void Free(int64_t used_bytes);
  // Counted, never refused: the partitions of accepted sends and reports, and committed batches.
  void AddMetadata(int64_t bytes);
  void FreeMetadata(int64_t bytes);

  int64_t capacity_bytes() const { return capacity_bytes_; }
  struct Figures {
    int64_t promised_bytes = 0;
    int64_t used_bytes = 0;
    int64_t metadata_bytes = 0;

    int64_t total_bytes() const { return promised_bytes + used_bytes + metadata_bytes; }
  };
  Figures figures() const;

 private:
  void Changed();

  const int64_t capacity_bytes_;
  std::function<void()> on_room_;
  mutable std::mutex mutex_;
  Figures figures_;  // guarded by mutex_
};

}  // namespace dovetail::storage
