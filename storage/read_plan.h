// Which bytes of which segments make an answer, and the reading of them: a plan is a value, a job
// carries it out with a few reads in flight and gives all pieces at once, in order.
//
// A disk that is slow, or becomes slow meanwhile, ends the job with kTimeout: who asked need not
// wait for a disk that hangs. What the kernel still holds stays with the engine until it answers.
//
// Threads: planning is pure. A job runs on the threads of the engines that it reads from; its done
// runs there, on the ticker, or inside Run, once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/result.h"
#include "storage/disk.h"
#include "storage/extent.h"

namespace dovetail::storage {

struct PlannedRead {
  std::shared_ptr<const Segment> segment;
  int64_t offset = 0;
  int64_t length = 0;
};

using ReadPlan = std::vector<PlannedRead>;

// The data bytes [offset, offset + length) of a partition. REQUIRES: extents are in order and cover
// them.
ReadPlan PlanData(const std::vector<Extent>& extents, int64_t offset, int64_t length);
// Header and index of one extent.
PlannedRead PlanHead(const Extent& extent);

// Shorter reads go through the page cache, whatever the mode of their job.
inline constexpr int64_t kDirectReadBytesMin = 16 << 10;

class ReadJob : public std::enable_shared_from_this<ReadJob> {
 public:
  // One chain for each planned read, or the first error (with the read that it struck).
  struct Failure {
    Error error;
    PlannedRead read;
  };
  using Done = std::move_only_function<void(std::expected<std::vector<SliceChain>, Failure>)>;

  static void Run(ReadPlan plan, engine::IoMode mode, Done done);

 private:
  ReadJob(ReadPlan plan, engine::IoMode mode, Done done);
  void StartSome();
  void Abandon(size_t i);
  void OnRead(size_t i, TimePoint started, Result<SliceChain> bytes);

  const ReadPlan plan_;
  const engine::IoMode mode_;
  std::mutex mutex_;
  Done done_;                         // guarded by mutex_
  std::vector<SliceChain> pieces_;    // guarded by mutex_
  size_t next_ = 0;                   // guarded by mutex_
  size_t in_flight_ = 0;              // guarded by mutex_
  std::unique_ptr<Failure> failure_;  // guarded by mutex_
};

}  // namespace dovetail::storage
