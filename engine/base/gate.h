// Counts who is inside something that may be closed: callers Enter and Leave, one closes. After
// Close nobody enters; exactly one party (the closer, or the last to leave) is told that it was the
// last and does the cleaning up.
//
// Threads: any, lock-free. Never blocks, so it can be closed on a network thread while others are
// inside.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/check.h"

namespace dovetail {

class Gate {
 public:
  // False when closed; then Leave must not be called.
  [[nodiscard]] bool Enter() {
    uint64_t state = state_.load(std::memory_order_relaxed);
    do {
      if (state & kClosed) return false;
    } while (!state_.compare_exchange_weak(state, state + kOne, std::memory_order_acquire,
                                           std::memory_order_relaxed));
    return true;
  }

  // True when the gate is closed and this was the last one inside.
  [[nodiscard]] bool Leave() {
    const uint64_t before = state_.fetch_sub(kOne, std::memory_order_acq_rel);
    DOVETAIL_CHECK(before >= kOne);
    return before == (kOne | kClosed);
  }

  enum class Closing { kAlreadyClosed, kEmpty, kSomebodyInside };
  [[nodiscard]] Closing Close() {
    const uint64_t before = state_.fetch_or(kClosed, std::memory_order_acq_rel);
    if (before & kClosed) return Closing::kAlreadyClosed;
    return before == 0 ? Closing::kEmpty : Closing::kSomebodyInside;
  }

  bool closed() const { return state_.load(std::memory_order_acquire) & kClosed; }

 private:
  static constexpr uint64_t kClosed = 1;
  static constexpr uint64_t kOne = 2;
  std::atomic<uint64_t> state_{0};
};

}  // namespace dovetail
