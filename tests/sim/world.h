// A store with two disks that live in memory and fail on demand, on one thread: nothing happens
// but in calls of the test, and completions come in an order that follows from the seed.
//
// Threads: none of its own; what the store would give to its executor runs at once, its ticker
// never ticks, and time is what the test says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/executor.h"
#include "engine/base/ticker.h"
#include "storage/shuffle_store.h"
#include "tests/fakes/fault_engine.h"
#include "tests/fakes/mem_engine.h"
#include "tests/sim/random.h"

namespace dovetail::sim {

class World {
 public:
  static constexpr int kDisks = 2;

  // Sizes and limits are drawn, all small, so that every limit is met often.
  explicit World(Random& random);
  // REQUIRES: everything was unregistered and has been removed.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  storage::ShuffleStore& store() { return *store_; }
  const storage::StoreOptions& options() const { return options_; }
  fakes::FaultEngine& faults(int disk) { return *faults_[static_cast<size_t>(disk)]; }
  fakes::MemDisk& disk(int disk) { return *memory_[static_cast<size_t>(disk)]->disk(); }

  TimePoint now() const { return now_; }
  void Advance(Milliseconds time) { now_ += time; }

  // Lets up to so many things happen in the engines, drawn evenly over the disks.
  void RunSome(Random& random, int64_t things);
  // Until nothing is left but what hangs. False when nothing happened.
  bool RunAll();
  void Heal(int disk);

 private:
  storage::StoreOptions Draw(Random& random);

  Arena arena_;
  Executor executor_{"model", 1};
  Ticker ticker_;
  TimePoint now_{std::chrono::hours(1000)};
  const storage::StoreOptions options_;
  std::vector<std::unique_ptr<fakes::MemEngine>> memory_;
  std::vector<fakes::FaultEngine*> faults_;  // owned by the store's disks
  std::unique_ptr<storage::ShuffleStore> store_;
};

}  // namespace dovetail::sim
