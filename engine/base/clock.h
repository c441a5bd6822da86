// Time as the program measures waits and ages: the steady clock, handed in so that tests can move
// it by hand.
#pragma once

#include <chrono>
#include <functional>

namespace dovetail {

using TimePoint = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::milliseconds;

// Callable from any thread.
using Clock = std::function<TimePoint()>;

inline Clock SteadyClock() {
  return [] { return std::chrono::steady_clock::now(); };
}

}  // namespace dovetail
