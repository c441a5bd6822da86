// A long random life of the io_uring engine against a model in memory: appends, reads, pipes,
// reservations, cuts, removals and openings of several files at once, with deadlines, on rings that
// are short, fail, are late and mix their results.
//
// Whatever happens: a read that succeeds has exactly the committed bytes; one beyond them fails; a
// failed append leaves them alone, and the file no longer than it was or was reserved; a
// reservation that succeeds is there; nothing fails that no fault or deadline is to blame for; and
// at the end nothing is left of all of it.
//
// Threads: one, besides the engine's.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/contract/disk_suite.h"

namespace dovetail::contract {

struct LifeOptions {
  std::string name = {};  // letters and digits only
  engine::IoMode mode = engine::IoMode::kBuffered;
  bool on_disk = true;
  bool faults = true;
  // A number of operations at a time, all of which end before the next ones begin. Slower, but what
  // happens depends on the seed alone.
  bool rounds = false;
};

class UringLife {
 public:
  UringLife(LifeOptions options, uint64_t seed);

  // Ends with a look at everything. Failures are the running test's.
  void Run(int64_t operations);

  // How often each kind of event was met.
  const std::map<std::string, int64_t>& met() const { return met_; }
  // Of all that was done, and of which of it went well and was kept. With rounds the same for the
  // same seed.
  uint64_t course() const { return course_; }

 private:
  struct LifeFile {
    std::string name = {};
    engine::FileRef file = nullptr;
    Bytes committed = {};
    int64_t longest = 0;  // how long it may be on the disk: what was reserved or could not be cut
    bool appending = false;
    bool guarded = false;  // nothing may be appended
    bool removed = false;  // its name is gone, it is only used to the end
    int others = 0;        // operations under way beside the append
    int64_t failed_appends = 0;

    bool idle() const { return !appending && !guarded && others == 0; }
    int64_t size() const { return static_cast<int64_t>(committed.size()); }
  };
  using LifeFileRef = std::shared_ptr<LifeFile>;
  struct Asked {
    const char* what;
    LifeFileRef file;
    bool limited;  // has a deadline
  };

  uint64_t Draw(uint64_t below) { return random_() % below; }
  bool OneIn(uint64_t count) { return Draw(count) == 0; }
  int64_t DrawSize();
  TimePoint DrawDeadline();
  void Meet(const std::string& event, int64_t times = 1) { met_[event] += times; }
  void Note(uint64_t fact);

  // Results are looked at on the test's thread, one at a time.
  void Hand(uint64_t number, std::function<void()> look);
  void LookAtOne();
  bool LookAtOneNow();
  void FinishRound();

  // Whole operations, waited for.
  LifeFileRef Create();
  void Remove(LifeFileRef& file);
  void Cut(LifeFile& file, int64_t size);
  void OpenAgain(LifeFile& file);

  // Begin an operation. BeginSomething: false when the file cannot have what was drawn.
  bool BeginSomething(LifeFileRef& file);
  void BeginAppend(const LifeFileRef& file);
  void BeginRead(const LifeFileRef& file);
  void BeginReadPastEnd(const LifeFileRef& file);
  void BeginPipe(const LifeFileRef& file, bool past_end);
  void BeginReserve(const LifeFileRef& file);
  uint64_t BeginOne() {
    ++under_way_;
    return ++begun_;
  }

  SliceChain DrawBytes(const LifeFile& file, Bytes& copy);
  std::pair<int64_t, int64_t> DrawRange(const LifeFile& file, int64_t most);
  void LookAtAppend(const LifeFileRef& file, const Bytes& bytes, bool limited, Status status);
  void LookAtFailure(const Asked& asked, const Error& error);
  bool IsCommitted(const LifeFile& file, int64_t offset, const Bytes& seen, int64_t length) const;
  void CheckLength(const LifeFile& file) const;
  void CheckWhole(const LifeFile& file);
  void CountAll();
  void CheckNothingIsLeft();

  const LifeOptions options_;
  const uint64_t seed_;
  std::mt19937_64 random_;
  const Bytes pool_;  // where the bytes of appends are taken from
  TemporaryFolder folder_;
  std::shared_ptr<ScriptedCalls> calls_ = std::make_shared<ScriptedCalls>();
  Arena arena_;
  std::unique_ptr<engine::UringEngine> engine_;
  std::vector<LifeFileRef> files_;
  int made_ = 0;
  int under_way_ = 0;
  uint64_t begun_ = 0;
  uint64_t course_ = 0;
  std::map<std::string, int64_t> met_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<uint64_t, std::function<void()>>> done_;  // guarded by mutex_
};

}  // namespace dovetail::contract
