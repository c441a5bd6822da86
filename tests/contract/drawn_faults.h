// Faults of system calls and requests that are drawn from a seed.
//
// What a call meets depends on the seed, on the file, on what is asked of it and on how often just
// that was asked before. It does not depend on what other threads do meanwhile, so the same work
// meets the same faults again. (The counts of what was asked are forgotten after a million.)
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace dovetail::contract {

enum class Kernel : uint8_t {
  kPreadv,
  kPwritev,
  kFallocate,
  kFtruncate,
  kOpenBelow,
  kUnlinkAt,
  kClose,
  kSplice
};
inline constexpr int kKernelCalls = 8;

// What one call does instead of its work.
struct KernelAct {
  int os_error = 0;
  // Of a transfer: it says that so many bytes were done. What it claims to have read is right,
  // what lies behind is garbage; of what it claims to have written direct, whole pages are there.
  std::optional<int64_t> short_bytes = {};
};

// Chances per 1,000 calls.
struct FaultRates {
  uint64_t seed = 1;
  // Of transfers: short, EINTR or EAGAIN, EIO or (writes) ENOSPC.
  int short_per_mille = 0;
  int passing_per_mille = 0;
  int error_per_mille = 0;
  // Of fallocate and ftruncate: EINTR as often as EIO or (fallocate) ENOSPC.
  int control_error_per_mille = 0;
};

class DrawnFaults {
 public:
  // What a call is asked to do.
  struct Target {
    int fd = -1;
    int64_t offset = 0;
    int64_t length = 0;
    uint64_t content = 0;  // of what is written: the same range may be written with other bytes
  };

  // Before the first call.
  void SetRates(const FaultRates& rates) { rates_ = rates; }

  std::optional<KernelAct> Draw(Kernel call, const Target& target);

  // Notes that something was met, drawn or not.
  void Met(const std::string& event);
  // How often each kind of event was met.
  std::map<std::string, int64_t> met() const;

 private:
  // The same number for the same call that is made as often as that before.
  uint64_t NumberOf(Kernel call, const Target& target);
  std::optional<KernelAct> DrawShort(Kernel call, const Target& target, uint64_t number);

  FaultRates rates_;  // constant while calls are made
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, uint32_t> asked_;  // guarded by mutex_
  std::map<std::string, int64_t> met_;            // guarded by mutex_
};

}  // namespace dovetail::contract
