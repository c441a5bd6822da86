#include "storage/ticket_table.h"

#include "engine/base/check.h"

namespace dovetail::storage {

TicketTable::~TicketTable() { DOVETAIL_CHECK(tickets_.empty()); }

int64_t TicketTable::Issue(int64_t bytes, TimePoint deadline) {
  const int64_t id = ids_.fetch_add(1) + 1;
  std::lock_guard lock(mutex_);
  tickets_.emplace(id, Ticket{bytes, deadline});
  live_.fetch_add(1);
  return id;
}

Result<int64_t> TicketTable::Take(int64_t ticket_id) {
  std::lock_guard lock(mutex_);
  const auto it = tickets_.find(ticket_id);
  if (it == tickets_.end()) return Fail(ErrorCode::kNotFound, "ticket");
  const int64_t bytes = it->second.bytes;
  tickets_.erase(it);
  live_.fetch_sub(1);
  return bytes;
}

TicketTable::Dropped TicketTable::TakeExpired(TimePoint now) {
  Dropped dropped;
  std::lock_guard lock(mutex_);
  std::erase_if(tickets_, [&](const auto& entry) {
    if (entry.second.deadline > now) return false;
    ++dropped.tickets;
    dropped.bytes += entry.second.bytes;
    return true;
  });
  live_.fetch_sub(dropped.tickets);
  return dropped;
}

TicketTable::Dropped TicketTable::TakeAll() { return TakeExpired(TimePoint::max()); }

}  // namespace dovetail::storage
