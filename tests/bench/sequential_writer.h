// The measure that the segment store is held against: one thread that writes one file from its
// beginning with direct writes of 1 MiB into space that fallocate gave it.
#pragma once

#include <cstdint>
#include <string>

#include "tests/bench/bench_tools.h"

namespace dovetail::bench {

// Writes `bytes` (a multiple of 1 MiB) into a new file of this folder. Ends the process when the
// file system refuses.
Usage WriteSequentially(const std::string& folder, int64_t bytes);

}  // namespace dovetail::bench
