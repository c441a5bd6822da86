// Waits for one operation of an engine that runs by itself, and makes and compares bytes.
//
// Threads: the caller blocks until done has run; never call these on a thread of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace dovetail::contract {

using Bytes = std::vector<std::byte>;

// Bytes that differ at every place of a file and between seeds.
Bytes Pattern(int64_t length, uint64_t seed);
// One slice, or as many as it takes with pieces of that size.
SliceChain ChainOf(const Bytes& bytes, size_t piece = SIZE_MAX);
Bytes Flat(const SliceChain& chain);

// An operation under way: its result comes once.
template <class R>
class Pending {
 public:
  Pending() : state_(std::make_shared<std::promise<R>>()), future_(state_->get_future()) {}

  // The done function to hand in. A second call of it ends the test by an exception.
  auto Done() {
    return [state = state_](R result) { state->set_value(std::move(result)); };
  }
  R Wait() { return future_.get(); }
  bool Ready() const {
    return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

 private:
  std::shared_ptr<std::promise<R>> state_;
  std::future<R> future_;
};

Pending<Result<engine::FileRef>> StartOpen(engine::Engine& engine, std::string path, bool create);
Pending<Status> StartAppend(engine::Engine& engine, engine::AppendRequest request);
Pending<Result<SliceChain>> StartRead(engine::Engine& engine, engine::ReadRequest request);

Result<engine::FileRef> Open(engine::Engine& engine, std::string path, bool create);
Status Append(engine::Engine& engine, engine::AppendRequest request);
Result<Bytes> Read(engine::Engine& engine, engine::ReadRequest request);
Status Reserve(engine::Engine& engine, engine::FileRef file, int64_t end);
Status Truncate(engine::Engine& engine, engine::FileRef file, int64_t size);
Status Remove(engine::Engine& engine, std::string path);
Status RemoveFolder(engine::Engine& engine, std::string path);

}  // namespace dovetail::contract
