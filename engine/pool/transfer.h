// The loops that make a transfer whole: the one place where the pool continues short reads and
// writes, EINTR and EAGAIN.
//
// Threads: the calls block in the kernel; whoever calls owns the memory until they return.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/result.h"
#include "engine/counters.h"
#include "engine/system_calls.h"

namespace dovetail::engine {

// Pieces of memory in order, of which a growing prefix is done.
class Parts {
 public:
  Parts() = default;
  explicit Parts(const SliceChain& chain);

  // Pieces of no bytes are left out.
  void Add(void* data, size_t bytes);

  // The next call's worth: at most IOV_MAX pieces, none of them done.
  std::span<const iovec> Next() const;
  // REQUIRES: 0 <= bytes <= left().
  void Advance(int64_t bytes);
  int64_t left() const { return left_; }

 private:
  std::vector<iovec> parts_;
  size_t first_ = 0;  // pieces before it are done; it starts at its first byte not done
  int64_t left_ = 0;
};

struct Wire {
  SystemCalls& calls;
  EngineCounters& counters;
};

// Writes all of it at the offset. granularity: what offset and length of each call must be
// multiples of (1: nothing); a short write in between is repeated from the last multiple. On
// failure any part of the range may have been written.
Status WriteAll(const Wire& wire, int fd, Parts parts, int64_t offset, int64_t granularity);

struct ReadFrom {
  int fd = -1;
  // Takes over where a direct read ended at an offset that direct I/O cannot go on from; the same
  // file. Equal to fd for buffered reads.
  int fd_any_offset = -1;
  int64_t granularity = 1;
};

// Reads at the offset until `needed` bytes are there; parts may have room for more, which a file
// that ends earlier leaves undefined. kCorrupt "end" when the file ends before.
Status ReadAll(const Wire& wire, const ReadFrom& from, Parts parts, int64_t offset, int64_t needed);

}  // namespace dovetail::engine
