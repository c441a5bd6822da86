// The threads of one data path that may block in the kernel, and the bounded lists in front of
// them: who waits, who runs, what is given up at a deadline, and how all of it ends.
//
// Reads and appends share the I/O threads, taken in turn, each kind at most all but one of them
// (with two or more), so that neither starves behind the other. What may block without moving data
// has threads of its own. One more thread, the timer, ends what waits past its deadline and
// answers what was refused, so that no completion ever runs on a caller's stack.
//
// Threads: any may call, but Stop must not be called on one of these. Shared ownership: each
// thread holds the object, so that one that never comes back from the kernel finds it alive.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/operation.h"

namespace dovetail::engine {

class DiskThreads : public std::enable_shared_from_this<DiskThreads> {
 public:
  using OperationRef = std::shared_ptr<Operation>;

  struct Limits {
    int io_threads = 1;  // 0: reads and appends go elsewhere
    int control_threads = 1;
    int64_t queue_max = 1;  // in each lane's list
  };

  static std::shared_ptr<DiskThreads> Start(const Limits& limits);
  ~DiskThreads();
  DiskThreads(const DiskThreads&) = delete;
  DiskThreads& operator=(const DiskThreads&) = delete;

  // Takes the operation, or finishes it on the timer with kBusy (its list is full) or kShutdown.
  void Submit(OperationRef operation);
  // Finishes an operation that must not be carried out, on the timer (kShutdown after Stop).
  void Refuse(OperationRef operation, Error error);
  // Runs on a control thread, ahead of everything that waits there, unbounded and not counted as in
  // flight; after Stop at once on the caller. For closing descriptors.
  void RunCleanup(std::move_only_function<void()> cleanup);

  // Taken and not finished.
  int64_t in_flight() const;
  // Waiting in the list of that lane.
  int64_t waiting(Lane lane) const;

  // Takes nothing new and waits until everything taken is finished, at most until the deadline.
  // What has not begun by then is finished with kShutdown. Returns how many are still in the
  // kernel: these are never finished, not even when it gives them back. Call it once.
  int64_t Stop(TimePoint deadline);
  // After Stop: what is still in the kernel, for the log.
  std::vector<std::string> DescribeHeld() const;
  // Ends the timer, which answers refusals until then. Call it after a Stop that returned 0.
  void EndTimer();

 private:
  using Lock = std::unique_lock<std::mutex>;

  explicit DiskThreads(const Limits& limits);

  void Launch();
  void IoLoop();
  void ControlLoop();
  void TimerLoop();

  // All below: REQUIRES: the mutex is held (and by `lock` where that is passed).
  bool CanBegin(Lane lane) const;
  bool TakeIoLane(Lane& lane);
  void RunOne(Lock& lock, Lane lane);
  void Enqueue(const OperationRef& operation);
  void Dequeue(Operation& operation);
  // No more steps begin.
  void GiveUp(Operation& operation, Error error);
  void FinishIfOver(Lock& lock, OperationRef& operation);
  void AnswerRefused(Lock& lock);
  bool ExpireOne(Lock& lock);
  void CancelWaiting(Lock& lock);
  bool Idle() const;
  static bool HasSteps(const Operation& operation);
  void NotifyWork(Lane lane);

  const Limits limits_;
  const int lane_running_max_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::condition_variable io_work_;
  std::condition_variable control_work_;
  std::condition_variable timer_work_;
  std::condition_variable idle_;
  Operation::List waiting_[kLanes];
  int running_[kLanes] = {};
  Lane last_io_lane_ = Lane::kRead;
  std::set<Operation*> in_kernel_;
  // Of what has not begun all its steps and has a deadline.
  std::set<std::pair<TimePoint, Operation*>> deadlines_;
  std::deque<std::pair<OperationRef, Error>> refused_;
  std::deque<std::move_only_function<void()>> cleanups_;
  int cleaning_ = 0;
  int64_t in_flight_ = 0;
  int finishing_ = 0;
  bool stopping_ = false;  // nothing new is taken
  bool workers_end_ = false;
  bool abandoned_ = false;  // what comes back from the kernel now is not finished any more
  bool timer_ends_ = false;
  std::vector<OperationRef> left_behind_;

  std::vector<std::thread> workers_;  // touched by Launch and Stop only
  std::thread timer_;
};

}  // namespace dovetail::engine
