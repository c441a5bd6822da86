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
  // One directory per disk. Empty: nothing is ever written to disk, what does not fit is refused.
  std::vector<std::string> data_paths;
  // Fewer usable disks than this and the server takes no new shuffles. 0: all of them.
  int64_t min_number_of_available_disks = 0;
  // Used share of the file system above which a disk takes no new flushes, and below which it does
  // again.
  double disk_high_watermark = 0.95;
  double disk_low_watermark = 0.90;
  // Pause between two looks at a disk's space, and tries of one that is full or broken.
  int64_t disk_healthy_check_interval_sec = 5;
  // Append with O_DIRECT. A path that cannot do it falls back alone.
  bool direct_io_append_enable = true;
  // How data is read back: "buffered", through the page cache; "direct", past it; or "auto": as it
  // is appended, since what was not written through the cache is not there. Index records are
  // always read through the cache. A path that cannot read directly falls back alone.
  std::string read_mode = "auto";
  // A disk with an operation older than this is slow: it takes no new flushes until it answered.
  int64_t io_duration_threshold_sec = 60;
  // What one append writes at most, and what may be on its way to one disk.
  int64_t flush_group_bytes_max = 16LL << 20;
  int64_t flush_bytes_in_flight_max = 256LL << 20;
  // A segment that reached this is closed and a new one begun.
  int64_t segment_bytes_max = 4LL << 30;
  // What of the index may be kept in memory; the rest is read from the segments when asked for.
  int64_t index_cache_bytes_max = 64LL << 20;
};

struct HybridStoreOptions {
  // Share of memory_store.capacity that starts a flush, and that it flushes down to.
  double memory_spill_high_watermark = 0.8;
  double memory_spill_low_watermark = 0.2;
  // A partition with more than this in memory is flushed alone. 0: never.
  int64_t memory_single_buffer_max_spill_size = 0;
};

struct AppOptions {
  // An application that made no call for this long is forgotten with all its data.
  int64_t app_heartbeat_timeout_min = 10;
};

struct StoreOptions {
  MemoryStoreOptions memory;
  LocalFileStoreOptions local_file;
  HybridStoreOptions hybrid;
  AppOptions app;
};

}  // namespace dovetail::storage
