#include "tests/e2e/judge/engine_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "engine/memory_pieces.h"
#include "tests/contract/sync_io.h"

namespace dovetail::judge {
namespace {

using engine::AlignDown;
using engine::AlignUp;
using engine::ByteRange;
using engine::IoMode;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
constexpr int64_t kWiderBytes = 1 << 20;  // a multiple of every alignment
constexpr int64_t kWideFromBytes = 32 << 10;
constexpr uint64_t kWideEvery = 5;  // has no divisor in common with the other turns
constexpr size_t kZeroBytes = 1 << 20;
constexpr size_t kSmallPieceBytes = 700;  // 1 MiB is then more pieces than IOV_MAX
constexpr size_t kOddPieceBytes = 4097;
constexpr int64_t kPipeBytes = 64 << 10;               // what a new pipe has
constexpr int64_t kPipeFillBytes = kPipeBytes - 4096;  // a range may begin inside a page

bool IsWide(int64_t bytes, uint64_t turn) {
  return bytes >= kWideFromBytes && turn % kWideEvery == 0;
}

void AddZeros(SliceChain& chain, int64_t bytes) {
  static const auto zeros = std::make_shared<const std::vector<std::byte>>(kZeroBytes);
  for (; bytes > 0; bytes -= static_cast<int64_t>(kZeroBytes)) {
    const size_t step = std::min(kZeroBytes, static_cast<size_t>(bytes));
    chain.push_back({zeros, ConstBytes(*zeros).first(step)});
  }
}

void AddPieces(SliceChain& chain, ConstBytes data, size_t piece) {
  while (!data.empty()) {
    const size_t step = std::min(piece, data.size());
    chain.push_back({nullptr, data.first(step)});
    data = data.subspan(step);
  }
}

void AddAligned(SliceChain& chain, Arena& arena, ConstBytes data, int64_t alignment) {
  while (!data.empty()) {
    const size_t step = std::min(Arena::kCellBytesMax, data.size());
    auto cell = engine::MakeCell(arena, static_cast<int64_t>(step), alignment);
    std::memcpy(cell->data(), data.data(), step);
    const ConstBytes bytes(cell->data(), step);
    chain.push_back({std::move(cell), bytes});
    data = data.subspan(step);
  }
}

// Who calls keeps the bytes until the engine has answered.
void AddData(SliceChain& chain, Arena& arena, ConstBytes data, int64_t alignment, uint64_t turn) {
  switch (turn % 4) {
    case 0:
      return AddPieces(chain, data, data.size());
    case 1:
      return AddPieces(chain, data, kSmallPieceBytes);
    case 2:
      return AddPieces(chain, data, kOddPieceBytes);
    default:
      return AddAligned(chain, arena, data, alignment);
  }
}

Status Append(SliceChain& chain, Result<SliceChain> more) {
  if (!more) return std::unexpected(more.error());
  std::move(more->begin(), more->end(), std::back_inserter(chain));
  return {};
}

void CopyPart(const SliceChain& chain, int64_t skip, std::span<std::byte> out) {
  for (const Slice& slice : chain) {
    const auto skipped = std::min(skip, static_cast<int64_t>(slice.bytes.size()));
    skip -= skipped;
    const ConstBytes rest = slice.bytes.subspan(static_cast<size_t>(skipped));
    const size_t step = std::min(rest.size(), out.size());
    if (step > 0) std::memcpy(out.data(), rest.data(), step);
    out = out.subspan(step);
  }
}

int OsErrorOf(const Error& error) {
  if (error.os_error != 0) return error.os_error;
  return error.code == ErrorCode::kNoSpace ? ENOSPC : EIO;
}

// One for each thread, empty between calls.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) ends_[0] = ends_[1] = -1;
  }
  ~Pipe() {
    for (const int end : ends_) close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int write_end() const { return ends_[1]; }
  bool TakeAll(std::byte* out, int64_t bytes) const {
    while (bytes > 0) {
      const ssize_t got = read(ends_[0], out, static_cast<size_t>(bytes));
      if (got <= 0) return false;
      out += got;
      bytes -= got;
    }
    return true;
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace

int64_t EngineFile::unit() const {
  return state_.writes == IoMode::kDirect ? file_->direct_alignment() : 1;
}

int EngineFile::Failed(const char* what, ByteRange range, const Error& error) {
  ++state_.counts.failed;
  const int os_error = OsErrorOf(error);
  fmt::print(stderr, "engine_fs: {} of {} bytes at {} of {} failed: {}, {} ({})\n", what,
             range.size(), range.begin, path_, ToString(error.code), error.where,
             std::strerror(os_error));
  return -os_error;
}

Result<SliceChain> EngineFile::FetchByPipe(ByteRange range) {
  thread_local std::unique_ptr<Pipe> pipe;
  SliceChain chain;
  while (range.size() > 0) {
    if (pipe == nullptr) pipe = std::make_unique<Pipe>();
    const int64_t step = std::min(range.size(), kPipeFillBytes);
    contract::Pending<Status> pending;
    state_.engine.ToPipe(
        {.file = file_, .offset = range.begin, .length = step, .pipe = pipe->write_end()},
        pending.Done());
    const Status status = pending.Wait();
    auto cell = std::make_shared<ArenaBuffer>(state_.arena, static_cast<size_t>(step));
    if (!status || !pipe->TakeAll(cell->data(), step)) {
      pipe.reset();
      return status ? Fail(ErrorCode::kIo, "the pipe", EPIPE) : std::unexpected(status.error());
    }
    const ConstBytes bytes(cell->data(), static_cast<size_t>(step));
    chain.push_back({std::move(cell), bytes});
    range.begin += step;
  }
  return chain;
}

Result<SliceChain> EngineFile::Fetch(ByteRange range, uint64_t turn) {
  if (range.size() <= 0) return SliceChain();
  ReadWay way = state_.reads;
  if (way == ReadWay::kMixed) way = static_cast<ReadWay>(turn % 3);
  if (way == ReadWay::kPipe) return FetchByPipe(range);
  contract::Pending<Result<SliceChain>> pending;
  state_.engine.Read({.file = file_,
                      .offset = range.begin,
                      .length = range.size(),
                      .mode = way == ReadWay::kDirect ? IoMode::kDirect : IoMode::kBuffered},
                     pending.Done());
  Result<SliceChain> read = pending.Wait();
  if (read && engine::SumOf(*read) != range.size()) {
    return Fail(ErrorCode::kCorrupt, "a read that succeeded has another length");
  }
  return read;
}

int64_t EngineFile::Read(int64_t offset, std::span<std::byte> out) {
  const uint64_t turn = state_.turn++;
  ByteRange asked;
  ByteRange wide;
  const auto held = locks_.Lock(RangeLocks::Kind::kShared, [&] {
    const int64_t size = size_.load();
    asked = {offset, std::max(offset, std::min(size, offset + static_cast<int64_t>(out.size())))};
    wide = asked;
    if (IsWide(asked.size(), turn)) {
      wide = {std::max<int64_t>(0, asked.begin - kWiderBytes),
              std::min(size, asked.end + kWiderBytes)};
    }
    return wide;
  });
  if (asked.size() == 0) return 0;
  const Result<SliceChain> read = Fetch(wide, turn);
  if (!read) return Failed("read", wide, read.error());
  CopyPart(*read, asked.begin - wide.begin, out.first(static_cast<size_t>(asked.size())));
  ++state_.counts.reads;
  state_.counts.read_bytes += asked.size();
  return asked.size();
}

ByteRange EngineFile::SpanOf(ByteRange bytes, bool wide) const {
  const int64_t size = size_.load();
  ByteRange span{AlignDown(std::min(bytes.begin, size), unit()), AlignUp(bytes.end, unit())};
  if (wide) {
    span.begin = std::max<int64_t>(0, span.begin - kWiderBytes);
    span.end = std::max(span.end, std::min(AlignUp(size, unit()), span.end + kWiderBytes));
  }
  return span;
}

Result<SliceChain> EngineFile::Compose(ByteRange span, int64_t offset, ConstBytes data,
                                       uint64_t turn) {
  const int64_t size = size_.load();
  const int64_t end = offset + static_cast<int64_t>(data.size());
  const int64_t kept_end = std::max(end, std::min(size, span.end));
  SliceChain chain;
  if (Status status = Append(chain, Fetch({span.begin, std::min(offset, size)}, turn)); !status) {
    return std::unexpected(status.error());
  }
  AddZeros(chain, offset - std::max(span.begin, std::min(offset, size)));
  AddData(chain, state_.arena, data, unit(), turn);
  if (Status status = Append(chain, Fetch({end, kept_end}, turn + 1)); !status) {
    return std::unexpected(status.error());
  }
  AddZeros(chain, span.end - kept_end);
  return chain;
}

int64_t EngineFile::DoWrite(int64_t offset, ConstBytes data, uint64_t turn) {
  const ByteRange bytes{offset, offset + static_cast<int64_t>(data.size())};
  ByteRange span;
  const auto held = locks_.Lock(RangeLocks::Kind::kExclusive, [&] {
    span = SpanOf(bytes, IsWide(bytes.size(), turn));
    // Who writes the end of the file holds all that may come behind it.
    return ByteRange{span.begin, span.end > size_.load() ? kEnd : span.end};
  });
  Result<SliceChain> chain = Compose(span, offset, data, turn);
  if (!chain) return Failed("read for a write", span, chain.error());
  const Status status = contract::Append(
      state_.engine,
      {.file = file_, .offset = span.begin, .data = std::move(*chain), .mode = state_.writes});
  if (!status) {
    size_ = std::min(size_.load(), span.begin);
    return Failed("write", span, status.error());
  }
  if (bytes.end > size_.load()) size_ = bytes.end;
  return bytes.size();
}

int64_t EngineFile::Write(int64_t offset, ConstBytes data) {
  const int64_t written = DoWrite(offset, data, state_.turn++);
  if (written > 0) {
    ++state_.counts.writes;
    state_.counts.written_bytes += written;
  }
  return written;
}

int EngineFile::Truncate(int64_t size) {
  ++state_.counts.truncates;
  {
    const auto held = locks_.Lock(RangeLocks::Kind::kExclusive, [] { return ByteRange{0, kEnd}; });
    if (size <= size_.load()) {
      if (const Status status = contract::Truncate(state_.engine, file_, size); !status) {
        return Failed("truncate", {size, size_.load()}, status.error());
      }
      size_ = size;
      return 0;
    }
  }
  // Longer: as a write of nothing at the new end.
  return static_cast<int>(std::min<int64_t>(0, DoWrite(size, {}, state_.turn++)));
}

int EngineFile::Reserve(int64_t end, bool grows) {
  ++state_.counts.reserves;
  if (const Status status = contract::Reserve(state_.engine, file_, end); !status) {
    return Failed("reserve", {0, end}, status.error());
  }
  if (!grows || end <= size_.load()) return 0;
  return static_cast<int>(std::min<int64_t>(0, DoWrite(end, {}, state_.turn++)));
}

int EngineFile::Settle() {
  const Status status = contract::Truncate(state_.engine, file_, size());
  return status ? 0 : Failed("the last cut", {size(), size()}, status.error());
}

}  // namespace dovetail::judge
