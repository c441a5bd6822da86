// A bounded first-come-first-served queue in front of something scarce (write memory, read memory).
// A caller holds no thread while it waits: its done function runs once, with success (the bytes are
// taken), kNoBuffer (the wait was over, or the queue was full) or kShutdown.
//
// Who comes while others wait waits behind them, also when there would be room for it: small
// requests do not starve a large one.
//
// Threads: any may Ask and OnRoom. done runs on the asking thread when the answer is known at once,
// else on the executor. The ticker and the executor outlive the queue's use; Close() before either
// stops.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "engine/base/clock.h"
#include "engine/base/executor.h"
#include "engine/base/result.h"
#include "engine/base/ticker.h"

namespace dovetail::storage {

class AdmissionQueue {
 public:
  using Done = std::move_only_function<void(Status)>;

  struct Options {
    Milliseconds wait{0};
    int64_t queue_max = 0;
  };

  // try_take: takes the bytes and returns true, or changes nothing. Runs under the queue's lock.
  AdmissionQueue(Options options, std::function<bool(int64_t)> try_take, Executor& executor,
                 Ticker& ticker);

  void Ask(int64_t bytes, Done done);
  // Something was given back: serves those that fit now.
  void OnRoom();
  // Answers all who wait, and all who come, with kShutdown.
  void Close();

  int64_t waiting() const;
  // What the one in front asked for; 0 when nobody waits.
  int64_t first_waiting_bytes() const;

 private:
  struct Waiter {
    int64_t bytes;
    TimePoint deadline;
    Done done;
  };

  void ExpireDue();
  void Post(Waiter waiter, Status status);

  const Options options_;
  const std::function<bool(int64_t)> try_take_;
  Executor& executor_;
  Ticker& ticker_;
  mutable std::mutex mutex_;
  std::deque<Waiter>
      waiters_;          // guarded by mutex_; all wait equally long, so also ordered by deadline
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace dovetail::storage
