// Memory for block data: cells cut from 2 MiB slabs that ask for huge pages and are never given
// back to the system. First touch of fresh pages costs more CPU than copying a block into them, so
// a daemon touches its budget once and recycles it (docs/architecture.md, "Memory").
//
// A cell is of one of a few size classes (four to a doubling, 256 bytes to 256 KiB), so rounding
// wastes at most a quarter. A slab whose cells are all free again can serve any class.
//
// Threads: any thread may allocate and free; one mutex per class. Lifetime: the arena outlives
// every cell (checked at its end). Running out of memory of the system is fatal, as everywhere in
// the process: the budget in front (storage/memory_budget.h) is what keeps the daemon away from
// there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace dovetail {

class Arena {
 public:
  static constexpr size_t kCellBytesMin = 256;
  static constexpr size_t kCellBytesMax = 256 << 10;
  static constexpr size_t kSlabBytes = 2 << 20;

  class Slab;
  struct Cell {
    std::byte* data = nullptr;
    size_t size = 0;  // of the class: at least what was asked for
    Slab* slab = nullptr;
  };

  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A cell of at least `bytes`. REQUIRES: 0 < bytes <= kCellBytesMax. Contents are undefined.
  Cell Allocate(size_t bytes);
  void Free(const Cell& cell);

  // Size of the cell that Allocate(bytes) would give.
  static size_t CellBytes(size_t bytes);

  // Bytes in cells handed out, and bytes of slabs ever taken from the system.
  int64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  int64_t reserved_bytes() const { return reserved_bytes_.load(std::memory_order_relaxed); }

 private:
  struct SizeClass {
    std::mutex mutex;
    std::vector<Slab*> with_free_cells;  // guarded by mutex
  };

  static size_t ClassIndex(size_t bytes);
  static size_t ClassBytes(size_t index);
  Slab* TakeEmptySlab(size_t class_index);
  void GrowRegion();

  std::vector<std::unique_ptr<SizeClass>> classes_;  // constant after construction

  std::mutex slabs_mutex_;
  std::vector<std::unique_ptr<Slab>> slabs_;  // guarded by slabs_mutex_
  std::vector<Slab*> empty_slabs_;            // guarded by slabs_mutex_
  std::vector<void*> regions_;                // guarded by slabs_mutex_

  std::atomic<int64_t> used_bytes_{0};
  std::atomic<int64_t> reserved_bytes_{0};
};

}  // namespace dovetail
