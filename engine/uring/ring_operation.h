// One accepted operation of a shard: the requests that it makes of the ring, and its end.
//
// It owns its bytes, its buffers and a reference to its file until Finish, which lets go of all of
// them before it runs the caller's done. Finish comes after the last request was answered.
//
// Threads: the shard's, but for Open and RollBack (a control thread) and construction (any).
#pragma once

#include <liburing.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/counters.h"
#include "engine/operation.h"
#include "engine/uring/fixed_files.h"
#include "engine/uring/slabs.h"

namespace dovetail::engine {

class UringFile;

// What a shard lends to its operations.
struct ShardTools {
  int shard = 0;
  bool splices = false;  // the kernel knows how to
  Arena& arena;
  Slabs& slabs;
  FixedFiles& files;
  EngineCounters& counters;
  RingCounters& ring_counters;
};

class RingOperation {
 public:
  enum class Kind : uint8_t { kAppend, kRead, kPipe };

  RingOperation(Kind kind, TimePoint deadline)
      : kind_(kind), deadline_(deadline), accepted_(std::chrono::steady_clock::now()) {}
  virtual ~RingOperation() = default;
  RingOperation(const RingOperation&) = delete;
  RingOperation& operator=(const RingOperation&) = delete;

  Kind kind() const { return kind_; }
  Lane lane() const { return kind_ == Kind::kAppend ? Lane::kAppend : Lane::kRead; }

  // That it moves in all.
  virtual int64_t bytes() const = 0;

  // Before the first request: whether all is there that requests need. If not, Open gets it.
  virtual bool FindOpen() = 0;
  // On a control thread: it blocks.
  virtual Status Open() = 0;
  // After FindOpen, before the first request: whether the file is fit for it. Does not block.
  virtual Status Check() { return {}; }

  // Whether there is a request to be made now. False when all are made, or when no more of them may
  // run at once.
  virtual bool HasNext() const = 0;
  // Whether Prepare will want a slab.
  virtual bool NeedsSlab() const { return false; }
  // Whether the next request goes on with what an earlier one has begun.
  virtual bool GoesOn() const { return false; }
  // Fills in the next request; returns the part of the operation that its result belongs to.
  // The data behind the request lives at least until Take. REQUIRES: HasNext, and a slab is free if
  // NeedsSlab.
  virtual uint32_t Prepare(io_uring_sqe& sqe, ShardTools& tools) = 0;
  // Takes the result. Afterwards HasNext may be true (again), as a short transfer goes on, but not
  // before so long. An error ends the operation once nothing is under way.
  virtual Result<Milliseconds> Take(uint32_t part, int32_t result, ShardTools& tools) = 0;
  // Nothing is under way and nothing more will be: gives back what the shard lent.
  virtual void Settle(ShardTools& tools) = 0;
  // After a failure of an append that has made requests. Blocks; the error to finish with.
  virtual Error RollBack(Error error) { return error; }
  virtual void Finish(Status status) = 0;

  // Of an append: its file, until Finish.
  virtual std::shared_ptr<UringFile> appended() const { return nullptr; }

  // For the log, such as "append of 4096 bytes to x".
  virtual std::string Describe() const = 0;

 private:
  friend class UringShard;
  using List = std::list<std::shared_ptr<RingOperation>>;

  const Kind kind_;
  const TimePoint deadline_;
  const TimePoint accepted_;
  // The shard's.
  std::optional<List::iterator> place_;  // in its lane's list, while it waits there
  List::iterator known_;                 // among all that were accepted
  bool opening_ = false;
  bool begun_ = false;
  bool ending_ = false;
  bool pausing_ = false;
  bool expired_ = false;
  int under_way_ = 0;           // requests that the ring has not answered, and Open
  std::optional<Error> error_;  // the first one; no more requests after it
};

using RingOperationRef = std::shared_ptr<RingOperation>;

}  // namespace dovetail::engine
