// A ring whose kernel does what a test says: requests that are short, fail or hang as ScriptedCalls
// has it for the calls that they stand for, drawn faults, features and memory that are not granted,
// results that come late or in another order, wakes that are lost at first.
//
// Of a short transfer, what it claims to have read is right and what lies behind is garbage; of
// what it claims to have written, no more than that is there (direct: whole pages only). A request
// that fails never reaches the file.
//
// Threads: the ring's; ScriptedCalls and RingRules are the test's, the rules constant while rings
// live.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "engine/uring/ring_system.h"
#include "tests/contract/scripted_calls.h"

namespace dovetail::contract {

struct RingRules {
  // What this "kernel" does not know or grant.
  unsigned flags_refused = 0;
  unsigned features_missing = 0;
  std::vector<int> opcodes_missing = {};
  unsigned entries_max = UINT32_MAX;  // ENOMEM for larger rings
  int setup_error = 0;
  bool refuses_files = false;
  bool refuses_buffers = false;
  bool refuses_limits = false;

  // Drawn faults: chances per 1,000 requests, from a seed.
  uint64_t seed = 1;
  int short_per_mille = 0;
  int passing_per_mille = 0;  // EAGAIN, EINTR
  int error_per_mille = 0;    // EIO; ENOSPC for writes
  int late_per_mille = 0;
  bool reorders = false;
  int wakes_lost_per_mille = 0;   // the wake fails at first, or the request that waits for it does
  int enters_busy_per_mille = 0;  // EAGAIN, EBUSY, EINTR
};

class ScriptedRing : public engine::RingSystem {
 public:
  explicit ScriptedRing(std::shared_ptr<ScriptedCalls> calls, RingRules rules = {});

  int Setup(unsigned entries, io_uring& ring, io_uring_params& params) override;
  bool Offers(io_uring& ring, int opcode) override;
  void Submitting(io_uring_sqe& sqe) override;
  int Enter(io_uring& ring, bool wait, __kernel_timespec* timeout) override;
  size_t Reap(io_uring& ring, std::span<engine::Completion> out) override;
  int RegisterFiles(io_uring& ring, unsigned count) override;
  int UpdateFile(io_uring& ring, unsigned place, int fd) override;
  int RegisterBuffers(io_uring& ring, std::span<const iovec> buffers) override;
  int LimitWorkers(io_uring& ring, unsigned files, unsigned pipes) override;
  int Wake(int event_fd) override;

 private:
  // A request that is not left alone.
  struct Changed {
    std::optional<int32_t> result = {};
    std::vector<iovec> spoil = {};    // of a short read: all of its memory
    std::vector<iovec> written = {};  // of a short vectored write: what the kernel gets
    bool hangs = false;
    Kernel call = Kernel::kPreadv;
    int late_turns = 0;
  };

  bool Chance(int per_mille);
  std::optional<ScriptedCalls::Act> Draw(Kernel call);
  void Apply(const ScriptedCalls::Act& act, io_uring_sqe& sqe, Changed& changed);
  void ShortenWrite(io_uring_sqe& sqe, int64_t bytes, Changed& changed);
  bool IsDirect(const io_uring_sqe& sqe) const;
  // Whether it may be seen now.
  bool Ripe(Changed& changed);
  void Take(const engine::Completion& completion);

  const std::shared_ptr<ScriptedCalls> calls_;
  const RingRules rules_;
  std::mt19937_64 random_;
  std::map<unsigned, int> files_;  // by place
  std::map<uint64_t, Changed> changed_;
  std::deque<engine::Completion> held_;
  std::deque<engine::Completion> ready_;
};

}  // namespace dovetail::contract
