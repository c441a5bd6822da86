#include "engine/base/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "engine/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define DOVETAIL_POISON(address, size) __asan_poison_memory_region(address, size)
#define DOVETAIL_UNPOISON(address, size) __asan_unpoison_memory_region(address, size)
#else
#define DOVETAIL_POISON(address, size) static_cast<void>(0)
#define DOVETAIL_UNPOISON(address, size) static_cast<void>(0)
#endif

namespace dovetail {
namespace {

constexpr size_t kRegionSlabs = 32;  // slabs taken from the system at once: 64 MiB
constexpr int kStepsPerDoubling = 4;
constexpr int kDoublings = std::bit_width(Arena::kCellBytesMax / Arena::kCellBytesMin) - 1;
constexpr size_t kClasses = kDoublings * kStepsPerDoubling + 1;

}  // namespace

// Fields are guarded by the mutex of the class that the slab serves now.
class Arena::Slab {
 public:
  explicit Slab(std::byte* base) : base_(base) {}

  void Assign(size_t class_index, size_t cell_bytes) {
    DOVETAIL_CHECK(live_ == 0);
    class_index_ = class_index;
    cell_bytes_ = cell_bytes;
    unused_from_ = 0;
    free_.clear();
  }

  std::byte* Take() {
    DOVETAIL_CHECK(HasFree());
    uint32_t index = 0;
    if (free_.empty()) {
      index = unused_from_++;
    } else {
      index = free_.back();
      free_.pop_back();
    }
    ++live_;
    return base_ + index * cell_bytes_;
  }

  void Give(std::byte* data) {
    const auto offset = static_cast<size_t>(data - base_);
    DOVETAIL_CHECK(offset % cell_bytes_ == 0 && offset / cell_bytes_ < unused_from_ && live_ > 0);
    free_.push_back(static_cast<uint32_t>(offset / cell_bytes_));
    --live_;
  }

  bool HasFree() const { return !free_.empty() || (unused_from_ + 1) * cell_bytes_ <= kSlabBytes; }
  bool Empty() const { return live_ == 0; }
  size_t cell_bytes() const { return cell_bytes_; }
  size_t class_index() const { return class_index_; }

 private:
  std::byte* const base_;
  size_t class_index_ = 0;
  size_t cell_bytes_ = kCellBytesMin;
  uint32_t unused_from_ = 0;  // cells from here on were never handed out
  uint32_t live_ = 0;
  std::vector<uint32_t> free_;
};

Arena::Arena() {
  for (size_t i = 0; i < kClasses; ++i) classes_.push_back(std::make_unique<SizeClass>());
}

Arena::~Arena() {
  DOVETAIL_CHECK(used_bytes() == 0);
  for (void* region : regions_) {
    DOVETAIL_UNPOISON(region, kRegionSlabs * kSlabBytes);
    munmap(region, kRegionSlabs * kSlabBytes);
  }
}

// Class i covers sizes up to (4 + i % 4) quarters of 256 << (i / 4).
size_t Arena::ClassBytes(size_t index) {
  const size_t doubling = index / kStepsPerDoubling;
  const size_t quarters = kStepsPerDoubling + index % kStepsPerDoubling;
  return (kCellBytesMin << doubling) / kStepsPerDoubling * quarters;
}

size_t Arena::ClassIndex(size_t bytes) {
  DOVETAIL_CHECK(bytes > 0 && bytes <= kCellBytesMax);
  if (bytes <= kCellBytesMin) return 0;
  // The largest power-of-two multiple of the smallest cell that is below `bytes`.
  const auto doubling = static_cast<size_t>(std::bit_width((bytes - 1) / kCellBytesMin) - 1);
  const size_t step = (kCellBytesMin << doubling) / kStepsPerDoubling;
  const size_t quarters = (bytes - (kCellBytesMin << doubling) + step - 1) / step;
  return doubling * kStepsPerDoubling + quarters;
}

size_t Arena::CellBytes(size_t bytes) { return ClassBytes(ClassIndex(bytes)); }

Arena::Cell Arena::Allocate(size_t bytes) {
  const size_t index = ClassIndex(bytes);
  SizeClass& size_class = *classes_[index];
  std::lock_guard lock(size_class.mutex);
  if (size_class.with_free_cells.empty()) {
    size_class.with_free_cells.push_back(TakeEmptySlab(index));
  }
  Slab* slab = size_class.with_free_cells.back();
  Cell cell{slab->Take(), slab->cell_bytes(), slab};
  if (!slab->HasFree()) size_class.with_free_cells.pop_back();
  used_bytes_.fetch_add(static_cast<int64_t>(cell.size), std::memory_order_relaxed);
  DOVETAIL_UNPOISON(cell.data, cell.size);
  return cell;
}

void Arena::Free(const Cell& cell) {
  DOVETAIL_POISON(cell.data, cell.size);
  // The slab cannot change its class while this cell is live.
  SizeClass& size_class = *classes_[cell.slab->class_index()];
  std::lock_guard lock(size_class.mutex);
  const bool was_full = !cell.slab->HasFree();
  cell.slab->Give(cell.data);
  used_bytes_.fetch_sub(static_cast<int64_t>(cell.size), std::memory_order_relaxed);
  auto& open = size_class.with_free_cells;
  if (was_full) open.push_back(cell.slab);
  // One empty slab stays with its class, so that a partition that comes and goes does not move
  // slabs about.
  if (cell.slab->Empty() && open.size() > 1) {
    open.erase(std::find(open.begin(), open.end(), cell.slab));
    std::lock_guard slabs_lock(slabs_mutex_);
    empty_slabs_.push_back(cell.slab);
  }
}

Arena::Slab* Arena::TakeEmptySlab(size_t class_index) {
  std::lock_guard lock(slabs_mutex_);
  if (empty_slabs_.empty()) GrowRegion();
  Slab* slab = empty_slabs_.back();
  empty_slabs_.pop_back();
  slab->Assign(class_index, ClassBytes(class_index));
  return slab;
}

void Arena::GrowRegion() {
  constexpr size_t kRegionBytes = kRegionSlabs * kSlabBytes;
  // One slab more than needed, so that a slab-aligned part can be cut out: huge pages need that
  // alignment.
  void* mapped = mmap(nullptr, kRegionBytes + kSlabBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  DOVETAIL_CHECK(mapped != MAP_FAILED);
  auto* start = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<uintptr_t>(start);
  const size_t head = (kSlabBytes - address % kSlabBytes) % kSlabBytes;
  if (head > 0) munmap(start, head);
  if (head < kSlabBytes) munmap(start + head + kRegionBytes, kSlabBytes - head);
  std::byte* region = start + head;
  madvise(region, kRegionBytes, MADV_HUGEPAGE);  // a wish: without huge pages it is only slower
  DOVETAIL_POISON(region, kRegionBytes);
  regions_.push_back(region);
  reserved_bytes_.fetch_add(kRegionBytes, std::memory_order_relaxed);
  for (size_t i = kRegionSlabs; i-- > 0;) {
    slabs_.push_back(std::make_unique<Slab>(region + i * kSlabBytes));
    empty_slabs_.push_back(slabs_.back().get());
  }
}

}  // namespace dovetail
