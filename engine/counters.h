// What an engine has done since its start and what it holds now, for metrics.
//
// Threads: any may read at any time; the engine's own threads write.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace dovetail::engine {

struct EngineCounters {
  using Count = std::atomic<int64_t>;

  // Completed with success, and their bytes.
  Count appends{0};
  Count append_bytes{0};
  Count reads{0};
  Count read_bytes{0};
  Count pipes{0};  // ranges of files put into pipes
  Count pipe_bytes{0};

  Count continued{0};          // short transfers, EINTR and EAGAIN that were continued inside
  Count rollbacks{0};          // failed appends that were cut back
  Count rollback_failures{0};  // and those where the cut failed too
  Count direct_refused{0};     // files that turned out to take no direct I/O
  Count reopened{0};           // files opened again that had been closed for want of descriptors
  Count unreserved{0};         // reservations that the file system does not offer

  Count descriptors{0};  // open now: two a file, one where direct I/O is refused
};

// How long operations took from being accepted to their end, in classes that double: class i counts
// those of less than 2^i microseconds. One thread writes.
class LatencyCounts {
 public:
  static constexpr size_t kClasses = 26;  // the last one takes all the rest, from 33 s on

  void Add(int64_t microseconds) {
    const auto index = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(microseconds)));
    counts_[index < kClasses ? index : kClasses - 1].fetch_add(1, std::memory_order_relaxed);
    microseconds_.fetch_add(microseconds, std::memory_order_relaxed);
  }
  int64_t count(size_t index) const { return counts_[index].load(std::memory_order_relaxed); }
  int64_t microseconds() const { return microseconds_.load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<int64_t>, kClasses> counts_{};
  std::atomic<int64_t> microseconds_{0};
};

// Of one ring, which is one shard.
struct RingCounters {
  using Count = std::atomic<int64_t>;

  // By kind.
  struct Kind {
    Count bytes{0};         // of operations that ended well
    LatencyCounts latency;  // of all that ended
  };
  Kind appends;
  Kind reads;
  Kind pipes;

  Count in_flight{0};     // accepted and not ended
  Count in_kernel{0};     // requests that the ring has not answered
  Count requests{0};      // given to the ring
  Count enters{0};        // system calls that gave and took them; requests / enters is the batch
  Count wakeups{0};       // by another thread, while the shard slept
  Count retries{0};       // of requests that were refused for the moment
  Count cancels{0};       // asked for, because of a deadline
  Count cancelled{0};     // and granted
  Count overflows{0};     // times that the completion queue was full
  Count entries_busy{0};  // times that the kernel took no more requests for the moment
  Count splices{0};       // requests that moved bytes into a pipe
  Count splice_bytes{0};

  Count fixed_file_requests{0};    // through registered descriptors
  Count fixed_buffer_requests{0};  // from registered memory
  // What was not granted, by reason.
  Count file_table_refused{0};  // at start: no registered descriptors at all
  Count file_table_full{0};     // files that found no place among them
  Count slabs_refused{0};       // at start: the slabs are not registered (memlock)
  Count slab_waits{0};          // turns in which an append had to wait for a free slab
  Count splice_refused{0};      // ranges that were read and written instead
};

}  // namespace dovetail::engine
