// Takes the data paths and starts an engine on each, before anything else of the daemon exists.
//
// Threads: main, at start.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/arena.h"
#include "engine/engine.h"
#include "storage/data_path.h"
#include "storage/options.h"

namespace dovetail::server {

struct OpenedDisks {
  std::vector<std::unique_ptr<storage::DataPathClaim>> claims;
  std::vector<std::unique_ptr<engine::Engine>> engines;  // parallel to the claims
};

// The error is a sentence for the operator. arena: outlives the engines.
std::expected<OpenedDisks, std::string> OpenDisks(const storage::LocalFileStoreOptions& options,
                                                  Arena& arena);

}  // namespace dovetail::server
