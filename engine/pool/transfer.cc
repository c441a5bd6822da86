#include "engine/pool/transfer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <thread>

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/errno.h"

namespace dovetail::engine {
namespace {

constexpr size_t kPartsPerCallMax = IOV_MAX;
// Calls in a row that brought nothing. A file that says EAGAIN or writes nothing for that long is
// broken, and a loop without an end would hold its thread for ever.
constexpr int kStallsMax = 1000;
constexpr Milliseconds kStallPause{1};

// Counts what must be continued, and decides when that has no end.
class Stalls {
 public:
  explicit Stalls(EngineCounters& counters) : counters_(counters) {}

  // After a call that was short, interrupted, or refused for the moment. os_error: 0 for short.
  // False when it is time to give up.
  bool Continue(bool gained, int os_error) {
    counters_.continued.fetch_add(1, std::memory_order_relaxed);
    if (gained) {
      count_ = 0;
      return true;
    }
    if (++count_ > kStallsMax) return false;
    if (os_error != EINTR && count_ > 1) std::this_thread::sleep_for(kStallPause);
    return true;
  }

 private:
  EngineCounters& counters_;
  int count_ = 0;
};

bool IsPassing(int os_error) { return os_error == EINTR || os_error == EAGAIN; }

}  // namespace

Parts::Parts(const SliceChain& chain) {
  parts_.reserve(chain.size());
  for (const Slice& slice : chain) {
    // The kernel only reads from there; iovec knows no const.
    Add(const_cast<std::byte*>(slice.bytes.data()), slice.bytes.size());
  }
}

void Parts::Add(void* data, size_t bytes) {
  if (bytes == 0) return;
  parts_.push_back({data, bytes});
  left_ += static_cast<int64_t>(bytes);
}

std::span<const iovec> Parts::Next() const {
  const std::span<const iovec> rest = std::span(parts_).subspan(first_);
  return rest.first(std::min(rest.size(), kPartsPerCallMax));
}

void Parts::Advance(int64_t bytes) {
  DOVETAIL_CHECK(bytes >= 0 && bytes <= left_);
  left_ -= bytes;
  auto rest = static_cast<size_t>(bytes);
  while (rest > 0) {
    iovec& part = parts_[first_];
    const size_t step = std::min(rest, part.iov_len);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + step;
    part.iov_len -= step;
    rest -= step;
    if (part.iov_len == 0) ++first_;
  }
}

Status WriteAll(const Wire& wire, int fd, Parts parts, int64_t offset, int64_t granularity) {
  Stalls stalls(wire.counters);
  while (parts.left() > 0) {
    const int64_t result = wire.calls.Pwritev(fd, parts.Next(), offset);
    if (result < 0 && !IsPassing(static_cast<int>(-result))) {
      return FailErrno("append", static_cast<int>(-result));
    }
    const int64_t written = std::max<int64_t>(result, 0);
    DOVETAIL_CHECK(written <= parts.left());
    const int64_t gained = written == parts.left() ? written : written - written % granularity;
    parts.Advance(gained);
    offset += gained;
    const int os_error = result < 0 ? static_cast<int>(-result) : 0;
    if (parts.left() > 0 && !stalls.Continue(gained > 0, os_error)) {
      return Fail(ErrorCode::kIo, "append: no progress", os_error);
    }
  }
  return {};
}

Status ReadAll(const Wire& wire, const ReadFrom& from, Parts parts, int64_t offset,
               int64_t needed) {
  DOVETAIL_CHECK(needed <= parts.left());
  Stalls stalls(wire.counters);
  int fd = from.fd;
  while (needed > 0) {
    const int64_t result = wire.calls.Preadv(fd, parts.Next(), offset);
    if (result == 0) return Fail(ErrorCode::kCorrupt, "end");
    if (result < 0 && !IsPassing(static_cast<int>(-result))) {
      return FailErrno("read", static_cast<int>(-result));
    }
    const int64_t read = std::max<int64_t>(result, 0);
    parts.Advance(read);
    offset += read;
    needed -= read;
    if (read % from.granularity != 0) fd = from.fd_any_offset;
    const int os_error = result < 0 ? static_cast<int>(-result) : 0;
    if (needed > 0 && !stalls.Continue(read > 0, os_error)) {
      return Fail(ErrorCode::kIo, "read: no progress", os_error);
    }
  }
  return {};
}

}  // namespace dovetail::engine
