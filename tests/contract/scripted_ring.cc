#include "tests/contract/scripted_ring.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/hash.h"
#include "engine/uring/ring.h"

namespace dovetail::contract {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr auto kHeldPause = std::chrono::microseconds(200);

bool IsVectored(int opcode) { return opcode == IORING_OP_WRITEV || opcode == IORING_OP_READV; }

std::vector<iovec> MemoryOf(const io_uring_sqe& sqe) {
  auto* memory = reinterpret_cast<void*>(sqe.addr);
  if (sqe.opcode == IORING_OP_SPLICE) return {};
  if (!IsVectored(sqe.opcode)) return {{memory, sqe.len}};
  const auto* parts = static_cast<const iovec*>(memory);
  return {parts, parts + sqe.len};
}

int64_t SizeOf(const std::vector<iovec>& parts) {
  int64_t size = 0;
  for (const iovec& part : parts) size += static_cast<int64_t>(part.iov_len);
  return size;
}

std::vector<iovec> FirstBytes(const std::vector<iovec>& parts, int64_t bytes) {
  std::vector<iovec> first;
  for (const iovec& part : parts) {
    const size_t step = std::min(part.iov_len, static_cast<size_t>(bytes));
    if (step > 0) first.push_back({part.iov_base, step});
    bytes -= static_cast<int64_t>(step);
  }
  return first;
}

void SpoilBehind(const std::vector<iovec>& parts, int64_t bytes) {
  for (const iovec& part : parts) {
    const size_t keep = std::min(part.iov_len, static_cast<size_t>(bytes));
    std::memset(static_cast<std::byte*>(part.iov_base) + keep, 0xee, part.iov_len - keep);
    bytes -= static_cast<int64_t>(keep);
  }
}

// Of all the bytes. Also touches each piece at both ends, so that AddressSanitizer sees what was
// freed.
uint64_t SumOf(const std::vector<iovec>& parts) {
  uint64_t sum = 0;
  for (const iovec& part : parts) {
    const auto* bytes = static_cast<const volatile char*>(part.iov_base);
    sum +=
        static_cast<unsigned char>(bytes[0]) + static_cast<unsigned char>(bytes[part.iov_len - 1]);
    sum = MixBits(sum) ^
          std::hash<std::string_view>()({static_cast<const char*>(part.iov_base), part.iov_len});
  }
  return sum;
}

uint64_t FirstWordOf(const std::vector<iovec>& parts) {
  uint64_t word = 0;
  if (!parts.empty()) {
    std::memcpy(&word, parts[0].iov_base, std::min(sizeof(word), parts[0].iov_len));
  }
  return word;
}

bool SameList(const iovec* list, const std::vector<iovec>& memory) {
  return std::equal(memory.begin(), memory.end(), list, [](const iovec& a, const iovec& b) {
    return a.iov_base == b.iov_base && a.iov_len == b.iov_len;
  });
}

void MakeNothing(io_uring_sqe& sqe) {
  const uint64_t user_data = sqe.user_data;
  io_uring_prep_nop(&sqe);
  sqe.user_data = user_data;
}

}  // namespace

ScriptedRing::ScriptedRing(std::shared_ptr<ScriptedCalls> calls, RingRules rules)
    : calls_(std::move(calls)), rules_(std::move(rules)), random_(rules_.seed) {}

int ScriptedRing::Setup(unsigned entries, io_uring& ring, io_uring_params& params) {
  if (rules_.setup_error != 0) return -rules_.setup_error;
  if ((params.flags & rules_.flags_refused) != 0) return -EINVAL;
  if (entries > rules_.entries_max) return -ENOMEM;
  const int result = RingSystem::Setup(entries, ring, params);
  params.features &= ~rules_.features_missing;
  ring.features &= ~rules_.features_missing;
  return result;
}

bool ScriptedRing::Offers(io_uring& ring, int opcode) {
  const auto& missing = rules_.opcodes_missing;
  return std::find(missing.begin(), missing.end(), opcode) == missing.end() &&
         RingSystem::Offers(ring, opcode);
}

bool ScriptedRing::Chance(int per_mille) {
  return per_mille > 0 && static_cast<int>(random_() % 1000) < per_mille;
}

