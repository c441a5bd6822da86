// The switches of FaultEngine and what moves it: late completions, what hangs, the end.
#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "tests/fakes/fault_engine.h"

namespace dovetail::fakes {

void FaultEngine::FailNext(Call call, int os_error, int64_t after_bytes, bool rollback_fails) {
  std::lock_guard lock(mutex_);
  fail_next_[static_cast<size_t>(call)].push_back(
      {.os_error = os_error, .after_bytes = after_bytes, .rollback_fails = rollback_fails});
}

void FaultEngine::FailAll(Call call, int os_error) {
  std::lock_guard lock(mutex_);
  fail_all_[static_cast<size_t>(call)] = os_error;
}

void FaultEngine::HangAll(Call call) {
  std::lock_guard lock(mutex_);
  hang_all_[static_cast<size_t>(call)] = true;
}

void FaultEngine::SetSpace(int64_t bytes) {
  std::lock_guard lock(mutex_);
  space_bytes_ = bytes;
}

void FaultEngine::LetGo() {
  std::list<Hung> hung;
  {
    std::lock_guard lock(mutex_);
    std::fill(std::begin(hang_all_), std::end(hang_all_), false);
    hung.swap(hung_);
  }
  for (Hung& call : hung) call.go(std::nullopt);
}

void FaultEngine::Heal() {
  {
    std::lock_guard lock(mutex_);
    for (size_t call = 0; call < kCalls; ++call) {
      options_.fail_per_mille[call] = 0;
      fail_all_[call].reset();
      fail_next_[call].clear();
    }
    options_.late_per_mille = 0;
    space_bytes_ = std::numeric_limits<int64_t>::max();
  }
  LetGo();
}

int64_t FaultEngine::injected() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(log_.size());
}

int64_t FaultEngine::hanging() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(hung_.size());
}

std::vector<std::string> FaultEngine::Log() const {
  std::lock_guard lock(mutex_);
  return log_;
}

int64_t FaultEngine::in_flight() const {
  std::lock_guard lock(mutex_);
  return in_flight_;
}

bool FaultEngine::Post(int shard, std::move_only_function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
  }
  return inner_.Post(shard, std::move(task));
}

bool FaultEngine::TakeExpired(Lock& lock) {
  const TimePoint now = options_.clock();
  const auto expired = std::find_if(hung_.begin(), hung_.end(),
                                    [now](const Hung& hung) { return hung.deadline <= now; });
  if (expired == hung_.end()) return false;
  auto go = std::move(expired->go);
  hung_.erase(expired);
  lock.unlock();
  Deliver([go = std::move(go)]() mutable { go(Error{ErrorCode::kTimeout, 0, "deadline"}); });
  lock.lock();
  return true;
}

// any: without regard to its time, as a stepped engine and one that stops do.
bool FaultEngine::TakeLate(Lock& lock, bool any) {
  if (late_.empty()) return false;
  auto next = std::min_element(late_.begin(), late_.end(),
                               [](const Late& a, const Late& b) { return a.at < b.at; });
  if (stepped_ != nullptr) {
    next = std::next(late_.begin(), static_cast<int64_t>(order_() % late_.size()));
  } else if (!any && next->at > options_.clock()) {
    return false;
  }
  auto deliver = std::move(next->deliver);
  late_.erase(next);
  lock.unlock();
  Deliver(std::move(deliver));
  lock.lock();
  return true;
}

void FaultEngine::Loop() {
  Lock lock(mutex_);
  while (true) {
    if (TakeExpired(lock) || TakeLate(lock, stopping_)) continue;
    if (thread_ends_) return;
    TimePoint next = TimePoint::max();
    for (const Hung& hung : hung_) next = std::min(next, hung.deadline);
    for (const Late& late : late_) next = std::min(next, late.at);
    if (next == TimePoint::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, next);
    }
  }
}

bool FaultEngine::RunOne() {
  DOVETAIL_CHECK(stepped_ != nullptr);
  Lock lock(mutex_);
  if (TakeExpired(lock)) return true;
  if (order_() % 2 == 0 && TakeLate(lock, true)) return true;
  lock.unlock();
  if (stepped_->RunRandom(order_)) return true;
  lock.lock();
  return TakeLate(lock, true);
}

bool FaultEngine::RunAll() {
  bool ran = false;
  while (RunOne()) ran = true;
  return ran;
}

bool FaultEngine::Stop(TimePoint deadline) {
  Lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  if (stepped_ != nullptr) {
    lock.unlock();
    RunAll();
    lock.lock();
  } else {
    changed_.wait_until(lock, deadline, [this] { return in_flight_ == 0 && delivering_ == 0; });
  }
  left_behind_.splice(left_behind_.end(), hung_);
  lock.unlock();
  const bool inner_stopped = inner_.Stop(deadline);
  lock.lock();
  const auto held = static_cast<int64_t>(left_behind_.size());
  if (stepped_ == nullptr) {
    changed_.wait(lock, [&] {
      return delivering_ == 0 && late_.empty() && (in_flight_ == held || !inner_stopped);
    });
  }
  abandoned_ = held > 0 || !inner_stopped;
  return !abandoned_;
}

}  // namespace dovetail::fakes
