// The tickets of one shuffle's life: promises of memory that requireBuffer gave out and no send has
// used yet. Each is taken out exactly once: by the send that names it, by the sweep when it is too
// old, or by the end of the shuffle. Tickets of other shuffles are not in here, so naming one does
// nothing to it.
//
// The table counts no memory: whoever takes a ticket out owns its promised bytes and gives them
// back to the budget. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "engine/base/clock.h"
#include "engine/base/result.h"

namespace dovetail::storage {

class TicketTable {
 public:
  // ids: source of ticket ids, shared by all shuffles of the process, counting up from 1 (-1 means
  // refusal to the client and is never reached). live: gauge of tickets of the process.
  TicketTable(std::atomic<int64_t>& ids, std::atomic<int64_t>& live) : ids_(ids), live_(live) {}
  ~TicketTable();

  int64_t Issue(int64_t bytes, TimePoint deadline);
  // The ticket's bytes, or kNotFound.
  Result<int64_t> Take(int64_t ticket_id);

  struct Dropped {
    int64_t tickets = 0;
    int64_t bytes = 0;
  };
  Dropped TakeExpired(TimePoint now);
  Dropped TakeAll();

 private:
  struct Ticket {
    int64_t bytes;
    TimePoint deadline;
  };

  std::atomic<int64_t>& ids_;
  std::atomic<int64_t>& live_;
  std::mutex mutex_;
  std::unordered_map<int64_t, Ticket> tickets_;  // guarded by mutex_
};

}  // namespace dovetail::storage
