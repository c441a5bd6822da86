#include "engine/transfer.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <thread>
#include <utility>

#include "engine/base/check.h"
#include "engine/errno.h"

namespace dovetail::engine {
namespace {

constexpr size_t kPartsPerCallMax = IOV_MAX;
// Calls in a row that brought nothing.
constexpr int kStallsMax = 1000;
constexpr Milliseconds kStallPause{1};

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

bool IsPassing(int os_error) { return os_error == EINTR || os_error == EAGAIN; }

void PauseFor(Milliseconds pause) {
  if (pause > Milliseconds::zero()) std::this_thread::sleep_for(pause);
}

std::optional<Milliseconds> Stalls::Continue(bool gained, int os_error) {
  counters_->continued.fetch_add(1, std::memory_order_relaxed);
  if (gained) {
    count_ = 0;
    return Milliseconds::zero();
  }
  if (++count_ > kStallsMax) return std::nullopt;
  return os_error != EINTR && count_ > 1 ? kStallPause : Milliseconds::zero();
}

Transfer::Transfer(const Plan& plan, Parts parts, EngineCounters& counters)
    : plan_(plan), parts_(std::move(parts)), stalls_(counters) {
  DOVETAIL_CHECK(plan.way == Way::kRead ? plan.needed <= parts_.left()
                                        : plan.needed == parts_.left());
}

Result<Milliseconds> Transfer::Take(int64_t result) {
  DOVETAIL_CHECK(!done());
  const bool reads = plan_.way == Way::kRead;
  const int os_error = result < 0 ? static_cast<int>(-result) : 0;
  if (reads && result == 0) return Fail(ErrorCode::kCorrupt, "end");
  if (os_error != 0 && !IsPassing(os_error)) return FailErrno(reads ? "read" : "append", os_error);

  int64_t called = 0;  // what this call was for
  for (const iovec& part : parts_.Next()) called += static_cast<int64_t>(part.iov_len);
  const int64_t moved = std::max<int64_t>(result, 0);
  DOVETAIL_CHECK(moved <= called);
  const int64_t gained =
      reads || moved == parts_.left() ? moved : moved - moved % plan_.granularity;
  parts_.Advance(gained);
  plan_.offset += gained;
  plan_.needed -= gained;
  if (done()) return Milliseconds::zero();
  if (moved == called) return Milliseconds::zero();  // more pieces than one call takes
  if (reads && moved % plan_.granularity != 0) plan_.fd = plan_.fd_any_offset;
  const auto pause = stalls_.Continue(gained > 0, os_error);
  if (!pause) {
    return Fail(ErrorCode::kIo, reads ? "read: no progress" : "append: no progress", os_error);
  }
  return *pause;
}

}  // namespace dovetail::engine
