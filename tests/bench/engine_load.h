// Closed loops of one kind of work on an engine, to be timed.
//
// Threads: one caller, which waits; the engine's threads keep the loops going.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/bench/bench_tools.h"

namespace dovetail::bench {

struct AppendShape {
  int files = 1;
  int64_t bytes_per_file = 0;
  int64_t append_bytes = 1 << 20;
  int64_t piece_bytes = 1 << 20;  // of memory; 16 MiB is a multiple of it
  bool aligned = true;            // the memory, for direct I/O
  engine::IoMode mode = engine::IoMode::kDirect;
};

// Reserves all files, then keeps one append in flight on each. Buffered: over what is in the page
// cache already, by a pass that is not measured.
Usage AppendAll(engine::Engine& engine, const AppendShape& shape);

struct ReadShape {
  int64_t file_bytes = 0;
  int64_t read_bytes = 4096;
  int at_once = 64;
  int64_t reads = 0;
  engine::IoMode mode = engine::IoMode::kDirect;
};

// Of one file "read" that must be there, written.
Usage ReadRandomly(engine::Engine& engine, const ReadShape& shape);

// Makes that file.
void MakeFileToRead(engine::Engine& engine, int64_t bytes);

}  // namespace dovetail::bench
