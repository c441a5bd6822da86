// A store on one data path with its engine and threads, filled and flushed by a benchmark.
//
// Threads: one drives it. The store's own threads end with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/arena.h"
#include "engine/base/executor.h"
#include "engine/base/ticker.h"
#include "storage/shuffle_store.h"
#include "tests/bench/bench_tools.h"

namespace dovetail::bench {

enum class EngineKind : uint8_t { kUring, kPool };

struct LoadShape {
  int32_t shuffle = 0;
  int32_t partitions = 1;
  int32_t block_bytes = 0;
  int blocks_per_batch = 1;  // of one partition, sent together
  int partitions_per_send = 64;

  int64_t round_bytes() const { return int64_t{partitions} * blocks_per_batch * block_bytes; }
};

class StoreLoad {
 public:
  StoreLoad(Arena& arena, const std::string& data_path, const storage::StoreOptions& options,
            EngineKind engine);
  ~StoreLoad();

  // One batch for every partition of the shuffle, which is registered if need be.
  void Fill(const LoadShape& shape);
  // Asks for all of the memory, as a refused requireBuffer does. Returns the CPU seconds that the
  // call took: what deciding to spill costs the thread that crossed a limit.
  double AskForAll();
  // Waits until `bytes` more than at its last call are in files.
  void WaitFlushed(int64_t bytes);
  // Ends shuffle 0 and waits until its files are gone.
  Usage Remove();
  storage::ShuffleStore& store() { return *store_; }
  static const char* app() { return "bench"; }

 private:
  Executor executor_{"bench", 2};
  Ticker ticker_;
  std::unique_ptr<storage::ShuffleStore> store_;
  int64_t next_block_ = 1;
  int64_t flushed_before_ = 0;
  std::string block_;
};

}  // namespace dovetail::bench
