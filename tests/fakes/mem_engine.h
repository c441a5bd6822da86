// The engine on a MemDisk. Obeys the whole contract (engine/engine.h), takes no time and never
// hangs; faults come from FaultEngine around it.
//
// Two ways to run. With a thread of its own, like a real engine; or stepped: nothing runs until the
// test calls RunOne, RunRandom or RunAll, on the calling thread, so that a test with one thread
// replays exactly. Stop and the end of a stepped engine run what is left.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/engine.h"
#include "tests/fakes/mem_disk.h"

namespace dovetail::fakes {

struct MemOptions {
  int shards = 2;
  bool stepped = false;
  int64_t queue_max = 1 << 20;
  Clock clock = SteadyClock();
};

class MemEngine : public engine::Engine {
 public:
  explicit MemEngine(MemOptions options = {},
                     std::shared_ptr<MemDisk> disk = std::make_shared<MemDisk>());
  ~MemEngine() override;
  MemEngine(const MemEngine&) = delete;
  MemEngine& operator=(const MemEngine&) = delete;

  void Open(std::string path, bool create, OpenDone done) override;
  void Append(engine::AppendRequest request, Done done) override;
  void Read(engine::ReadRequest request, ReadDone done) override;
  void ToPipe(engine::PipeRequest request, Done done) override;
  void Reserve(engine::FileRef file, int64_t end, Done done) override;
  void Truncate(engine::FileRef file, int64_t size, Done done) override;
  void Remove(std::string path, Done done) override;
  void RemoveFolder(std::string path, Done done) override;
  void Space(SpaceDone done) override;
  int shards() const override { return options_.shards; }
  bool Post(int shard, std::move_only_function<void()> task) override;
  int64_t in_flight() const override;
  [[nodiscard]] bool Stop(TimePoint deadline) override;

  const std::shared_ptr<MemDisk>& disk() const { return disk_; }
  bool stepped() const { return options_.stepped; }

  // Stepped only. Each returns whether there was something to run.
  // The oldest operation or task.
  bool RunOne();
  // Any operation, or the first task of any shard: every order that the contract allows.
  bool RunRandom(std::mt19937_64& random);
  // Until nothing is left. True when there was anything.
  bool RunAll();

  // The process dies: nothing that has not completed ever completes, and an append that waits may
  // have written any part of its bytes. From now on every call is refused. The disk, with what is
  // on it, is ready for another engine. REQUIRES stepped.
  std::shared_ptr<MemDisk> Crash(uint64_t seed);

 private:
  struct Event {
    uint64_t sequence = 0;
    bool accepted = false;  // counts as in flight
    // Carries the operation out, or ends it with the error.
    std::move_only_function<void(std::optional<Error>)> run;
    TimePoint deadline = TimePoint::max();
    std::move_only_function<void(std::mt19937_64&)> tear;  // of appends
  };
  using Lock = std::unique_lock<std::mutex>;

  void Submit(Event event, std::optional<Error> fault);
  bool Take(Event& out);                                 // REQUIRES mutex_
  bool TakeRandom(std::mt19937_64& random, Event& out);  // REQUIRES mutex_
  void Run(Lock& lock, Event event);                     // REQUIRES mutex_ held by lock
  bool NothingLeft() const;                              // REQUIRES mutex_
  void Loop();

  const MemOptions options_;
  const std::shared_ptr<MemDisk> disk_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  uint64_t next_sequence_ = 0;
  std::list<Event> operations_;
  std::vector<std::deque<Event>> tasks_;  // by shard
  int64_t in_flight_ = 0;
  int running_ = 0;
  bool stopping_ = false;
  bool crashed_ = false;
  bool thread_ends_ = false;

  std::thread thread_;
};

}  // namespace dovetail::fakes
