#include "engine/uring/ring.h"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/errno.h"

namespace dovetail::engine {
namespace {

constexpr uint64_t kWake = Ring::kUserDataMax + 2;
constexpr uint64_t kTimerFirst = Ring::kUserDataMax + 3;
constexpr uint64_t kTimers = 2;  // one that runs, one that is being taken back
constexpr Milliseconds kBusyPause{1};
constexpr int kWakeAttemptsMax = 1000;

// Without these there is no engine. All are in 5.10.
constexpr std::array kOpcodesNeeded = {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_READV,
                                       IORING_OP_WRITEV, IORING_OP_ASYNC_CANCEL};
constexpr std::array kTimerOpcodes = {IORING_OP_TIMEOUT, IORING_OP_TIMEOUT_REMOVE};

struct FlagChoice {
  unsigned flags;
  const char* name;
};

constexpr std::array<FlagChoice, 3> kFlagChoices{{
    {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL |
         IORING_SETUP_CQSIZE,
     "defer_taskrun"},
    {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_CQSIZE, "coop_taskrun"},
    {0, "plain"},
}};
// The kernel's thread submits, so nothing can be put off until the owner asks.
constexpr std::array<FlagChoice, 2> kPollChoices{{
    {IORING_SETUP_SQPOLL | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE, "sqpoll"},
    {IORING_SETUP_SQPOLL, "sqpoll"},
}};

// A cancelled splice shows what the kernel uses among itself for "interrupted, begin again"
// (ERESTARTSYS and its kin), which no system call returns.
int32_t WithoutRestart(int32_t result) {
  constexpr int32_t kFirst = 512;
  constexpr int32_t kLast = 516;
  return -result >= kFirst && -result <= kLast && -result != kLast - 1 ? -EINTR : result;
}

__kernel_timespec TimeLeft(TimePoint deadline) {
  const auto left = std::max(deadline - std::chrono::steady_clock::now(),
                             std::chrono::steady_clock::duration::zero());
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  return {.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
}

}  // namespace

Result<std::unique_ptr<Ring>> Ring::Make(const RingSetup& setup, RingSystem& system,
                                         RingCounters& counters) {
  std::unique_ptr<Ring> ring(new Ring(system, counters));
  if (const Status status = ring->Start(setup); !status) return std::unexpected(status.error());
  return ring;
}

Ring::Ring(RingSystem& system, RingCounters& counters)
    : system_(system),
      counters_(counters),
      process_(getpid()),
      event_fd_(eventfd(0, EFD_CLOEXEC)) {}

Ring::~Ring() {
  DOVETAIL_CHECK(owner_ == std::this_thread::get_id() && process_ == getpid());
  if (made_) io_uring_queue_exit(&ring_);
  if (event_fd_ >= 0) close(event_fd_);
}

int Ring::TrySetup(const RingSetup& setup, unsigned flags) {
  for (unsigned entries = setup.entries;; entries /= 2) {
    io_uring_params params{};
    params.flags = flags;
    params.cq_entries = entries * 2;
    params.sq_thread_idle = static_cast<unsigned>(setup.sqpoll_idle_ms);
    const int result = system_.Setup(entries, ring_, params);
    if (result == -ENOMEM && entries > 1) {
      shrunk_ = true;
      continue;
    }
    if (result < 0) return result;
    made_ = true;
    entries_ = params.sq_entries;
    completion_entries_ = params.cq_entries;
    waits_with_timeout_ = (params.features & IORING_FEAT_EXT_ARG) != 0;
    return 0;
  }
}

Status Ring::Start(const RingSetup& setup) {
  if (event_fd_ < 0) return FailErrno("io_uring: eventfd", errno);
  const std::span<const FlagChoice> choices =
      setup.sqpoll ? std::span<const FlagChoice>(kPollChoices) : std::span(kFlagChoices);
  int result = -EINVAL;
  for (const FlagChoice& choice : choices) {
    shrunk_ = false;
    result = TrySetup(setup, choice.flags);
    if (result == 0) features_ = choice.name;
    if (result != -EINVAL) break;  // it is not the flags
  }
  if (result < 0) return FailErrno("io_uring: setup", -result);
  // Without it the kernel throws results away when their queue is full.
  if ((ring_.features & IORING_FEAT_NODROP) == 0) {
    return Fail(ErrorCode::kUnsupported, "io_uring: nodrop");
  }
  if (const Status status = CheckOpcodes(); !status) return status;
  if (waits_with_timeout_) features_ += ",ext_arg";
  io_uring_ring_dontfork(&ring_);  // a forked child has nothing to do with it
  ArmWake();
  // A filter may let a ring be made and not be used.
  const int entered = system_.Enter(ring_, /*wait=*/false, nullptr);
  if (entered < 0 && entered != -EBUSY && entered != -EAGAIN && entered != -EINTR) {
    return FailErrno("io_uring: enter", -entered);
  }
  return {};
}

Status Ring::CheckOpcodes() {
  const auto offered = [this](int opcode) { return system_.Offers(ring_, opcode); };
  if (!std::all_of(kOpcodesNeeded.begin(), kOpcodesNeeded.end(), offered) ||
      (!waits_with_timeout_ && !std::all_of(kTimerOpcodes.begin(), kTimerOpcodes.end(), offered))) {
    return Fail(ErrorCode::kUnsupported, "io_uring: opcodes");
  }
  return {};
}

bool Ring::Offers(int opcode) { return system_.Offers(ring_, opcode); }

io_uring_sqe* Ring::Next() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr && Submit(/*wait=*/false, nullptr)) sqe = io_uring_get_sqe(&ring_);
  return sqe;
}

