#include "server/answer_watch.h"

#include <optional>
#include <utility>

#include "engine/base/check.h"

namespace dovetail::server {

class AnswerWatch::Answer {
 public:
  Answer(std::function<void()> cancel, TimePoint began)
      : cancel_(std::move(cancel)), began_(began) {}

  TimePoint began() const { return began_; }

  // False: it is over already.
  bool Cancel() {
    std::lock_guard lock(mutex_);
    if (!cancel_) return false;
    // A copy: End on this thread takes the other one away while it runs.
    const std::function<void()> cancel = cancel_;
    cancel();
    return true;
  }

  void Close() {
    std::lock_guard lock(mutex_);
    cancel_ = nullptr;
  }

  std::optional<Answers::iterator> place;  // guarded by the watch; empty: not watched any more

 private:
  std::recursive_mutex mutex_;
  std::function<void()> cancel_;  // guarded by mutex_
  const TimePoint began_;
};

AnswerWatch::AnswerWatch(Milliseconds timeout, Counter& cut, Clock clock)
    : timeout_(timeout), cut_(cut), clock_(std::move(clock)) {}

AnswerWatch::~AnswerWatch() { DOVETAIL_CHECK(answers_.empty()); }

std::shared_ptr<AnswerWatch::Answer> AnswerWatch::Begin(std::function<void()> cancel) {
  std::lock_guard lock(mutex_);
  // The time is taken inside, so that the list is in its order.
  auto answer = std::make_shared<Answer>(std::move(cancel), clock_());
  answer->place = answers_.insert(answers_.end(), answer);
  return answer;
}

void AnswerWatch::End(Answer& answer) {
  {
    std::lock_guard lock(mutex_);
    if (answer.place) answers_.erase(*std::exchange(answer.place, std::nullopt));
  }
  answer.Close();
}

void AnswerWatch::CutOverdue() {
  Answers overdue;
  {
    std::lock_guard lock(mutex_);
    const TimePoint latest = clock_() - timeout_;
    while (!answers_.empty() && answers_.front()->began() < latest) {
      answers_.front()->place.reset();
      overdue.splice(overdue.end(), answers_, answers_.begin());
    }
  }
  // Without the lock: a cancel may come back to End.
  for (const std::shared_ptr<Answer>& answer : overdue) {
    if (answer->Cancel()) cut_.Increment();
  }
}

}  // namespace dovetail::server