std::optional<Kernel> ScriptedRing::CallOf(const io_uring_sqe& sqe) {
  switch (sqe.opcode) {
    case IORING_OP_READ:
    case IORING_OP_READV:
      return Kernel::kPreadv;
    case IORING_OP_WRITE:
    case IORING_OP_WRITEV:
    case IORING_OP_WRITE_FIXED:
      return Kernel::kPwritev;
    case IORING_OP_SPLICE:
      return Kernel::kSplice;
    default:
      return std::nullopt;
  }
}

int ScriptedRing::FileOf(const io_uring_sqe& sqe) const {
  if (sqe.opcode == IORING_OP_SPLICE) return sqe.splice_fd_in;
  const bool fixed = (sqe.flags & IOSQE_FIXED_FILE) != 0;
  return fixed ? files_.at(static_cast<unsigned>(sqe.fd)) : sqe.fd;
}

void ScriptedRing::SubmitWaitForWake(io_uring_sqe& sqe) {
  if (sqe.opcode != IORING_OP_READ || !Chance(rules_.wakes_lost_per_mille)) return;
  MakeNothing(sqe);
  results_[sqe.user_data] = -EINTR;
  calls_->drawn().Met("ring: the wait for a wake ends");
}

void ScriptedRing::Submitting(io_uring_sqe& sqe) {
  const auto& missing = rules_.opcodes_missing;
  DOVETAIL_CHECK(std::find(missing.begin(), missing.end(), sqe.opcode) == missing.end());
  if (sqe.user_data >= engine::Ring::kUserDataMax) return SubmitWaitForWake(sqe);
  const std::optional<Kernel> call = CallOf(sqe);
  if (!call) return;
  const int fd = FileOf(sqe);
  Lent lent{.call = *call, .memory = MemoryOf(sqe)};
  lent.direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
  if (IsVectored(sqe.opcode)) lent.list = reinterpret_cast<const iovec*>(sqe.addr);
  const bool writes = *call == Kernel::kPwritev;
  if (writes) lent.sum = SumOf(lent.memory);
  const bool splices = *call == Kernel::kSplice;
  const ScriptedCalls::Target target{
      .fd = fd,
      .offset = static_cast<int64_t>(splices ? sqe.splice_off_in : sqe.off),
      .length = splices ? static_cast<int64_t>(sqe.len) : SizeOf(lent.memory),
      .content = writes ? FirstWordOf(lent.memory) : 0};
  const uint64_t user_data = sqe.user_data;
  if (const auto act = calls_->Draw(*call, target)) Apply(*act, sqe, lent);
  lent.hangs = calls_->BeginHang(*call);
  if (Chance(rules_.late_per_mille)) {
    lent.late_turns = 1 + static_cast<int>(random_() % 3);
    calls_->drawn().Met("ring: late");
  }
  DOVETAIL_CHECK(lent_.emplace(user_data, std::move(lent)).second);
}

void ScriptedRing::Apply(const ScriptedCalls::Act& act, io_uring_sqe& sqe, Lent& lent) {
  if (act.os_error != 0) {
    MakeNothing(sqe);
    lent.result = -act.os_error;
    return;
  }
  if (!act.short_bytes) return;
  const int64_t bytes = *act.short_bytes;
  if (lent.call == Kernel::kSplice) {
    sqe.len = static_cast<unsigned>(std::min<int64_t>(bytes, sqe.len));
    return;
  }
  if (bytes >= SizeOf(lent.memory)) return;
  lent.result = static_cast<int32_t>(bytes);
  if (lent.call == Kernel::kPwritev) {
    ShortenWrite(sqe, bytes, lent);
  } else {
    lent.spoils = true;
  }
}

void ScriptedRing::ShortenWrite(io_uring_sqe& sqe, int64_t bytes, Lent& lent) {
  const int64_t real = lent.direct ? bytes / kPageBytes * kPageBytes : bytes;
  if (real == 0) {
    MakeNothing(sqe);
  } else if (IsVectored(sqe.opcode)) {
    lent.written = FirstBytes(lent.memory, real);
    sqe.addr = reinterpret_cast<uint64_t>(lent.written.data());
    sqe.len = static_cast<unsigned>(lent.written.size());
  } else {
    sqe.len = static_cast<unsigned>(real);
  }
}

