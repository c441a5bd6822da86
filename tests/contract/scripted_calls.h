// System calls that do what a test says: be short, fail, or hang until they are released. Every
// call that nothing is said about is the real one.
//
// Threads: any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "engine/base/clock.h"
#include "engine/system_calls.h"
#include "tests/contract/drawn_faults.h"

namespace dovetail::contract {

class ScriptedCalls : public engine::SystemCalls {
 public:
  using Act = KernelAct;
  using Target = DrawnFaults::Target;

  // The next calls of that kind do these, in order of Next.
  void Next(Kernel call, Act act);
  // Skips so many calls first.
  void After(Kernel call, int calls, Act act);
  // Every call of that kind, until Heal.
  void Always(Kernel call, Act act);
  void Heal();
  // Every call of that kind waits before it does anything, until Release.
  void Hang(Kernel call);
  void Release();
  // Waits until so many calls of that kind hang. Ends the process when that takes a minute.
  void WaitUntilHung(Kernel call, int calls);
  // The same at most until then; whether they hang.
  bool HangBefore(TimePoint deadline, Kernel call, int calls);

  // What calls do that nothing else is said about, and what was met.
  DrawnFaults& drawn() { return drawn_; }

  // For a ring, which cannot wait in a call. What the next one of that kind does; counts it.
  std::optional<Act> Draw(Kernel call, const Target& target);
  // Whether calls of that kind hang; counts this one among them.
  bool BeginHang(Kernel call);
  // Whether they were released; counts this one no more then.
  bool EndHang(Kernel call);

  int64_t count(Kernel call) const;
  // The offset and length of the last fallocate.
  int64_t reserve_offset() const;
  int64_t reserve_length() const;

  int64_t Preadv(int fd, std::span<const iovec> parts, int64_t offset) override;
  int64_t Pwritev(int fd, std::span<const iovec> parts, int64_t offset) override;
  int64_t Splice(int fd, int64_t offset, int pipe, int64_t length) override;
  int Fallocate(int fd, int64_t offset, int64_t length) override;
  int Ftruncate(int fd, int64_t size) override;
  int OpenBelow(int folder, const char* path, int flags, int mode) override;
  int UnlinkAt(int folder, const char* name, int flags) override;
  int Close(int fd) override;

 private:
  std::optional<Act> TakeAct(size_t index);  // REQUIRES mutex_
  // Counts the call, waits while it hangs, and takes its act.
  std::optional<Act> Enter(Kernel call, const Target& target = {});

  DrawnFaults drawn_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<std::optional<Act>> next_[kKernelCalls];
  std::optional<Act> always_[kKernelCalls];
  bool hang_[kKernelCalls] = {};
  int hung_[kKernelCalls] = {};
  int64_t count_[kKernelCalls] = {};
  int64_t reserve_offset_ = 0;
  int64_t reserve_length_ = 0;
};

}  // namespace dovetail::contract
