// The bytes of answers to reads that may be on their way to clients at once (read_bytes_max). An
// answer larger than the whole budget waits until no other is out and goes alone: it is never
// refused for its size.
//
// A ReadGrant is held by the reply (by every slice of it) and gives its bytes back when the last of
// it is gone, on whatever thread that is; waiting calls are then served on the executor.
//
// Lifetime: the budget outlives its grants. Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "engine/base/result.h"
#include "storage/admission_queue.h"

namespace dovetail::storage {

class ReadBudget;

class ReadGrant {
 public:
  ReadGrant(ReadBudget& budget, int64_t bytes) : budget_(budget), bytes_(bytes) {}
  ~ReadGrant();
  ReadGrant(const ReadGrant&) = delete;
  ReadGrant& operator=(const ReadGrant&) = delete;

  int64_t bytes() const { return bytes_; }

 private:
  ReadBudget& budget_;
  const int64_t bytes_;
};

class ReadBudget {
 public:
  using Done = std::move_only_function<void(Result<std::shared_ptr<ReadGrant>>)>;

  ReadBudget(int64_t bytes_max, AdmissionQueue::Options options, Executor& executor,
             Ticker& ticker);
  ~ReadBudget();

  // REQUIRES: bytes > 0.
  void Acquire(int64_t bytes, Done done);
  void Close() { queue_.Close(); }

  int64_t bytes_max() const { return bytes_max_; }
  int64_t bytes_in_flight() const;
  int64_t waiting() const { return queue_.waiting(); }

 private:
  friend class ReadGrant;
  bool TryTake(int64_t bytes);
  void Return(int64_t bytes);

  const int64_t bytes_max_;
  mutable std::mutex mutex_;
  int64_t bytes_in_flight_ = 0;  // guarded by mutex_
  AdmissionQueue queue_;
};

}  // namespace dovetail::storage
