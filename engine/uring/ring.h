// One io_uring: requests in, results out. Knows nothing of files or operations.
//
// Threads: made, used and ended on one thread (the kernel is told so: SINGLE_ISSUER), never after a
// fork; both are checked. Only Wake may be called from elsewhere.
//
// The flags of the ring are tried, best first: SINGLE_ISSUER | DEFER_TASKRUN | SUBMIT_ALL (6.1),
// COOP_TASKRUN (5.19), none (5.10). Too little memory for the ring makes it smaller, not an error.
// Waiting with a timeout is part of the call from 5.11 on, before that a request of its own.
#pragma once

#include <liburing.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/counters.h"
#include "engine/uring/ring_system.h"

namespace dovetail::engine {

struct RingSetup {
  unsigned entries = 64;  // of the submission queue; completions have twice as many
  bool sqpoll = false;
  int sqpoll_idle_ms = 100;
};

class Ring {
 public:
  // user_data of requests is below this; what is above is the ring's own.
  static constexpr uint64_t kUserDataMax = ~uint64_t{0} - 16;
  // For requests whose results nobody wants.
  static constexpr uint64_t kIgnored = kUserDataMax + 1;

  // The error says what was refused: os_error, and the place "io_uring: setup", "io_uring: enter",
  // "io_uring: nodrop" or "io_uring: opcodes".
  static Result<std::unique_ptr<Ring>> Make(const RingSetup& setup, RingSystem& system,
                                            RingCounters& counters);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // A cleared request to be filled in and finished with Add. Null when there is no place and the
  // kernel takes nothing now: try again in the next turn.
  io_uring_sqe* Next();
  // REQUIRES: sqe is from the last Next, filled in. user_data < kUserDataMax, or kIgnored.
  void Add(io_uring_sqe& sqe, uint64_t user_data);

  // One turn: gives the kernel everything that was added, waits for a result or a Wake (not longer
  // than until the deadline; max: for ever) if wait, and appends the results that are there to
  // `out`. May return without any.
  void Turn(bool wait, TimePoint deadline, std::vector<Completion>& out);

  // Makes a Turn that waits return. Any thread.
  void Wake();

  // Once, after Make. Each returns whether it was granted.
  bool RegisterFiles(unsigned count);
  bool RegisterBuffers(std::span<const iovec> buffers);
  bool LimitWorkers(unsigned files, unsigned pipes);
  bool UpdateFile(unsigned place, int fd);

  // Whether the kernel knows that request.
  bool Offers(int opcode);
  // What was granted, such as "defer_taskrun".
  const std::string& features() const { return features_; }
  unsigned entries() const { return entries_; }
  unsigned completion_entries() const { return completion_entries_; }
  // Less than was asked for, because there was no memory.
  bool shrunk() const { return shrunk_; }

 private:
  Ring(RingSystem& system, RingCounters& counters);

  Status Start(const RingSetup& setup);
  int TrySetup(const RingSetup& setup, unsigned flags);
  Status CheckOpcodes();
  // Everything prepared goes to the kernel. False when it takes nothing now.
  bool Submit(bool wait, __kernel_timespec* timeout);
  void Reap();
  void Sort(const Completion& completion);
  void ArmWake();
  bool ArmTimer(TimePoint deadline);  // false: no place for it now

  RingSystem& system_;
  RingCounters& counters_;
  const std::thread::id owner_ = std::this_thread::get_id();
  const pid_t process_;
  io_uring ring_{};
  bool made_ = false;
  std::string features_;
  unsigned entries_ = 0;
  unsigned completion_entries_ = 0;
  bool shrunk_ = false;
  bool waits_with_timeout_ = false;

  const int event_fd_;
  uint64_t event_count_ = 0;  // where the kernel puts the eventfd's value
  bool wake_armed_ = false;
  TimePoint timer_at_ = TimePoint::max();  // of the timer request under way, without that feature
  uint64_t timer_id_ = 0;
  __kernel_timespec timer_{};
  std::vector<Completion> reaped_;
};

}  // namespace dovetail::engine
