// Answers on their way to clients, and the end of those that are not taken: a client that asks and
// does not read would hold the answer's memory and its share of read_bytes_max for ever.
//
// Threads: any. An answer's cancel runs on the thread of CutOverdue, never after End has returned;
// it may end its own answer (call End) before it returns. Lifetime: the watch outlives the calls.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "engine/base/clock.h"
#include "engine/base/metrics.h"

namespace dovetail::server {

class AnswerWatch {
 public:
  class Answer;

  // cut counts the answers that were given up.
  AnswerWatch(Milliseconds timeout, Counter& cut, Clock clock = SteadyClock());
  ~AnswerWatch();
  AnswerWatch(const AnswerWatch&) = delete;
  AnswerWatch& operator=(const AnswerWatch&) = delete;

  // The time of an answer begins. Each must End, once.
  std::shared_ptr<Answer> Begin(std::function<void()> cancel);
  // Waits for a cancel that is running on another thread.
  void End(Answer& answer);

  // Cancels what has been on its way for longer than the timeout; each answer once. Does not block.
  void CutOverdue();

 private:
  using Answers = std::list<std::shared_ptr<Answer>>;

  const Milliseconds timeout_;
  Counter& cut_;
  const Clock clock_;
  std::mutex mutex_;
  Answers answers_;  // guarded by mutex_; the oldest first
};

}  // namespace dovetail::server
