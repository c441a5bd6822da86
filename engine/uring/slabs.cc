#include "engine/uring/slabs.h"

#include <sys/mman.h>

#include "engine/base/check.h"
#include "engine/memory_pieces.h"

namespace dovetail::engine {
namespace {

constexpr auto kSlabBytes = static_cast<size_t>(kPieceBytesMax);

}  // namespace

Slabs::Slabs(int count) : count_(static_cast<size_t>(count)) {
  void* mapped = mmap(nullptr, count_ * kSlabBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  DOVETAIL_CHECK(mapped != MAP_FAILED);
  memory_ = static_cast<std::byte*>(mapped);
  madvise(mapped, count_ * kSlabBytes, MADV_HUGEPAGE);  // a wish: without them it is only slower
  madvise(mapped, count_ * kSlabBytes, MADV_DONTFORK);  // the kernel may be writing from it
  for (int slab = count; slab-- > 0;) free_.push_back(slab);
}

Slabs::~Slabs() {
  DOVETAIL_CHECK(free_.size() == count_);
  munmap(memory_, count_ * kSlabBytes);
}

void Slabs::Register(Ring& ring) {
  std::vector<iovec> buffers;
  for (size_t i = 0; i < count_; ++i) buffers.push_back({memory_ + i * kSlabBytes, kSlabBytes});
  registered_ = ring.RegisterBuffers(buffers);
}

int Slabs::Take() {
  DOVETAIL_CHECK(AnyFree());
  const int slab = free_.back();
  free_.pop_back();
  return slab;
}

void Slabs::Give(int slab) {
  DOVETAIL_CHECK(free_.size() < count_);
  free_.push_back(slab);
}

std::byte* Slabs::data(int slab) const { return memory_ + static_cast<size_t>(slab) * kSlabBytes; }

}  // namespace dovetail::engine