void Ring::Add(io_uring_sqe& sqe, uint64_t user_data) {
  io_uring_sqe_set_data64(&sqe, user_data);
  system_.Submitting(sqe);
}

bool Ring::Submit(bool wait, __kernel_timespec* timeout) {
  counters_.enters.fetch_add(1, std::memory_order_relaxed);
  const int result = system_.Enter(ring_, wait, timeout);
  if (result >= 0 || result == -ETIME || result == -EINTR) return true;
  if (result == -EBUSY) {
    // Results wait for room: make some.
    counters_.overflows.fetch_add(1, std::memory_order_relaxed);
    Reap();
    return false;
  }
  if (result == -EAGAIN) {
    // No memory for requests now.
    counters_.entries_busy.fetch_add(1, std::memory_order_relaxed);
    Reap();
    if (reaped_.empty()) std::this_thread::sleep_for(kBusyPause);
    return false;
  }
  spdlog::critical("io_uring: the ring is of no use any more: {}", std::strerror(-result));
  DOVETAIL_CHECK(false);
  return false;
}

void Ring::Turn(bool wait, TimePoint deadline, std::vector<Completion>& out) {
  DOVETAIL_CHECK(owner_ == std::this_thread::get_id() && process_ == getpid());
  ArmWake();
  // What is there already, or an eventfd that is not watched, is a reason not to sleep.
  wait = wait && reaped_.empty() && wake_armed_;
  if (wait && deadline != TimePoint::max() && !waits_with_timeout_) wait = ArmTimer(deadline);
  const bool limited = wait && deadline != TimePoint::max();
  __kernel_timespec timeout = limited ? TimeLeft(deadline) : __kernel_timespec{};
  Submit(wait, limited && waits_with_timeout_ ? &timeout : nullptr);
  Reap();
  out.insert(out.end(), reaped_.begin(), reaped_.end());
  reaped_.clear();
}

void Ring::Reap() {
  if ((*ring_.sq.kflags & IORING_SQ_CQ_OVERFLOW) != 0) {
    counters_.overflows.fetch_add(1, std::memory_order_relaxed);
  }
  std::array<Completion, 64> batch;
  while (true) {
    const size_t count = system_.Reap(ring_, batch);
    for (const Completion& completion : std::span(batch).first(count)) Sort(completion);
    if (count == 0) break;
  }
  // A lost result would be an operation that never ends.
  DOVETAIL_CHECK(*ring_.cq.koverflow == 0);
}

void Ring::Sort(const Completion& completion) {
  if (completion.user_data == kWake) {
    // Whatever it says (even an error): look, and arm it again.
    wake_armed_ = false;
  } else if (timer_id_ != 0 && completion.user_data == timer_id_) {
    timer_at_ = TimePoint::max();
    timer_id_ = 0;
  } else if (completion.user_data < kUserDataMax) {
    reaped_.push_back({completion.user_data, WithoutRestart(completion.result)});
  }
}

void Ring::ArmWake() {
  if (wake_armed_) return;
  io_uring_sqe* sqe = Next();
  if (sqe == nullptr) return;
  io_uring_prep_read(sqe, event_fd_, &event_count_, sizeof(event_count_), 0);
  Add(*sqe, kWake);
  wake_armed_ = true;
}

bool Ring::ArmTimer(TimePoint deadline) {
  if (timer_at_ <= deadline) return true;  // wakes early enough
  const uint64_t id = timer_id_ == kTimerFirst ? kTimerFirst + 1 : kTimerFirst;
  static_assert(kTimers == 2);
  if (timer_id_ != 0) {
    io_uring_sqe* sqe = Next();
    if (sqe == nullptr) return false;
    io_uring_prep_timeout_remove(sqe, timer_id_, 0);
    Add(*sqe, kIgnored);
  }
  io_uring_sqe* sqe = Next();
  if (sqe == nullptr) return false;
  timer_ = TimeLeft(deadline);
  io_uring_prep_timeout(sqe, &timer_, 0, 0);
  Add(*sqe, id);
  timer_id_ = id;
  timer_at_ = deadline;
  return true;
}

void Ring::Wake() {
  counters_.wakeups.fetch_add(1, std::memory_order_relaxed);
  // A wake that is lost would be a shard that sleeps for ever.
  int result = -EINTR;
  for (int i = 0; (result == -EINTR || result == -EAGAIN) && i < kWakeAttemptsMax; ++i) {
    result = system_.Wake(event_fd_);
  }
  DOVETAIL_CHECK(result == 0);
}

bool Ring::RegisterFiles(unsigned count) { return system_.RegisterFiles(ring_, count) == 0; }

bool Ring::RegisterBuffers(std::span<const iovec> buffers) {
  return system_.RegisterBuffers(ring_, buffers) == 0;
}

bool Ring::LimitWorkers(unsigned files, unsigned pipes) {
  return system_.LimitWorkers(ring_, files, pipes) == 0;
}

bool Ring::UpdateFile(unsigned place, int fd) { return system_.UpdateFile(ring_, place, fd) == 0; }

}  // namespace dovetail::engine
