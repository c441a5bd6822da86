// The half of the memory engine that decides what runs when, and how it ends.
#include <utility>

#include "engine/base/check.h"
#include "tests/fakes/mem_engine.h"

namespace dovetail::fakes {

bool MemEngine::Take(Event& out) {
  std::deque<Event>* oldest = nullptr;
  for (auto& tasks : tasks_) {
    if (tasks.empty()) continue;
    if (oldest == nullptr || tasks.front().sequence < oldest->front().sequence) oldest = &tasks;
  }
  const bool operation_first =
      !operations_.empty() &&
      (oldest == nullptr || operations_.front().sequence < oldest->front().sequence);
  if (operation_first) {
    out = std::move(operations_.front());
    operations_.pop_front();
    return true;
  }
  if (oldest == nullptr) return false;
  out = std::move(oldest->front());
  oldest->pop_front();
  return true;
}

bool MemEngine::TakeRandom(std::mt19937_64& random, Event& out) {
  std::vector<std::deque<Event>*> ready;
  for (auto& tasks : tasks_) {
    if (!tasks.empty()) ready.push_back(&tasks);
  }
  const size_t choices = operations_.size() + ready.size();
  if (choices == 0) return false;
  const size_t choice = random() % choices;
  if (choice < ready.size()) {
    out = std::move(ready[choice]->front());
    ready[choice]->pop_front();
  } else {
    const auto at = std::next(operations_.begin(), static_cast<int64_t>(choice - ready.size()));
    out = std::move(*at);
    operations_.erase(at);
  }
  return true;
}

void MemEngine::Run(Lock& lock, Event event) {
  if (event.accepted) --in_flight_;
  ++running_;
  lock.unlock();
  std::optional<Error> error;
  if (event.deadline != TimePoint::max() && options_.clock() >= event.deadline) {
    error = Error{ErrorCode::kTimeout, 0, "deadline"};
  }
  event.tear = nullptr;
  event.run(error);
  event.run = nullptr;
  lock.lock();
  --running_;
  changed_.notify_all();
}

bool MemEngine::RunOne() {
  DOVETAIL_CHECK(options_.stepped);
  Lock lock(mutex_);
  Event event;
  if (!Take(event)) return false;
  Run(lock, std::move(event));
  return true;
}

bool MemEngine::RunRandom(std::mt19937_64& random) {
  DOVETAIL_CHECK(options_.stepped);
  Lock lock(mutex_);
  Event event;
  if (!TakeRandom(random, event)) return false;
  Run(lock, std::move(event));
  return true;
}

bool MemEngine::RunAll() {
  bool ran = false;
  while (RunOne()) ran = true;
  return ran;
}

bool MemEngine::NothingLeft() const {
  if (!operations_.empty() || running_ > 0) return false;
  for (const auto& tasks : tasks_) {
    if (!tasks.empty()) return false;
  }
  return true;
}

bool MemEngine::Stop(TimePoint) {
  Lock lock(mutex_);
  stopping_ = true;
  if (options_.stepped) {
    lock.unlock();
    RunAll();
    return true;
  }
  changed_.wait(lock, [this] { return NothingLeft(); });
  return true;
}

std::shared_ptr<MemDisk> MemEngine::Crash(uint64_t seed) {
  DOVETAIL_CHECK(options_.stepped);
  std::mt19937_64 random(seed);
  std::list<Event> lost;
  std::vector<std::deque<Event>> lost_tasks(tasks_.size());
  {
    std::lock_guard lock(mutex_);
    stopping_ = crashed_ = true;
    lost.swap(operations_);
    lost_tasks.swap(tasks_);
    tasks_.resize(lost_tasks.size());
    in_flight_ = 0;
  }
  for (Event& event : lost) {
    if (event.tear && event.accepted) event.tear(random);
  }
  return disk_;  // what the lost calls owned goes now, without having been answered
}

void MemEngine::Loop() {
  Lock lock(mutex_);
  while (true) {
    Event event;
    if (Take(event)) {
      Run(lock, std::move(event));
      event = {};
    } else if (thread_ends_) {
      return;
    } else {
      changed_.wait(lock);
    }
  }
}

}  // namespace dovetail::fakes
