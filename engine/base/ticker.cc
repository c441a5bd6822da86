#include "engine/base/ticker.h"

#include <pthread.h>

#include <utility>

namespace dovetail {

Ticker::Ticker() : thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), "ticker");
}

Ticker::~Ticker() { Stop(); }

void Ticker::RunAt(TimePoint when, std::function<void()> task) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  tasks_.emplace(when, Task{Milliseconds(0), std::move(task)});
  if (tasks_.begin()->first >= when) changed_.notify_one();
}

void Ticker::RunEvery(Milliseconds interval, std::function<void()> task) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  tasks_.emplace(std::chrono::steady_clock::now() + interval, Task{interval, std::move(task)});
  changed_.notify_one();
}

void Ticker::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Ticker::Loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (tasks_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const TimePoint due = tasks_.begin()->first;
    const TimePoint now = std::chrono::steady_clock::now();
    if (now < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    Task task = std::move(tasks_.begin()->second);
    tasks_.erase(tasks_.begin());
    lock.unlock();
    task.run();
    lock.lock();
    if (task.interval.count() > 0) tasks_.emplace(now + task.interval, std::move(task));
  }
}

}  // namespace dovetail
