#include "storage/admission_queue.h"

#include <utility>

namespace dovetail::storage {

AdmissionQueue::AdmissionQueue(Options options, std::function<bool(int64_t)> try_take,
                               Executor& executor, Ticker& ticker)
    : options_(options), try_take_(std::move(try_take)), executor_(executor), ticker_(ticker) {}

void AdmissionQueue::Ask(int64_t bytes, Done done) {
  Status answer;
  {
    std::lock_guard lock(mutex_);
    if (closed_) {
      answer = Fail(ErrorCode::kShutdown, "admission");
    } else if (waiters_.empty() && try_take_(bytes)) {
      answer = Status();
    } else if (options_.wait.count() <= 0 ||
               static_cast<int64_t>(waiters_.size()) >= options_.queue_max) {
      answer = Fail(ErrorCode::kNoBuffer, "admission");
    } else {
      const TimePoint deadline = std::chrono::steady_clock::now() + options_.wait;
      waiters_.push_back(Waiter{bytes, deadline, std::move(done)});
      ticker_.RunAt(deadline, [this] { ExpireDue(); });
      return;
    }
  }
  done(std::move(answer));
}

void AdmissionQueue::OnRoom() {
  std::lock_guard lock(mutex_);
  while (!waiters_.empty() && try_take_(waiters_.front().bytes)) {
    Waiter waiter = std::move(waiters_.front());
    waiters_.pop_front();
    Post(std::move(waiter), Status());
  }
}

void AdmissionQueue::ExpireDue() {
  {
    std::lock_guard lock(mutex_);
    const TimePoint now = std::chrono::steady_clock::now();
    while (!waiters_.empty() && waiters_.front().deadline <= now) {
      Waiter waiter = std::move(waiters_.front());
      waiters_.pop_front();
      Post(std::move(waiter), Fail(ErrorCode::kNoBuffer, "admission"));
    }
  }
  OnRoom();  // a large one that was in front is gone: others may fit
}

void AdmissionQueue::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (Waiter& waiter : waiters_) {
    Post(std::move(waiter), Fail(ErrorCode::kShutdown, "admission"));
  }
  waiters_.clear();
}

void AdmissionQueue::Post(Waiter waiter, Status status) {
  executor_.Post([done = std::move(waiter.done), status = std::move(status)]() mutable {
    done(std::move(status));
  });
}

int64_t AdmissionQueue::waiting() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(waiters_.size());
}

int64_t AdmissionQueue::first_waiting_bytes() const {
  std::lock_guard lock(mutex_);
  return waiters_.empty() ? 0 : waiters_.front().bytes;
}

}  // namespace dovetail::storage
