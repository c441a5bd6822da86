// A few threads that run tasks posted to them, in order of posting. Used to finish replies: whoever
// frees memory or gives a reading share back must not run another call's reply on its own stack.
//
// Any thread may Post. The queue has no bound of its own: each task belongs to a call that was
// admitted by a bounded queue elsewhere. Stop() runs what was posted, then joins; a Post after that
// runs the task at once on the caller.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dovetail {

class Executor {
 public:
  // name: at most 12 characters, shown by ps and top.
  Executor(std::string name, int threads);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Post(std::move_only_function<void()> task);
  void Stop();

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::move_only_function<void()>> tasks_;  // guarded by mutex_
  bool stopping_ = false;                              // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace dovetail
