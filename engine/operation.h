// One accepted request, seen by the threads that carry it out by blocking (engine/disk_threads.h):
// a number of steps, each a blocking call or a few, and one end.
//
// RunStep runs on one of those threads without any lock, steps of one operation possibly at the
// same time. Finish runs exactly once, after every step that was begun has returned, and lets go of
// everything that the operation owns.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/result.h"

namespace dovetail::engine {

// The list that an operation waits in.
enum class Lane : uint8_t { kRead, kAppend, kControl };
inline constexpr int kLanes = 3;

class Operation {
 public:
  struct Plan {
    Lane lane = Lane::kControl;
    TimePoint deadline = TimePoint::max();
    int64_t steps = 1;
    int steps_at_once_max = 1;
  };

  explicit Operation(Plan plan) : plan_(plan) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  virtual Status RunStep(int64_t step) = 0;
  virtual void Finish(Status status) = 0;
  // For the log, such as "append of 4096 bytes at 0".
  virtual std::string Describe() const = 0;

 private:
  friend class DiskThreads;
  using List = std::list<std::shared_ptr<Operation>>;

  const Plan plan_;
  // Guarded by the mutex of DiskThreads.
  int64_t next_step_ = 0;
  int running_ = 0;
  std::optional<List::iterator> place_;  // in its lane's list, while it waits there
  std::optional<Error> error_;           // the first one; no more steps begin after it
};

}  // namespace dovetail::engine
