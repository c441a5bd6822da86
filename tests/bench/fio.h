// The same work done by fio, as a program of its own.
//
// Threads: the caller's; waits until fio has ended.
#pragma once

#include <cstdint>
#include <string>

#include "tests/bench/bench_tools.h"

namespace dovetail::bench {

struct FioJob {
  std::string work = "write";       // --rw
  std::string engine = "io_uring";  // --ioengine
  std::string filename = {};        // one that is there; empty: files of its own
  int64_t block_bytes = 1 << 20;
  int64_t bytes = 0;  // to move in all
  int files = 1;
  int depth = 16;
  bool fixed = false;  // registered files and buffers
};

// Direct I/O on files below the folder, preallocated. Speed is what fio says (without its start),
// CPU what the process took in all.
Usage RunFio(const std::string& folder, const FioJob& job);

}  // namespace dovetail::bench
