// The memory of one shard that direct appends are gathered into: a fixed number of pieces of
// kPieceBytesMax, mapped once, on huge pages where there are any, registered with the ring when the
// memlock limit allows.
//
// Threads: the shard's. A slab is taken for one request and given back when the kernel has answered
// it. What a slab held before is never written: a request covers only what was gathered for it.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/uring/ring.h"

namespace dovetail::engine {

class Slabs {
 public:
  explicit Slabs(int count);
  ~Slabs();
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  // Tries to register them; slab i is then buffer i of the ring.
  void Register(Ring& ring);
  bool registered() const { return registered_; }

  bool AnyFree() const { return !free_.empty(); }
  int Take();  // REQUIRES: AnyFree
  void Give(int slab);
  std::byte* data(int slab) const;

 private:
  const size_t count_;
  std::byte* memory_ = nullptr;
  bool registered_ = false;
  std::vector<int> free_;
};

}  // namespace dovetail::engine
