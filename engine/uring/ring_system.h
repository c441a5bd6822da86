// What a ring asks of the kernel, behind one seam, so that a test can refuse features, change
// requests on their way in and results on their way out, hold them back or mix them. The base class
// is liburing.
//
// Threads: Wake from any; everything else from the thread that owns the ring. One object serves one
// ring.
#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>

namespace dovetail::engine {

struct Completion {
  uint64_t user_data = 0;
  int32_t result = 0;
};

class RingSystem {
 public:
  virtual ~RingSystem() = default;

  // 0 or a negative errno, as all below.
  virtual int Setup(unsigned entries, io_uring& ring, io_uring_params& params);
  virtual bool Offers(io_uring& ring, int opcode);

  // Sees each request before the kernel does.
  virtual void Submitting(io_uring_sqe&) {}
  // Submits what was prepared; waits for one completion, at most for the timeout (null: for ever).
  // -ETIME when there was none.
  virtual int Enter(io_uring& ring, bool wait, __kernel_timespec* timeout);
  // Copies completions that are there, and makes their places free.
  virtual size_t Reap(io_uring& ring, std::span<Completion> out);

  virtual int RegisterFiles(io_uring& ring, unsigned count);       // a table of empty places
  virtual int UpdateFile(io_uring& ring, unsigned place, int fd);  // fd -1: empty again
  virtual int RegisterBuffers(io_uring& ring, std::span<const iovec> buffers);
  virtual int LimitWorkers(io_uring& ring, unsigned files, unsigned pipes);

  // Adds to the eventfd that the ring waits for.
  virtual int Wake(int event_fd);
};

}  // namespace dovetail::engine
