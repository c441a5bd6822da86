// What an operator can set of the storage layer. Values are checked by config/ before they arrive
// here; the defaults below are the shipped ones (config/dovetail.toml, held equal by a test). Plain
// data, copied at start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dovetail::storage {

struct MemoryStoreOptions {
  // Bytes of block data plus 64 bytes a block that may be promised and stored at once. 0: the
  // daemon takes a quarter of what the machine or its cgroup allows. TOML: memory_store.capacity.
  int64_t capacity_bytes = 0;
  // A ticket of requireBuffer that no send has used for this long gives its bytes back.
  int64_t buffer_ticket_timeout_sec = 300;
  // Pause between two sweeps for such tickets.
  int64_t buffer_ticket_check_interval_sec = 10;
  // How long requireBuffer may wait for room before NO_BUFFER, and how many calls may wait so.
  int64_t require_wait_ms = 500;
  int64_t require_queue_max = 10'000;
  // Bytes of answers to reads that may be on their way at once; how long a read waits for its
  // share, and how many may wait. A single larger answer goes alone.
  int64_t read_bytes_max = 512LL << 20;
  int64_t read_wait_ms = 30'000;
  int64_t read_queue_max = 10'000;
  // Bytes that reported block ids may take. A report that would pass it is refused.
  int64_t report_bytes_max = 1LL << 30;
};

struct LocalFileStoreOptions {
  // One directory per disk. May be empty while the daemon keeps data in memory only.
  std::vector<std::string> data_paths;
};

struct AppOptions {
  // An application that made no call for this long is forgotten with all its data.
  int64_t app_heartbeat_timeout_min = 10;
};

struct StoreOptions {
  MemoryStoreOptions memory;
  LocalFileStoreOptions local_file;
  AppOptions app;
};

}  // namespace dovetail::storage
