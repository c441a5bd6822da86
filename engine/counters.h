// What an engine has done since its start and what it holds now, for metrics.
//
// Threads: any may read at any time; the engine's own threads write.
#pragma once

#include <atomic>
#include <cstdint>

namespace dovetail::engine {

struct EngineCounters {
  using Count = std::atomic<int64_t>;

  // Completed with success, and their bytes.
  Count appends{0};
  Count append_bytes{0};
  Count reads{0};
  Count read_bytes{0};

  Count continued{0};          // short transfers, EINTR and EAGAIN that were continued inside
  Count rollbacks{0};          // failed appends that were cut back
  Count rollback_failures{0};  // and those where the cut failed too
  Count direct_refused{0};     // files that turned out to take no direct I/O
  Count reopened{0};           // files opened again that had been closed for want of descriptors
  Count unreserved{0};         // reservations that the file system does not offer

  Count descriptors{0};  // open now: two a file, one where direct I/O is refused
};

}  // namespace dovetail::engine
