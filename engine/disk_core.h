// What an engine on a real data path, its operations and its files share, and what outlives the
// engine itself when an operation never comes back from the kernel.
//
// Threads: constant after start; the parts have rules of their own.
#pragma once

#include <memory>
#include <string>

#include "engine/base/arena.h"
#include "engine/counters.h"
#include "engine/data_folder.h"
#include "engine/disk_threads.h"
#include "engine/open_files.h"
#include "engine/system_calls.h"

namespace dovetail::engine {

struct DiskCore {
  std::string data_path;
  Arena& arena;  // outlives everything here
  std::shared_ptr<SystemCalls> calls;
  std::unique_ptr<DataFolder> folder;
  std::shared_ptr<DiskThreads> threads;
  OpenFiles open_files;
  EngineCounters counters;
};

}  // namespace dovetail::engine