int ScriptedRing::Enter(io_uring& ring, bool wait, __kernel_timespec* timeout) {
  if (Chance(rules_.enters_busy_per_mille)) {
    calls_->drawn().Met("ring: takes nothing for the moment");
    constexpr int kErrors[] = {EAGAIN, EBUSY, EINTR};
    return -kErrors[random_() % std::size(kErrors)];
  }
  if (held_.empty() && ready_.empty()) return RingSystem::Enter(ring, wait, timeout);
  const int result = RingSystem::Enter(ring, /*wait=*/false, nullptr);
  if (wait && ready_.empty()) std::this_thread::sleep_for(kHeldPause);
  return result;
}

bool ScriptedRing::Ripe(Lent& lent) {
  if (lent.hangs && calls_->EndHang(lent.call)) lent.hangs = false;
  return !lent.hangs && lent.late_turns-- <= 0;
}

void ScriptedRing::Take(const engine::Completion& completion) {
  engine::Completion seen = completion;
  if (const auto changed = results_.find(completion.user_data); changed != results_.end()) {
    seen.result = changed->second;
    results_.erase(changed);
  }
  const auto found = lent_.find(completion.user_data);
  if (found == lent_.end()) return ready_.push_back(seen);
  Lent& lent = found->second;
  // Nobody but the kernel may touch it until the result is seen.
  if (!lent.sum) lent.sum = SumOf(lent.memory);
  DOVETAIL_CHECK(*lent.sum == SumOf(lent.memory));
  DOVETAIL_CHECK(lent.list == nullptr || SameList(lent.list, lent.memory));
  if (!Ripe(lent)) return held_.push_back(completion);
  if (lent.result && (!lent.spoils || seen.result > *lent.result)) {
    if (lent.spoils) SpoilBehind(lent.memory, *lent.result);
    seen.result = *lent.result;
  }
  lent_.erase(found);
  ready_.push_back(seen);
  if (rules_.repeats_a_result) seen_.push_back(seen);
}

void ScriptedRing::RepeatOne() {
  for (const engine::Completion& seen : seen_) {
    for (const auto& [user_data, lent] : lent_) {
      if (static_cast<uint32_t>(user_data) != static_cast<uint32_t>(seen.user_data)) continue;
      ready_.push_back(seen);
      seen_.clear();
      return;
    }
  }
}

size_t ScriptedRing::Reap(io_uring& ring, std::span<engine::Completion> out) {
  RepeatOne();
  for (size_t left = held_.size(); left > 0; --left) {
    const engine::Completion completion = held_.front();
    held_.pop_front();
    Take(completion);
  }
  std::vector<engine::Completion> batch(out.size());
  const size_t count = RingSystem::Reap(ring, batch);
  batch.resize(count);
  for (const engine::Completion& completion : batch) Take(completion);
  if (rules_.reorders && ready_.size() > 1) {
    std::shuffle(ready_.begin(), ready_.end(), random_);
    calls_->drawn().Met("ring: shuffled results");
  }
  const size_t seen = std::min(out.size(), ready_.size());
  std::copy_n(ready_.begin(), seen, out.begin());
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<int64_t>(seen));
  return seen;
}

int ScriptedRing::RegisterFiles(io_uring& ring, unsigned count) {
  return rules_.refuses_files ? -ENOMEM : RingSystem::RegisterFiles(ring, count);
}

int ScriptedRing::UpdateFile(io_uring& ring, unsigned place, int fd) {
  files_[place] = fd;
  return RingSystem::UpdateFile(ring, place, fd);
}

int ScriptedRing::RegisterBuffers(io_uring& ring, std::span<const iovec> buffers) {
  return rules_.refuses_buffers ? -ENOMEM : RingSystem::RegisterBuffers(ring, buffers);
}

int ScriptedRing::LimitWorkers(io_uring& ring, unsigned files, unsigned pipes) {
  return rules_.refuses_limits ? -EINVAL : RingSystem::LimitWorkers(ring, files, pipes);
}

int ScriptedRing::Wake(int event_fd) {
  // Any thread, so it draws from elsewhere.
  const uint64_t number = MixBits(rules_.seed + wakes_.fetch_add(1) * 0x9E3779B97F4A7C15ULL);
  if (static_cast<int>(number % 1000) < rules_.wakes_lost_per_mille) {
    calls_->drawn().Met("ring: a wake is lost at first");
    return -EINTR;
  }
  return RingSystem::Wake(event_fd);
}

}  // namespace dovetail::contract
