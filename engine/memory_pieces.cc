#include "engine/memory_pieces.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/base/check.h"

namespace dovetail::engine {
namespace {

// Cells of direct I/O: of a class whose cells all lie on multiples of 4096 in memory.
constexpr int64_t kDirectCellBytesMin = 16 << 10;
constexpr auto kCellBytesMax = static_cast<int64_t>(Arena::kCellBytesMax);

}  // namespace

int64_t SumOf(const SliceChain& chain) {
  uint64_t sum = 0;
  for (const Slice& slice : chain) {
    sum += slice.bytes.size();
    if (sum > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return -1;
  }
  return static_cast<int64_t>(sum);
}

std::shared_ptr<ArenaBuffer> MakeCell(Arena& arena, int64_t bytes, int64_t alignment) {
  if (alignment > 1) {
    // Above 4096 only the largest cells are sure to lie right.
    bytes = alignment <= 4096 ? std::max(bytes, kDirectCellBytesMin) : kCellBytesMax;
  }
  auto cell = std::make_shared<ArenaBuffer>(arena, static_cast<size_t>(bytes));
  DOVETAIL_CHECK(reinterpret_cast<uintptr_t>(cell->data()) % static_cast<size_t>(alignment) == 0);
  return cell;
}

ConstBytes ChainReader::Take(size_t most) {
  while (done_ == chain_[index_].bytes.size()) {
    ++index_;
    done_ = 0;
  }
  const ConstBytes rest = chain_[index_].bytes.subspan(done_);
  const ConstBytes taken = rest.first(std::min(most, rest.size()));
  done_ += taken.size();
  return taken;
}

void ChainReader::CopyTo(std::byte* out, size_t bytes) {
  while (bytes > 0) {
    const ConstBytes part = Take(bytes);
    std::memcpy(out, part.data(), part.size());
    out += part.size();
    bytes -= part.size();
  }
}

Parts ChainReader::PartsOf(size_t bytes) {
  Parts parts;
  while (bytes > 0) {
    const ConstBytes part = Take(bytes);
    // The kernel only reads from there; iovec knows no const.
    parts.Add(const_cast<std::byte*>(part.data()), part.size());
    bytes -= part.size();
  }
  return parts;
}

int64_t ReadPieces::count() const {
  return (range.begin % alignment + range.size() + kPieceBytesMax - 1) / kPieceBytesMax;
}

ByteRange ReadPieces::At(int64_t index) const {
  const int64_t begin = AlignDown(range.begin, alignment) + index * kPieceBytesMax;
  return {std::max(begin, range.begin), std::min(begin + kPieceBytesMax, range.end)};
}

ReadMemory MakeReadMemory(Arena& arena, ByteRange range, int64_t alignment) {
  ReadMemory memory{.offset = AlignDown(range.begin, alignment)};
  memory.needed = range.end - memory.offset;
  const int64_t end = AlignUp(range.end, alignment);
  for (int64_t at = memory.offset; at < end; at += kCellBytesMax) {
    const int64_t bytes = std::min(end - at, kCellBytesMax);
    auto cell = MakeCell(arena, bytes, alignment);
    memory.parts.Add(cell->data(), static_cast<size_t>(bytes));
    const int64_t from = std::max(at, range.begin) - at;
    const int64_t to = std::min(at + bytes, range.end) - at;
    // The first unit may lie in a cell of its own, all of it before the range: never, as a cell is
    // larger than a unit.
    DOVETAIL_CHECK(from < to);
    const ConstBytes exact(cell->data() + from, static_cast<size_t>(to - from));
    memory.slices.push_back({std::move(cell), exact});
  }
  return memory;
}

}  // namespace dovetail::engine
