// A decorator that makes any engine fail, the way disks do: with an errno before anything happened;
// in the middle of an append, whose bytes then really went to the inner engine and are cut off
// again (or are left, when the cut fails too); full after so many bytes; late; in another order; or
// never.
//
// What happens is drawn from a seed at the time of each call, one draw a call, so the same calls in
// the same order meet the same faults; Log() names them. Beside the chances there are switches for
// scripted tests. The contract (engine/engine.h) is kept throughout: with no faults this engine
// passes its suite.
//
// Threads: any may call. Completions run on the inner engine's threads or, when they are late, on
// one of this engine's own; over a stepped MemEngine everything runs in RunOne, on the caller.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/engine.h"
#include "tests/fakes/mem_engine.h"

namespace dovetail::fakes {

enum class Call : uint8_t {
  kOpen,
  kAppend,
  kRead,
  kReserve,
  kTruncate,
  kRemove,
  kRemoveFolder,
  kSpace,
  kToPipe
};
inline constexpr size_t kCalls = 9;

struct FaultOptions {
  uint64_t seed = 1;
  // Chances per 1,000 calls that a call fails, by Call.
  int fail_per_mille[kCalls] = {};
  // What they fail with, drawn evenly. Opens, reads and removals that draw ENOSPC say EIO.
  std::vector<int> errnos = {};
  // Of the appends that fail: chance that some of their bytes were written; and of those, that
  // they could not be cut off again.
  int torn_per_mille = 500;
  int rollback_fails_per_mille = 0;
  // Chance that a completion is held back: delivered after others that came later.
  int late_per_mille = 0;
  int late_us_max = 2000;  // at most so long; not over a stepped engine, where RunOne decides
  Clock clock = SteadyClock();
};

class FaultEngine : public engine::Engine {
 public:
  // Over a stepped MemEngine it is stepped too: no thread, nothing happens but in RunOne.
  FaultEngine(engine::Engine& inner, FaultOptions options);
  // REQUIRES: the last Stop, if any, returned true.
  ~FaultEngine() override;
  FaultEngine(const FaultEngine&) = delete;
  FaultEngine& operator=(const FaultEngine&) = delete;

  void Open(std::string path, bool create, OpenDone done) override;
  void Append(engine::AppendRequest request, Done done) override;
  void Read(engine::ReadRequest request, ReadDone done) override;
  void ToPipe(engine::PipeRequest request, Done done) override;
  void Reserve(engine::FileRef file, int64_t end, Done done) override;
  void Truncate(engine::FileRef file, int64_t size, Done done) override;
  void Remove(std::string path, Done done) override;
  void RemoveFolder(std::string path, Done done) override;
  void Space(SpaceDone done) override;
  int shards() const override { return inner_.shards(); }
  bool Post(int shard, std::move_only_function<void()> task) override;
  int64_t in_flight() const override;
  // Stops the inner engine too.
  [[nodiscard]] bool Stop(TimePoint deadline) override;

  // Switches for scripts.
  // The next call of that kind fails; of an append, after so many bytes were written.
  void FailNext(Call call, int os_error, int64_t after_bytes = 0, bool rollback_fails = false);
  // Every one does, until Heal (which also lets what hangs go on, and turns the chances off).
  void FailAll(Call call, int os_error);
  // Every one waits before it begins, until LetGo or its deadline (kTimeout).
  void HangAll(Call call);
  void LetGo();
  void Heal();
  // Appends get ENOSPC when that many more bytes are written, in the middle of the one that passes
  // the limit.
  void SetSpace(int64_t bytes);

  // Over a stepped engine: does one thing, drawn from the seed, of all that could happen now. False
  // when nothing could but what hangs.
  bool RunOne();
  bool RunAll();

  int64_t injected() const;
  int64_t hanging() const;
  // One line a fault, such as "append 12: errno 28 after 512 bytes".
  std::vector<std::string> Log() const;

 private:
  struct Fault {
    int os_error = 0;  // 0: none
    int64_t after_bytes = 0;
    bool rollback_fails = false;
    bool late = false;
    bool hangs = false;
  };
  struct Hung {
    TimePoint deadline;
    // Begins the call, or ends it with the error.
    std::move_only_function<void(std::optional<Error>)> go;
  };
  struct Late {
    TimePoint at;
    std::move_only_function<void()> deliver;
  };
  using Lock = std::unique_lock<std::mutex>;

  // One draw. REQUIRES mutex_.
  Fault Draw(Call call, int64_t bytes);
  void ApplySpace(Fault& fault, int64_t bytes);
  void Note(Call call, const Fault& fault);

  // Accepts the call: draws its fault, then begins it, holds it, or refuses it.
  template <class Start>
  void Enter(Call call, int64_t bytes, TimePoint deadline, Start start);
  // A call that takes no bytes and has no deadline.
  void EnterSimple(Call call, std::move_only_function<void(Done)> begin, Done done);
  // Ends a call: now, or later when its fault says so.
  void Leave(bool late, std::move_only_function<void()> deliver);
  void Deliver(std::move_only_function<void()> deliver);
  void BeginTorn(engine::AppendRequest request, const Fault& fault, Done done);
  bool TakeExpired(Lock& lock);
  bool TakeLate(Lock& lock, bool any);
  void Loop();

  engine::Engine& inner_;
  MemEngine* const stepped_;  // the inner engine, when it is a stepped one

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  FaultOptions options_;
  std::mt19937_64 random_;  // of the faults
  std::mt19937_64 order_;   // of what a stepped engine does next
  std::optional<int> fail_all_[kCalls];
  bool hang_all_[kCalls] = {};
  std::deque<Fault> fail_next_[kCalls];
  int64_t calls_[kCalls] = {};
  int64_t space_bytes_ = std::numeric_limits<int64_t>::max();
  std::list<Hung> hung_;
  std::list<Late> late_;
  std::list<Hung> left_behind_;
  std::vector<std::move_only_function<void()>> left_behind_done_;
  int64_t in_flight_ = 0;  // accepted, done not begun
  int delivering_ = 0;
  bool stopping_ = false;
  bool abandoned_ = false;
  bool thread_ends_ = false;
  std::vector<std::string> log_;

  std::thread thread_;
};

}  // namespace dovetail::fakes
