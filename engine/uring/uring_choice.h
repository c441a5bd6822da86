// Which engine a data path gets, found out by trying: ring, requests, and one real write and read
// on that path.
//
// Threads: any; blocks on the disk for a moment. The composition root asks once per data path and
// starts what the answer says.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "engine/base/arena.h"
#include "engine/base/result.h"
#include "engine/options.h"
#include "engine/uring/uring_engine.h"

namespace dovetail::engine {

struct EngineChoice {
  bool io_uring = false;  // the pool engine otherwise
  // For the log and the operator: the features that were granted, why it was refused, or that the
  // configuration says so.
  std::string reason;
};

// Why rings could not be had, as a part of a sentence: what failed, what that is and what mends it.
std::string RefusalOf(const Error& error);

// wanted: "auto", "io_uring" or "pool". The error is a sentence for the operator: io_uring was
// asked for and is refused here, or the folder itself is of no use.
std::expected<EngineChoice, std::string> ChooseEngine(std::string_view wanted,
                                                      const UringOptions& options,
                                                      const UringSystems& systems = {});

}  // namespace dovetail::engine
