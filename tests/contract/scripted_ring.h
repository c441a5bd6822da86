// A ring whose kernel does what a test says: requests that are short, fail or hang as ScriptedCalls
// has it (told or drawn) for the calls that they stand for, features and memory that are not
// granted, results that come late, in another order or once more, wakes that are lost at first.
//
// Of a short transfer, what it claims to have read is right and what lies behind is garbage; of
// what it claims to have written, no more than that is there (direct: whole pages only). A request
// that fails never reaches the file. What a request was given (its bytes, and the list of where
// they are) must be as it was until its result is seen: it looks, and ends the process if not.
//
// Threads: the ring's; ScriptedCalls and RingRules are the test's, the rules constant while rings
// live.
#pragma once

#include <sys/uio.h>

#include <atomic>
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

  // What changes no result: chances per 1,000 requests, from a seed.
  uint64_t seed = 1;
  int late_per_mille = 0;
  bool reorders = false;
  int wakes_lost_per_mille = 0;   // the wake fails at first, or the request that waits for it does
  int enters_busy_per_mille = 0;  // EAGAIN, EBUSY, EINTR
  // A result is shown again when its place is in use by the next request.
  bool repeats_a_result = false;
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
  // A request that stands for a call.
  struct Lent {
    Kernel call = Kernel::kPreadv;
    bool direct = false;
    const iovec* list = nullptr;  // where the memory is, if it is several pieces
    std::vector<iovec> memory = {};
    std::optional<uint64_t> sum = {};  // of the bytes; of a read: as the kernel has left them

    std::optional<int32_t> result = {};
    bool spoils = false;              // short read: the memory behind it
    std::vector<iovec> written = {};  // of a short vectored write: what the kernel gets
    bool hangs = false;
    int late_turns = 0;
  };

  bool Chance(int per_mille);
  int FileOf(const io_uring_sqe& sqe) const;
  static std::optional<Kernel> CallOf(const io_uring_sqe& sqe);
  void SubmitWaitForWake(io_uring_sqe& sqe);
  void Apply(const ScriptedCalls::Act& act, io_uring_sqe& sqe, Lent& lent);
  static void ShortenWrite(io_uring_sqe& sqe, int64_t bytes, Lent& lent);
  // Whether it may be seen now.
  bool Ripe(Lent& lent);
  void Take(const engine::Completion& completion);
  void RepeatOne();

  const std::shared_ptr<ScriptedCalls> calls_;
  const RingRules rules_;
  std::mt19937_64 random_;
  std::atomic<uint64_t> wakes_{0};
  std::map<unsigned, int> files_;        // by place
  std::map<uint64_t, int32_t> results_;  // that were changed, of requests that stand for no call
  std::map<uint64_t, Lent> lent_;        // by user_data
  std::deque<engine::Completion> held_;
  std::deque<engine::Completion> ready_;
  std::vector<engine::Completion> seen_;  // to be shown again
};

}  // namespace dovetail::contract
