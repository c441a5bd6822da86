// Takes the data paths and starts an engine on each, before anything else of the daemon exists.
//
// Threads: main, at start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/arena.h"
#include "engine/engine.h"
#include "engine/options.h"
#include "storage/data_path.h"
#include "storage/options.h"

namespace dovetail::server {

struct OpenedDisks {
  std::vector<std::unique_ptr<storage::DataPathClaim>> claims;
  // Parallel to the claims.
  std::vector<std::unique_ptr<engine::Engine>> engines;
  std::vector<std::string> engine_reasons;  // why it is that engine
};

// The error is a sentence for the operator. open_files_max: the limit of the process, of which the
// engines leave enough to connections. arena: outlives the engines.
std::expected<OpenedDisks, std::string> OpenDisks(const storage::LocalFileStoreOptions& options,
                                                  const engine::EngineOptions& engine_options,
                                                  uint64_t open_files_max, Arena& arena);

// Descriptors that the engine of one of so many data paths may keep open.
int64_t DescriptorsOfOnePath(uint64_t open_files_max, size_t paths);

}  // namespace dovetail::server
