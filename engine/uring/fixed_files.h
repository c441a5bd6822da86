// Places for descriptors in a ring's own table, which spare the kernel looking them up for each
// request.
//
// Threads: the shard's.
#pragma once

#include <vector>

#include "engine/uring/ring.h"

namespace dovetail::engine {

class FixedFiles {
 public:
  // places: how many at most; 0 for none.
  FixedFiles(Ring& ring, int places, RingCounters& counters);

  // The place of a descriptor; negative when there is none free. It holds the file open until it is
  // emptied.
  int Fill(int fd);
  void Empty(int place);

  bool granted() const { return granted_; }

 private:
  Ring& ring_;
  RingCounters& counters_;
  bool granted_ = false;
  std::vector<int> free_;
};

}  // namespace dovetail::engine
