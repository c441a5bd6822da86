// Writing into pipes without being killed by the ones that nobody reads.
//
// Threads: each function concerns the calling thread only.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/counters.h"
#include "engine/system_calls.h"

namespace dovetail::engine {

// From now on this thread gets EPIPE and never the signal. For threads of the engines' own.
void BlockBrokenPipeSignal();

// The same for the length of a scope, on a thread of somebody else; a signal that came meanwhile is
// taken away unseen.
class WithoutBrokenPipeSignal {
 public:
  WithoutBrokenPipeSignal();
  ~WithoutBrokenPipeSignal();
  WithoutBrokenPipeSignal(const WithoutBrokenPipeSignal&) = delete;
  WithoutBrokenPipeSignal& operator=(const WithoutBrokenPipeSignal&) = delete;

 private:
  bool was_blocked_ = false;
  bool was_pending_ = false;
};

struct PipeRange {
  int fd = -1;  // of the file, for buffered reading
  int64_t offset = 0;
  int64_t length = 0;
  int pipe = -1;
};

// Moves the whole range into the pipe by splice(2), or by reading and writing where the file system
// refuses to splice. Blocks. Nothing more is begun once the deadline has passed (kTimeout).
Status FillPipe(SystemCalls& calls, EngineCounters& counters, PipeRange range, TimePoint deadline);

}  // namespace dovetail::engine
