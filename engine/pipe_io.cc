#include "engine/pipe_io.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <ctime>

#include "engine/errno.h"
#include "engine/transfer.h"

namespace dovetail::engine {
namespace {

constexpr size_t kCopyBytes = 64 << 10;

sigset_t BrokenPipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

bool IsPending() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

bool IsRefusal(int64_t result) { return result == -EINVAL || result == -EOPNOTSUPP; }

// One call's worth by way of memory of our own.
int64_t CopyOnce(SystemCalls& calls, const PipeRange& range) {
  std::array<std::byte, kCopyBytes> memory;
  const iovec part{memory.data(), std::min(kCopyBytes, static_cast<size_t>(range.length))};
  const int64_t read = calls.Preadv(range.fd, {&part, 1}, range.offset);
  if (read <= 0) return read;
  return calls.WritePipe(range.pipe, {memory.data(), static_cast<size_t>(read)});
}

}  // namespace

void BlockBrokenPipeSignal() {
  const sigset_t set = BrokenPipe();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

WithoutBrokenPipeSignal::WithoutBrokenPipeSignal() : was_pending_(IsPending()) {
  const sigset_t set = BrokenPipe();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &set, &before);
  was_blocked_ = sigismember(&before, SIGPIPE) == 1;
}

WithoutBrokenPipeSignal::~WithoutBrokenPipeSignal() {
  const sigset_t set = BrokenPipe();
  const timespec at_once{};
  if (!was_pending_ && IsPending()) sigtimedwait(&set, nullptr, &at_once);
  if (!was_blocked_) pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

Status FillPipe(SystemCalls& calls, EngineCounters& counters, PipeRange range, TimePoint deadline) {
  Stalls stalls(counters);
  bool copies = false;
  while (range.length > 0) {
    if (deadline != TimePoint::max() && std::chrono::steady_clock::now() >= deadline) {
      return Fail(ErrorCode::kTimeout, "deadline");
    }
    const int64_t result = copies ? CopyOnce(calls, range)
                                  : calls.Splice(range.fd, range.offset, range.pipe, range.length);
    if (!copies && IsRefusal(result)) {
      copies = true;
      continue;
    }
    if (result == 0) return Fail(ErrorCode::kCorrupt, "end");
    if (result < 0 && !IsPassing(static_cast<int>(-result))) {
      return FailErrno("pipe", static_cast<int>(-result));
    }
    const int64_t moved = std::max<int64_t>(result, 0);
    range.offset += moved;
    range.length -= moved;
    if (range.length == 0) break;
    const int os_error = result < 0 ? static_cast<int>(-result) : 0;
    const auto pause = stalls.Continue(moved > 0, os_error);
    if (!pause) return Fail(ErrorCode::kIo, "pipe: no progress", os_error);
    PauseFor(*pause);
  }
  return {};
}

}  // namespace dovetail::engine
