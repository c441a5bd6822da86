// One thread that runs tasks one at a time, in order of posting: a shard of an engine that has no
// ring of its own.
//
// Any thread may Post. Tasks never block, so the queue needs no bound of its own: each belongs to
// work that was admitted by a bounded queue elsewhere.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "engine/base/clock.h"

namespace dovetail::engine {

class Strand {
 public:
  // name: at most 15 characters, shown by ps and top.
  explicit Strand(const std::string& name);
  // Drains without a deadline when nobody has drained it before.
  ~Strand();
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  // False, and the task is dropped, after Close.
  bool Post(std::move_only_function<void()> task);
  void Close();
  // Closes, and waits until every posted task has run. False when one was still running at the
  // deadline; its thread is then left behind and ends by itself. Not to be called on the strand.
  [[nodiscard]] bool Drain(TimePoint deadline);

 private:
  struct State;

  static void Loop(State& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive the strand
  std::thread thread_;
};

}  // namespace dovetail::engine
