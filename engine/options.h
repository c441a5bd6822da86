// Limits of one engine, which serves one data path. Values are checked where they are set; plain
// data, copied at start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

struct UringOptions {
  // The folder below which every path of the engine lies. It must exist.
  std::string data_path = {};
  // Shards: each a thread with a ring of its own.
  int64_t threads = 2;
  // Requests of one shard that the kernel may hold at once.
  int64_t io_depth = 64;
  // Threads for what blocks and a ring cannot do: open, reserve, truncate, remove, close.
  int control_threads = 2;
  // Operations that may wait in each list (reads and appends of each shard, control); one more is
  // refused with kBusy.
  int64_t queue_max = 4096;
  // Descriptors of files that are kept open, two a file; 0: no bound. Operations under way may hold
  // a few more.
  int64_t descriptors_max = 0;
  // Pieces (of at most 1 MiB) of one read that may run at once.
  int read_pieces_max = 4;
  // Memory of 1 MiB each that direct appends of one shard are gathered into, registered with the
  // ring where the memlock limit allows; more pieces wait.
  int slabs = 16;
  // Files of one shard that are registered with its ring; more go by their descriptors. 0: none.
  int fixed_files_max = 1024;

  // The kernel polls for requests with a thread of its own per shard. Costs a core each.
  bool sqpoll = false;
  int64_t sqpoll_idle_ms = 100;
  // Shard i stays on processor cpus[i % size]; empty: wherever the system puts it.
  std::vector<int> cpus = {};
  // Threads that the kernel may add to one shard for what it cannot do without blocking: on files,
  // and on pipes. 0: as many as the kernel likes.
  int64_t file_workers_max = 4;
  int64_t pipe_workers_max = 4;

  // For tests: entries of the submission queue, whatever io_depth says; 0: as io_depth needs.
  int ring_entries = 0;
};

// What the configuration says about engines; the same for every data path.
struct EngineOptions {
  // "auto", "io_uring" or "pool". TOML: localfile_store.engine, and
  // [localfile_store.io_uring_options] for the rest.
  std::string engine = "auto";
  // The processors of io_uring.cpus as they were written, such as "0-3,8".
  std::string cpus = {};
  UringOptions io_uring;
};

}  // namespace dovetail::engine
