// One thread that runs short tasks at given times: sweeps, heartbeats, deadlines of waiting calls.
// It sleeps until the next task is due and not on a fixed beat.
//
// Tasks run one at a time on the ticker's thread and must not block. Any thread may schedule.
// Stop() ends the thread; tasks that are not due by then never run, and later schedules are
// ignored.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "engine/base/clock.h"

namespace dovetail {

class Ticker {
 public:
  Ticker();
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  void RunAt(TimePoint when, std::function<void()> task);
  // First run after one interval; the next is due one interval after the former began.
  void RunEvery(Milliseconds interval, std::function<void()> task);

  void Stop();

 private:
  struct Task {
    Milliseconds interval{0};  // 0: once
    std::function<void()> run;
  };

  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<TimePoint, Task> tasks_;  // guarded by mutex_
  bool stopping_ = false;                 // guarded by mutex_
  std::thread thread_;
};

}  // namespace dovetail
