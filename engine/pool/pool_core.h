// What the pool engine, its operations and its files share, and what outlives the engine itself
// when an operation never comes back from the kernel.
//
// Threads: constant after start; the parts have rules of their own.
#pragma once

#include <memory>

#include "engine/base/arena.h"
#include "engine/counters.h"
#include "engine/data_folder.h"
#include "engine/options.h"
#include "engine/pool/open_files.h"
#include "engine/pool/pool_threads.h"
#include "engine/system_calls.h"

namespace dovetail::engine {

struct PoolCore {
  PoolOptions options;
  Arena& arena;  // outlives everything here
  std::shared_ptr<SystemCalls> calls;
  std::unique_ptr<DataFolder> folder;
  std::shared_ptr<PoolThreads> threads;
  OpenFiles open_files;
  EngineCounters counters;
};

}  // namespace dovetail::engine
