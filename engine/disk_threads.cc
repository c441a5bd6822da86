#include "engine/disk_threads.h"

#include <pthread.h>

#include <algorithm>

#include "engine/base/check.h"
#include "engine/pipe_io.h"

namespace dovetail::engine {
namespace {

size_t IndexOf(Lane lane) { return static_cast<size_t>(lane); }

}  // namespace

std::shared_ptr<DiskThreads> DiskThreads::Start(const Limits& limits) {
  std::shared_ptr<DiskThreads> threads(new DiskThreads(limits));
  threads->Launch();
  return threads;
}

DiskThreads::DiskThreads(const Limits& limits)
    : limits_(limits), lane_running_max_(std::max(1, limits.io_threads - 1)) {
  DOVETAIL_CHECK(limits.io_threads >= 0 && limits.control_threads > 0 && limits.queue_max > 0);
}

DiskThreads::~DiskThreads() { DOVETAIL_CHECK(in_flight_ == 0 && refused_.empty()); }

void DiskThreads::Launch() {
  const auto launch = [this](const char* name, void (DiskThreads::*loop)()) {
    std::thread thread([self = shared_from_this(), loop] {
      // Filling a pipe that nobody reads is an error, not the end of the process.
      BlockBrokenPipeSignal();
      (self.get()->*loop)();
    });
    pthread_setname_np(thread.native_handle(), name);
    return thread;
  };
  for (int i = 0; i < limits_.io_threads; ++i) {
    workers_.push_back(launch("disk-io", &DiskThreads::IoLoop));
  }
  for (int i = 0; i < limits_.control_threads; ++i) {
    workers_.push_back(launch("disk-control", &DiskThreads::ControlLoop));
  }
  timer_ = launch("disk-timer", &DiskThreads::TimerLoop);
}

void DiskThreads::Submit(OperationRef operation) {
  Lock lock(mutex_);
  const Lane lane = operation->plan_.lane;
  DOVETAIL_CHECK(lane == Lane::kControl || limits_.io_threads > 0);
  if (stopping_) {
    refused_.emplace_back(std::move(operation), Error{ErrorCode::kShutdown, 0, "engine stopped"});
    timer_work_.notify_one();
    return;
  }
  if (static_cast<int64_t>(waiting_[IndexOf(lane)].size()) >= limits_.queue_max) {
    refused_.emplace_back(std::move(operation), Error{ErrorCode::kBusy, 0, "engine queue full"});
    timer_work_.notify_one();
    return;
  }
  ++in_flight_;
  const TimePoint deadline = operation->plan_.deadline;
  if (deadline != TimePoint::max()) {
    deadlines_.emplace(deadline, operation.get());
    timer_work_.notify_one();
  }
  Enqueue(operation);
}

void DiskThreads::Refuse(OperationRef operation, Error error) {
  Lock lock(mutex_);
  if (stopping_) error = {ErrorCode::kShutdown, 0, "engine stopped"};
  refused_.emplace_back(std::move(operation), error);
  timer_work_.notify_one();
}

void DiskThreads::RunCleanup(std::move_only_function<void()> cleanup) {
  {
    Lock lock(mutex_);
    if (!workers_end_) {
      cleanups_.push_back(std::move(cleanup));
      NotifyWork(Lane::kControl);
      return;
    }
  }
  cleanup();
}

int64_t DiskThreads::in_flight() const {
  Lock lock(mutex_);
  return in_flight_;
}

int64_t DiskThreads::waiting(Lane lane) const {
  Lock lock(mutex_);
  return static_cast<int64_t>(waiting_[IndexOf(lane)].size());
}

// All, though one would do: pthread_cond_signal of Debian 12's glibc may wake nobody when several
// threads wait (sourceware bug 25847).
void DiskThreads::NotifyWork(Lane lane) {
  (lane == Lane::kControl ? control_work_ : io_work_).notify_all();
}

bool DiskThreads::HasSteps(const Operation& operation) {
  return operation.next_step_ < operation.plan_.steps;
}

bool DiskThreads::CanBegin(Lane lane) const {
  return !waiting_[IndexOf(lane)].empty() &&
         (lane == Lane::kControl || running_[IndexOf(lane)] < lane_running_max_);
}

bool DiskThreads::TakeIoLane(Lane& lane) {
  // The other kind first, then the same again.
  const Lane other = last_io_lane_ == Lane::kRead ? Lane::kAppend : Lane::kRead;
  if (!CanBegin(other) && !CanBegin(last_io_lane_)) return false;
  if (CanBegin(other)) last_io_lane_ = other;
  lane = last_io_lane_;
  return true;
}

void DiskThreads::IoLoop() {
  Lock lock(mutex_);
  while (true) {
    Lane lane{};
    if (TakeIoLane(lane)) {
      RunOne(lock, lane);
    } else if (workers_end_) {
      return;
    } else {
      io_work_.wait(lock);
    }
  }
}

void DiskThreads::ControlLoop() {
  Lock lock(mutex_);
  while (true) {
    if (!cleanups_.empty()) {
      auto cleanup = std::move(cleanups_.front());
      cleanups_.pop_front();
      ++cleaning_;
      lock.unlock();
      cleanup();
      cleanup = nullptr;
      lock.lock();
      --cleaning_;
      if (Idle()) idle_.notify_all();
    } else if (CanBegin(Lane::kControl)) {
      RunOne(lock, Lane::kControl);
    } else if (workers_end_) {
      return;
    } else {
      control_work_.wait(lock);
    }
  }
}

void DiskThreads::Enqueue(const OperationRef& operation) {
  Operation::List& list = waiting_[IndexOf(operation->plan_.lane)];
  operation->place_ = list.insert(list.end(), operation);
  NotifyWork(operation->plan_.lane);
}

void DiskThreads::Dequeue(Operation& operation) {
  if (!operation.place_) return;
  waiting_[IndexOf(operation.plan_.lane)].erase(*operation.place_);
  operation.place_.reset();
}

void DiskThreads::GiveUp(Operation& operation, Error error) {
  if (!operation.error_) operation.error_ = error;
  operation.next_step_ = operation.plan_.steps;
  deadlines_.erase({operation.plan_.deadline, &operation});
  Dequeue(operation);
}

void DiskThreads::RunOne(Lock& lock, Lane lane) {
  OperationRef operation = waiting_[IndexOf(lane)].front();
  Dequeue(*operation);
  const TimePoint deadline = operation->plan_.deadline;
  if (deadline != TimePoint::max() && std::chrono::steady_clock::now() >= deadline) {
    GiveUp(*operation, Error{ErrorCode::kTimeout, 0, "deadline"});
    FinishIfOver(lock, operation);
    return;
  }
  const int64_t step = operation->next_step_++;
  ++operation->running_;
  ++running_[IndexOf(lane)];
  in_kernel_.insert(operation.get());
  if (!HasSteps(*operation)) {
    deadlines_.erase({deadline, operation.get()});
  } else if (operation->running_ < operation->plan_.steps_at_once_max) {
    Enqueue(operation);
  }

  lock.unlock();
  const Status status = operation->RunStep(step);
  lock.lock();

  --running_[IndexOf(lane)];
  --operation->running_;
  if (!status) {
    GiveUp(*operation, status.error());
  } else if (HasSteps(*operation) && !operation->place_) {
    Enqueue(operation);
  }
  FinishIfOver(lock, operation);
}

void DiskThreads::FinishIfOver(Lock& lock, OperationRef& operation) {
  if (operation->running_ > 0) return;
  in_kernel_.erase(operation.get());
  if (HasSteps(*operation)) return;
  if (abandoned_) {
    // Whoever asked may be gone. What the operation owns stays, as Stop has announced.
    left_behind_.push_back(std::move(operation));
    return;
  }
  --in_flight_;
  ++finishing_;
  Status status;
  if (operation->error_) status = std::unexpected(*operation->error_);
  lock.unlock();
  operation->Finish(status);
  operation.reset();
  lock.lock();
  --finishing_;
  idle_.notify_all();
}

void DiskThreads::AnswerRefused(Lock& lock) {
  auto refused = std::exchange(refused_, {});
  ++finishing_;
  lock.unlock();
  for (auto& [operation, error] : refused) operation->Finish(std::unexpected(error));
  refused.clear();
  lock.lock();
  --finishing_;
  idle_.notify_all();
}

bool DiskThreads::ExpireOne(Lock& lock) {
  if (deadlines_.empty() || deadlines_.begin()->first > std::chrono::steady_clock::now()) {
    return false;
  }
  // Kept alive by its list or by the thread that runs a step of it.
  OperationRef operation;
  Operation& expired = *deadlines_.begin()->second;
  if (expired.place_) operation = **expired.place_;
  GiveUp(expired, Error{ErrorCode::kTimeout, 0, "deadline"});
  if (operation) FinishIfOver(lock, operation);
  return true;
}

void DiskThreads::TimerLoop() {
  Lock lock(mutex_);
  while (true) {
    if (!refused_.empty()) {
      AnswerRefused(lock);
    } else if (ExpireOne(lock)) {
      continue;
    } else if (timer_ends_) {
      return;
    } else if (deadlines_.empty()) {
      timer_work_.wait(lock);
    } else {
      const TimePoint next = deadlines_.begin()->first;
      timer_work_.wait_until(lock, next);
    }
  }
}

bool DiskThreads::Idle() const {
  return in_flight_ == 0 && finishing_ == 0 && cleanups_.empty() && cleaning_ == 0;
}

// What waits has not touched the disk; it ends here, on the timer, before Stop returns.
void DiskThreads::CancelWaiting(Lock& lock) {
  const Error error{ErrorCode::kShutdown, 0, "engine stopped"};
  for (Operation::List& list : waiting_) {
    while (!list.empty()) {
      OperationRef operation = list.front();
      GiveUp(*operation, error);
      if (operation->running_ > 0) continue;
      --in_flight_;
      refused_.emplace_back(std::move(operation), error);
    }
  }
  timer_work_.notify_one();
  idle_.wait(lock, [this] { return refused_.empty() && finishing_ == 0; });
}

int64_t DiskThreads::Stop(TimePoint deadline) {
  Lock lock(mutex_);
  DOVETAIL_CHECK(!workers_end_);
  stopping_ = true;
  bool clean = idle_.wait_until(lock, deadline, [this] { return Idle(); });
  if (!clean) {
    CancelWaiting(lock);
    clean = Idle();
    abandoned_ = !clean;
  }
  workers_end_ = true;
  io_work_.notify_all();
  control_work_.notify_all();
  const int64_t held = in_flight_ + cleaning_ + static_cast<int64_t>(cleanups_.size());
  lock.unlock();
  for (std::thread& worker : workers_) clean ? worker.join() : worker.detach();
  return held;
}

std::vector<std::string> DiskThreads::DescribeHeld() const {
  Lock lock(mutex_);
  std::vector<std::string> held;
  for (const Operation* operation : in_kernel_) held.push_back(operation->Describe());
  return held;
}

void DiskThreads::EndTimer() {
  {
    Lock lock(mutex_);
    timer_ends_ = true;
    timer_work_.notify_one();
  }
  timer_.join();
}

}  // namespace dovetail::engine
