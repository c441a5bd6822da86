// What makes a transfer whole: the one place where short reads and writes, EINTR and EAGAIN are
// continued, whether a thread waits for each call or a ring brings its results.
//
// Threads: plain values, one thread at a time.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/counters.h"

namespace dovetail::engine {

// Pieces of memory in order, of which a growing prefix is done.
class Parts {
 public:
  Parts() = default;
  explicit Parts(const SliceChain& chain);

  // Pieces of no bytes are left out.
  void Add(void* data, size_t bytes);

  // The next call's worth: at most IOV_MAX pieces, none of them done. Valid until Advance.
  std::span<const iovec> Next() const;
  // REQUIRES: 0 <= bytes <= left().
  void Advance(int64_t bytes);
  int64_t left() const { return left_; }

 private:
  std::vector<iovec> parts_;
  size_t first_ = 0;  // pieces before it are done; it starts at its first byte not done
  int64_t left_ = 0;
};

// Answers that say "ask again".
bool IsPassing(int os_error);

// Counts what must be continued, and decides when that has no end: a file that says EAGAIN or
// writes nothing a thousand times in a row is broken.
class Stalls {
 public:
  explicit Stalls(EngineCounters& counters) : counters_(&counters) {}

  // After a call that was short, interrupted, or refused for the moment. os_error: 0 for short.
  // How long to wait before the next one; nothing when it is time to give up.
  std::optional<Milliseconds> Continue(bool gained, int os_error);

 private:
  EngineCounters* counters_;
  int count_ = 0;
};

// Sleeps, unless it is zero.
void PauseFor(Milliseconds pause);

// One range of a file and the memory that it goes to or comes from, moved by as many calls as it
// takes. The memory is somebody else's, and lives until the last call has returned.
class Transfer {
 public:
  enum class Way : uint8_t { kRead, kWrite };
  struct Plan {
    Way way = Way::kRead;
    int fd = -1;
    // Of the same file, without O_DIRECT: takes over where a direct read ended at an offset that
    // direct I/O cannot go on from. Equal to fd for buffered transfers.
    int fd_any_offset = -1;
    int64_t offset = 0;
    // What offset and length of each call must be multiples of (1: nothing); a write that ends in
    // between is repeated from the last multiple.
    int64_t granularity = 1;
    // Bytes to be moved. A read may have room for more, which a file that ends earlier leaves
    // undefined; a write has exactly as many.
    int64_t needed = 0;
  };

  Transfer(const Plan& plan, Parts parts, EngineCounters& counters);

  bool done() const { return plan_.needed <= 0; }

  // The next call.
  int fd() const { return plan_.fd; }
  int64_t offset() const { return plan_.offset; }
  std::span<const iovec> Next() const { return parts_.Next(); }

  // Takes what a call returned: a count, or a negative errno. How long to wait before the next
  // call, if there is one; kCorrupt "end" when the file ends before what a read needs. After a
  // failed write any part of the range may have been written.
  Result<Milliseconds> Take(int64_t result);

 private:
  Plan plan_;
  Parts parts_;
  Stalls stalls_;
};

}  // namespace dovetail::engine
