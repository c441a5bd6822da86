#include "tests/contract/scripted_calls.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "engine/base/check.h"

namespace dovetail::contract {
namespace {

constexpr int64_t kPageBytes = 4096;

size_t IndexOf(Kernel call) { return static_cast<size_t>(call); }

int64_t SizeOf(std::span<const iovec> parts) {
  int64_t size = 0;
  for (const iovec& part : parts) size += static_cast<int64_t>(part.iov_len);
  return size;
}

std::vector<iovec> FirstBytes(std::span<const iovec> parts, int64_t bytes) {
  std::vector<iovec> first;
  for (const iovec& part : parts) {
    const size_t step = std::min(part.iov_len, static_cast<size_t>(bytes));
    if (step == 0) break;
    first.push_back({part.iov_base, step});
    bytes -= static_cast<int64_t>(step);
  }
  return first;
}

void SpoilBehind(std::span<const iovec> parts, int64_t bytes) {
  for (const iovec& part : parts) {
    const size_t keep = std::min(part.iov_len, static_cast<size_t>(bytes));
    std::memset(static_cast<std::byte*>(part.iov_base) + keep, 0xee, part.iov_len - keep);
    bytes -= static_cast<int64_t>(keep);
  }
}

}  // namespace

void ScriptedCalls::Next(Kernel call, Act act) { After(call, 0, act); }

void ScriptedCalls::After(Kernel call, int calls, Act act) {
  std::lock_guard lock(mutex_);
  for (int i = 0; i < calls; ++i) next_[IndexOf(call)].push_back(std::nullopt);
  next_[IndexOf(call)].push_back(act);
}

void ScriptedCalls::Always(Kernel call, Act act) {
  std::lock_guard lock(mutex_);
  always_[IndexOf(call)] = act;
}

void ScriptedCalls::Heal() {
  std::lock_guard lock(mutex_);
  for (auto& act : always_) act.reset();
  for (auto& acts : next_) acts.clear();
}

void ScriptedCalls::Hang(Kernel call) {
  std::lock_guard lock(mutex_);
  hang_[IndexOf(call)] = true;
}

void ScriptedCalls::Release() {
  std::lock_guard lock(mutex_);
  for (bool& hang : hang_) hang = false;
  changed_.notify_all();
}

void ScriptedCalls::WaitUntilHung(Kernel call, int calls) {
  constexpr std::chrono::minutes kLongest{1};
  DOVETAIL_CHECK(HangBefore(std::chrono::steady_clock::now() + kLongest, call, calls));
}

bool ScriptedCalls::HangBefore(TimePoint deadline, Kernel call, int calls) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return hung_[IndexOf(call)] >= calls; });
}

int64_t ScriptedCalls::count(Kernel call) const {
  std::lock_guard lock(mutex_);
  return count_[IndexOf(call)];
}

int64_t ScriptedCalls::reserve_offset() const {
  std::lock_guard lock(mutex_);
  return reserve_offset_;
}

int64_t ScriptedCalls::reserve_length() const {
  std::lock_guard lock(mutex_);
  return reserve_length_;
}

std::optional<ScriptedCalls::Act> ScriptedCalls::Enter(Kernel call, const Target& target) {
  const size_t index = IndexOf(call);
  std::unique_lock lock(mutex_);
  ++count_[index];
  ++hung_[index];
  changed_.notify_all();
  changed_.wait(lock, [&] { return !hang_[index]; });
  --hung_[index];
  if (auto act = TakeAct(index)) return act;
  return drawn_.Draw(call, target);
}

std::optional<ScriptedCalls::Act> ScriptedCalls::TakeAct(size_t index) {
  if (next_[index].empty()) return always_[index];
  const std::optional<Act> act = next_[index].front();
  next_[index].pop_front();
  return act;
}

std::optional<ScriptedCalls::Act> ScriptedCalls::Draw(Kernel call, const Target& target) {
  std::lock_guard lock(mutex_);
  ++count_[IndexOf(call)];
  if (auto act = TakeAct(IndexOf(call))) return act;
  return drawn_.Draw(call, target);
}

bool ScriptedCalls::BeginHang(Kernel call) {
  std::lock_guard lock(mutex_);
  if (!hang_[IndexOf(call)]) return false;
  ++hung_[IndexOf(call)];
  changed_.notify_all();
  return true;
}

bool ScriptedCalls::EndHang(Kernel call) {
  std::lock_guard lock(mutex_);
  if (hang_[IndexOf(call)]) return false;
  --hung_[IndexOf(call)];
  return true;
}

int64_t ScriptedCalls::Preadv(int fd, std::span<const iovec> parts, int64_t offset) {
  const auto act = Enter(Kernel::kPreadv, {fd, offset, SizeOf(parts)});
  if (act && act->os_error != 0) return -act->os_error;
  const int64_t read = SystemCalls::Preadv(fd, parts, offset);
  if (!act || !act->short_bytes || read <= *act->short_bytes) return read;
  SpoilBehind(parts, *act->short_bytes);
  return *act->short_bytes;
}

int64_t ScriptedCalls::Pwritev(int fd, std::span<const iovec> parts, int64_t offset) {
  const auto act = Enter(Kernel::kPwritev, {fd, offset, SizeOf(parts)});
  if (act && act->os_error != 0) return -act->os_error;
  if (!act || !act->short_bytes) return SystemCalls::Pwritev(fd, parts, offset);
  const bool direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
  const int64_t real = direct ? *act->short_bytes / kPageBytes * kPageBytes : *act->short_bytes;
  const std::vector<iovec> first = FirstBytes(parts, real);
  if (!first.empty()) {
    const int64_t written = SystemCalls::Pwritev(fd, first, offset);
    if (written != real) return written;
  }
  return *act->short_bytes;
}

int64_t ScriptedCalls::Splice(int fd, int64_t offset, int pipe, int64_t length) {
  const auto act = Enter(Kernel::kSplice, {fd, offset, length});
  if (act && act->os_error != 0) return -act->os_error;
  if (act && act->short_bytes) length = std::min(length, *act->short_bytes);
  return SystemCalls::Splice(fd, offset, pipe, length);
}

int ScriptedCalls::Fallocate(int fd, int64_t offset, int64_t length) {
  const auto act = Enter(Kernel::kFallocate, {fd, offset, length});
  {
    std::lock_guard lock(mutex_);
    reserve_offset_ = offset;
    reserve_length_ = length;
  }
  return act ? -act->os_error : SystemCalls::Fallocate(fd, offset, length);
}

int ScriptedCalls::Ftruncate(int fd, int64_t size) {
  const auto act = Enter(Kernel::kFtruncate, {fd, size, 0});
  return act ? -act->os_error : SystemCalls::Ftruncate(fd, size);
}

int ScriptedCalls::OpenBelow(int folder, const char* path, int flags, int mode) {
  const auto act = Enter(Kernel::kOpenBelow);
  return act ? -act->os_error : SystemCalls::OpenBelow(folder, path, flags, mode);
}

int ScriptedCalls::UnlinkAt(int folder, const char* name, int flags) {
  const auto act = Enter(Kernel::kUnlinkAt);
  return act ? -act->os_error : SystemCalls::UnlinkAt(folder, name, flags);
}

int ScriptedCalls::Close(int fd) {
  const auto act = Enter(Kernel::kClose);
  return act ? -act->os_error : SystemCalls::Close(fd);
}

}  // namespace dovetail::contract
