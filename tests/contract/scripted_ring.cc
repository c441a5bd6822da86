#include "tests/contract/scripted_ring.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "engine/base/check.h"
#include "engine/uring/ring.h"

namespace dovetail::contract {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr auto kHeldPause = std::chrono::microseconds(200);

bool IsWrite(int opcode) {
  return opcode == IORING_OP_WRITE || opcode == IORING_OP_WRITEV || opcode == IORING_OP_WRITE_FIXED;
}
bool IsRead(int opcode) { return opcode == IORING_OP_READ || opcode == IORING_OP_READV; }
bool IsVectored(int opcode) { return opcode == IORING_OP_WRITEV || opcode == IORING_OP_READV; }

std::vector<iovec> MemoryOf(const io_uring_sqe& sqe) {
  auto* memory = reinterpret_cast<void*>(sqe.addr);
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

std::optional<ScriptedCalls::Act> ScriptedRing::Draw(Kernel call) {
  if (auto scripted = calls_->Draw(call)) return scripted;
  if (Chance(rules_.passing_per_mille)) {
    return ScriptedCalls::Act{.os_error = random_() % 2 == 0 ? EAGAIN : EINTR};
  }
  if (Chance(rules_.error_per_mille)) {
    const bool full = call == Kernel::kPwritev && random_() % 2 == 0;
    return ScriptedCalls::Act{.os_error = full ? ENOSPC : EIO};
  }
  if (Chance(rules_.short_per_mille)) {
    constexpr int64_t kBytes[] = {0, 1, 511, 4095, 4096, -1};
    int64_t bytes = kBytes[random_() % std::size(kBytes)];
    if (bytes == 0 && call == Kernel::kPreadv) bytes = 1;  // 0 is the end of the file
    return ScriptedCalls::Act{.short_bytes = bytes};
  }
  return std::nullopt;
}

void ScriptedRing::Submitting(io_uring_sqe& sqe) {
  const auto& missing = rules_.opcodes_missing;
  DOVETAIL_CHECK(std::find(missing.begin(), missing.end(), sqe.opcode) == missing.end());
  Changed changed;
  if (sqe.user_data >= engine::Ring::kUserDataMax) {
    // The one that waits for wakes.
    if (sqe.opcode != IORING_OP_READ || !Chance(rules_.wakes_lost_per_mille)) return;
    MakeNothing(sqe);
    changed.result = -EINTR;
    changed_.emplace(sqe.user_data, std::move(changed));
    return;
  }
  if (!IsRead(sqe.opcode) && !IsWrite(sqe.opcode)) return;
  changed.call = IsRead(sqe.opcode) ? Kernel::kPreadv : Kernel::kPwritev;
  if (const auto act = Draw(changed.call)) Apply(*act, sqe, changed);
  changed.hangs = calls_->BeginHang(changed.call);
  if (Chance(rules_.late_per_mille)) changed.late_turns = 1 + static_cast<int>(random_() % 3);
  DOVETAIL_CHECK(changed_.emplace(sqe.user_data, std::move(changed)).second);
}

bool ScriptedRing::IsDirect(const io_uring_sqe& sqe) const {
  const bool fixed = (sqe.flags & IOSQE_FIXED_FILE) != 0;
  const int fd = fixed ? files_.at(static_cast<unsigned>(sqe.fd)) : sqe.fd;
  return (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
}

void ScriptedRing::Apply(const ScriptedCalls::Act& act, io_uring_sqe& sqe, Changed& changed) {
  if (act.os_error != 0) {
    MakeNothing(sqe);
    changed.result = -act.os_error;
    return;
  }
  if (!act.short_bytes) return;
  const std::vector<iovec> memory = MemoryOf(sqe);
  const int64_t bytes = *act.short_bytes < 0 ? SizeOf(memory) - 1 : *act.short_bytes;
  // A drawn read of nothing would be the end of the file.
  if (bytes >= SizeOf(memory) || (bytes == 0 && *act.short_bytes < 0)) return;
  changed.result = static_cast<int32_t>(bytes);
  if (IsWrite(sqe.opcode)) {
    ShortenWrite(sqe, bytes, changed);
  } else {
    changed.spoil = memory;
  }
}

void ScriptedRing::ShortenWrite(io_uring_sqe& sqe, int64_t bytes, Changed& changed) {
  const int64_t real = IsDirect(sqe) ? bytes / kPageBytes * kPageBytes : bytes;
  if (real == 0) {
    MakeNothing(sqe);
  } else if (IsVectored(sqe.opcode)) {
    changed.written = FirstBytes(MemoryOf(sqe), real);
    sqe.addr = reinterpret_cast<uint64_t>(changed.written.data());
    sqe.len = static_cast<unsigned>(changed.written.size());
  } else {
    sqe.len = static_cast<unsigned>(real);
  }
}

int ScriptedRing::Enter(io_uring& ring, bool wait, __kernel_timespec* timeout) {
  if (Chance(rules_.enters_busy_per_mille)) {
    constexpr int kErrors[] = {EAGAIN, EBUSY, EINTR};
    return -kErrors[random_() % std::size(kErrors)];
  }
  if (held_.empty() && ready_.empty()) return RingSystem::Enter(ring, wait, timeout);
  const int result = RingSystem::Enter(ring, /*wait=*/false, nullptr);
  if (wait && ready_.empty()) std::this_thread::sleep_for(kHeldPause);
  return result;
}

bool ScriptedRing::Ripe(Changed& changed) {
  if (changed.hangs && calls_->EndHang(changed.call)) changed.hangs = false;
  return !changed.hangs && changed.late_turns-- <= 0;
}

void ScriptedRing::Take(const engine::Completion& completion) {
  const auto found = changed_.find(completion.user_data);
  if (found == changed_.end()) return ready_.push_back(completion);
  if (!Ripe(found->second)) return held_.push_back(completion);
  engine::Completion seen = completion;
  const Changed& changed = found->second;
  if (changed.result && (changed.spoil.empty() || seen.result > *changed.result)) {
    if (!changed.spoil.empty()) SpoilBehind(changed.spoil, *changed.result);
    seen.result = *changed.result;
  }
  changed_.erase(found);
  ready_.push_back(seen);
}

size_t ScriptedRing::Reap(io_uring& ring, std::span<engine::Completion> out) {
  for (size_t left = held_.size(); left > 0; --left) {
    const engine::Completion completion = held_.front();
    held_.pop_front();
    Take(completion);
  }
  std::vector<engine::Completion> batch(out.size());
  const size_t count = RingSystem::Reap(ring, batch);
  batch.resize(count);
  for (const engine::Completion& completion : batch) Take(completion);
  if (rules_.reorders) std::shuffle(ready_.begin(), ready_.end(), random_);
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
  thread_local std::mt19937_64 random(7);
  if (static_cast<int>(random() % 1000) < rules_.wakes_lost_per_mille) return -EINTR;
  return RingSystem::Wake(event_fd);
}

}  // namespace dovetail::contract
