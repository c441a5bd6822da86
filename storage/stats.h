// Numbers that the whole store shares, read by /metrics at scrape time. Gauges are derived where
// they can be (budget, arena, queues); these are the ones that many objects move. All are exact: an
// object that counts itself in counts itself out at its end.
//
// Threads: any (atomics). Lifetime: the store's.
#pragma once

#include <atomic>
#include <cstdint>

namespace dovetail::storage {

struct StoreStats {
  std::atomic<int64_t> apps{0};
  std::atomic<int64_t> shuffles{0};
  std::atomic<int64_t> partitions{0};
  std::atomic<int64_t> tickets{0};
  std::atomic<int64_t> report_bytes{0};
  std::atomic<int64_t> frozen_bytes{0};  // handed to flushes that have not ended
  std::atomic<int64_t> extents{0};
  std::atomic<int64_t> removals_pending{0};  // ended lives whose memory or files are not gone yet
  std::atomic<int64_t> ranges{0};

  std::atomic<int64_t> registered_apps_total{0};
  std::atomic<int64_t> registered_shuffles_total{0};
  std::atomic<int64_t> expired_apps_total{0};
  std::atomic<int64_t> expired_tickets_total{0};
  std::atomic<int64_t> received_blocks_total{0};
  std::atomic<int64_t> received_bytes_total{0};
  std::atomic<int64_t> duplicate_blocks_total{0};
  std::atomic<int64_t> memory_read_blocks_total{0};
  std::atomic<int64_t> memory_read_bytes_total{0};
  std::atomic<int64_t> filtered_memory_reads_total{0};
  std::atomic<int64_t> flushed_blocks_total{0};
  std::atomic<int64_t> flushed_bytes_total{0};
  std::atomic<int64_t> file_read_bytes_total{0};
  std::atomic<int64_t> index_read_bytes_total{0};
  std::atomic<int64_t> file_reads_total{0};
  std::atomic<int64_t> require_no_buffer_total{0};
  std::atomic<int64_t> require_too_large_total{0};
  std::atomic<int64_t> read_no_buffer_total{0};
};

// Counts one object of a kind for as long as it lives.
class Counted {
 public:
  explicit Counted(std::atomic<int64_t>& gauge) : gauge_(gauge) { gauge_.fetch_add(1); }
  ~Counted() { gauge_.fetch_sub(1); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int64_t>& gauge_;
};

}  // namespace dovetail::storage
