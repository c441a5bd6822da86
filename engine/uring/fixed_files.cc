#include "engine/uring/fixed_files.h"

namespace dovetail::engine {

FixedFiles::FixedFiles(Ring& ring, int places, RingCounters& counters)
    : ring_(ring), counters_(counters) {
  if (places == 0) return;
  granted_ = ring_.RegisterFiles(static_cast<unsigned>(places));
  if (!granted_) {
    counters_.file_table_refused.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  for (int place = places; place-- > 0;) free_.push_back(place);
}

int FixedFiles::Fill(int fd) {
  if (!granted_) return -1;
  if (free_.empty() || !ring_.UpdateFile(static_cast<unsigned>(free_.back()), fd)) {
    counters_.file_table_full.fetch_add(1, std::memory_order_relaxed);
    return -1;
  }
  const int place = free_.back();
  free_.pop_back();
  return place;
}

void FixedFiles::Empty(int place) {
  // A place that cannot be emptied still holds its file, and is not used again.
  if (ring_.UpdateFile(static_cast<unsigned>(place), -1)) free_.push_back(place);
}

}  // namespace dovetail::engine
