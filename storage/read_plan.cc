#include "storage/read_plan.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace dovetail::storage {
namespace {

constexpr size_t kReadsInFlight = 8;

// A direct read takes whole units of the device and memory of at least 16 KiB, which its answer
// then holds: for a batch of a few hundred bytes, many times what the read budget counts.
engine::IoMode ModeOf(const PlannedRead& read, engine::IoMode wanted) {
  return read.length < kDirectReadBytesMin ? engine::IoMode::kBuffered : wanted;
}

}  // namespace

ReadPlan PlanData(const std::vector<Extent>& extents, int64_t offset, int64_t length) {
  ReadPlan plan;
  auto extent = std::upper_bound(
      extents.begin(), extents.end(), offset,
      [](int64_t at, const Extent& candidate) { return at < candidate.logical_end(); });
  while (length > 0) {
    DOVETAIL_CHECK(extent != extents.end());
    const int64_t inside = offset - extent->logical_offset;
    const int64_t bytes = std::min(length, extent->data_bytes - inside);
    plan.push_back({extent->segment, extent->data_offset() + inside, bytes});
    offset += bytes;
    length -= bytes;
    ++extent;
  }
  return plan;
}

PlannedRead PlanHead(const Extent& extent) {
  return {extent.segment, extent.batch_offset, kBatchHeaderBytes + extent.index_bytes()};
}

ReadJob::ReadJob(ReadPlan plan, engine::IoMode mode, Done done)
    : plan_(std::move(plan)), mode_(mode), done_(std::move(done)), pieces_(plan_.size()) {}

void ReadJob::Run(ReadPlan plan, engine::IoMode mode, Done done) {
  DOVETAIL_CHECK(!plan.empty());
  std::shared_ptr<ReadJob> job(new ReadJob(std::move(plan), mode, std::move(done)));
  job->StartSome();
}

void ReadJob::StartSome() {
  std::vector<size_t> starting;
  {
    std::lock_guard lock(mutex_);
    while (!failure_ && next_ < plan_.size() && in_flight_ < kReadsInFlight) {
      starting.push_back(next_++);
      ++in_flight_;
    }
  }
  for (size_t i : starting) {
    const PlannedRead& read = plan_[i];
    Disk& disk = *read.segment->disk;
    if (disk.slow()) return Abandon(i);
    Disk::Watch watch(disk, [job = weak_from_this(), i] {
      if (const std::shared_ptr<ReadJob> self = job.lock()) self->Abandon(i);
    });
    disk.engine().Read({.file = read.segment->file,
                        .offset = read.offset,
                        .length = read.length,
                        .mode = ModeOf(read, mode_)},
                       [self = shared_from_this(), i, watch = std::move(watch),
                        started = std::chrono::steady_clock::now()](Result<SliceChain> bytes) {
                         self->OnRead(i, started, std::move(bytes));
                       });
  }
}

void ReadJob::Abandon(size_t i) {
  Done done;
  {
    std::lock_guard lock(mutex_);
    if (!done_) return;
    failure_ = std::make_unique<Failure>(Error{ErrorCode::kTimeout, 0, "slow disk"}, plan_[i]);
    done = std::exchange(done_, nullptr);
  }
  done(std::unexpected(*failure_));
}

void ReadJob::OnRead(size_t i, TimePoint started, Result<SliceChain> bytes) {
  Observe(plan_[i].segment->disk->histograms().read_seconds, started);
  Done done;
  {
    std::lock_guard lock(mutex_);
    --in_flight_;
    DiskStats& stats = plan_[i].segment->disk->stats();
    if (bytes) {
      pieces_[i] = std::move(*bytes);
      stats.reads_total.fetch_add(1);
      stats.read_bytes_total.fetch_add(plan_[i].length);
    } else {
      stats.read_failures_total.fetch_add(1);
      if (!failure_) failure_ = std::make_unique<Failure>(bytes.error(), plan_[i]);
    }
    if (!done_) return;  // abandoned: nobody waits any more
    const bool over = in_flight_ == 0 && (failure_ || next_ == plan_.size());
    if (over) done = std::exchange(done_, nullptr);
  }
  if (!done) return StartSome();
  if (failure_) return done(std::unexpected(*failure_));
  done(std::move(pieces_));
}

}  // namespace dovetail::storage
