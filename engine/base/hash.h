// Hashing of numbers that come from outside.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <random>

namespace dovetail {

// The finalizer of splitmix64: a bijection in which every bit of the input moves every bit of the
// result.
constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Random for each process, so that nobody can choose keys that collide in a table of ours.
inline uint64_t ProcessHashSeed() {
  static const uint64_t seed = (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  return seed;
}

}  // namespace dovetail
