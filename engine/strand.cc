#include "engine/strand.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>

namespace dovetail::engine {

struct Strand::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::move_only_function<void()>> tasks;  // guarded by mutex
  bool closed = false;                                // guarded by mutex
  bool ended = false;                                 // guarded by mutex
};

Strand::Strand(const std::string& name)
    : state_(std::make_shared<State>()), thread_([state = state_] { Loop(*state); }) {
  pthread_setname_np(thread_.native_handle(), name.c_str());
}

Strand::~Strand() { static_cast<void>(Drain(TimePoint::max())); }

bool Strand::Post(std::move_only_function<void()> task) {
  std::lock_guard lock(state_->mutex);
  if (state_->closed) return false;
  state_->tasks.push_back(std::move(task));
  state_->changed.notify_all();
  return true;
}

void Strand::Close() {
  std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->changed.notify_all();
}

bool Strand::Drain(TimePoint deadline) {
  Close();
  std::unique_lock lock(state_->mutex);
  const bool ended = state_->changed.wait_until(lock, deadline, [this] { return state_->ended; });
  lock.unlock();
  if (thread_.joinable()) ended ? thread_.join() : thread_.detach();
  return ended;
}

void Strand::Loop(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.changed.wait(lock, [&] { return state.closed || !state.tasks.empty(); });
    if (state.tasks.empty()) break;
    std::move_only_function<void()> task = std::move(state.tasks.front());
    state.tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it owned is let go outside the lock
    lock.lock();
  }
  state.ended = true;
  state.changed.notify_all();
}

}  // namespace dovetail::engine
