#include "engine/base/executor.h"

#include <pthread.h>

#include <utility>

namespace dovetail {

Executor::Executor(std::string name, int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Loop(); });
    pthread_setname_np(threads_.back().native_handle(), (name + "-" + std::to_string(i)).c_str());
  }
}

Executor::~Executor() { Stop(); }

void Executor::Post(std::move_only_function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      tasks_.push_back(std::move(task));
      // All: pthread_cond_signal of Debian 12's glibc may wake nobody when several threads wait
      // (sourceware bug 25847).
      changed_.notify_all();
      return;
    }
  }
  task();
}

void Executor::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Executor::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::move_only_function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it owned is let go outside the lock
    lock.lock();
  }
}

}  // namespace dovetail
