// The one source of choices of a model run. Its own reductions, because those of the standard
// library's distributions differ from one implementation to the next and a seed has to replay
// everywhere.
//
// Threads: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>

namespace dovetail::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Next() { return engine_(); }
  // 0 to n - 1; 0 for n < 1.
  int64_t Below(int64_t n) {
    return n <= 1 ? 0 : static_cast<int64_t>(engine_() % static_cast<uint64_t>(n));
  }
  // Both ends included.
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  // REQUIRES: not empty.
  template <class Container>
  auto& Of(Container& container) {
    return container[static_cast<size_t>(Below(std::ssize(container)))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace dovetail::sim
