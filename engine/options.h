// Limits of one engine, which serves one data path. Values are checked where they are set; plain
// data, copied at start.
#pragma once

#include <cstdint>
#include <string>

namespace dovetail::engine {

struct PoolOptions {
  // The folder below which every path of the engine lies. It must exist.
  std::string data_path = {};
  // Strands for Post; one thread each.
  int shards = 2;
  // Threads for reads and appends together. With two or more, one is always left to the kind that
  // has the fewer running, so that neither starves behind the other.
  int io_threads = 4;
  // Threads for what may block long without moving data: open, reserve, truncate, remove, close.
  int control_threads = 2;
  // Operations that may wait in each of the three lists (reads, appends, control); one more is
  // refused with kBusy.
  int64_t queue_max = 4096;
  // Descriptors of files that are kept open, two a file; 0: no bound. Operations under way may hold
  // a few more.
  int64_t descriptors_max = 0;
  // Pieces (of at most 1 MiB) of one read that may run at once.
  int read_pieces_max = 3;
};

}  // namespace dovetail::engine
