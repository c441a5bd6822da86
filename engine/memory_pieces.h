// Memory for direct and buffered transfers: aligned arena cells, gathering a chain into them, and
// the cells of a read cut to the exact bytes.
//
// Threads: plain values, one thread at a time; the arena takes any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/base/arena.h"
#include "engine/base/buffer.h"
#include "engine/transfer.h"

namespace dovetail::engine {

// What one request to the kernel carries at most: large enough for the disk, small enough for
// several of one append or read to run at once.
inline constexpr int64_t kPieceBytesMax = 1 << 20;

constexpr int64_t AlignDown(int64_t value, int64_t alignment) { return value - value % alignment; }
constexpr int64_t AlignUp(int64_t value, int64_t alignment) {
  return AlignDown(value + alignment - 1, alignment);
}

// Negative when there are more bytes than an offset can say.
int64_t SumOf(const SliceChain& chain);

// A cell of at least so many bytes (at most Arena::kCellBytesMax), aligned for direct I/O with that
// alignment; 1 is buffered.
std::shared_ptr<ArenaBuffer> MakeCell(Arena& arena, int64_t bytes, int64_t alignment);

// Goes through a chain, which stays where it is.
class ChainReader {
 public:
  explicit ChainReader(const SliceChain& chain) : chain_(chain) {}

  // REQUIRES: so much is left.
  void CopyTo(std::byte* out, size_t bytes);
  // The same bytes where they are. They are only to be written from.
  Parts PartsOf(size_t bytes);

 private:
  // The next bytes that lie together, at most so many.
  ConstBytes Take(size_t most);

  const SliceChain& chain_;
  size_t index_ = 0;
  size_t done_ = 0;  // bytes of the piece at index_
};

struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// How one read is cut: pieces of at most kPieceBytesMax, with borders at multiples of the
// alignment.
struct ReadPieces {
  ByteRange range;
  int64_t alignment = 1;

  int64_t count() const;
  ByteRange At(int64_t index) const;
};

// Memory for one piece. It covers whole units of the alignment; the slices show exactly the range.
struct ReadMemory {
  Parts parts = {};
  SliceChain slices = {};
  int64_t offset = 0;  // of the first byte of the parts
  int64_t needed = 0;  // from there to the end of the range
};

ReadMemory MakeReadMemory(Arena& arena, ByteRange range, int64_t alignment);

}  // namespace dovetail::engine
