#include "storage/segment_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "engine/base/check.h"

namespace dovetail::storage {
namespace {

constexpr int64_t kReserveStepMin = 64 << 10;
constexpr int64_t kReserveStepMax = 16 << 20;

constexpr int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// One shared page of zeros for all padding: never what a buffer held before.
Slice Zeros(int64_t bytes) {
  static const auto zeros = std::make_shared<const std::vector<std::byte>>(kGroupAlignment);
  return {zeros, ConstBytes(zeros->data(), static_cast<size_t>(bytes))};
}

}  // namespace

SegmentLog::SegmentLog(Place place, const LocalFileStoreOptions& options,
                       std::shared_ptr<FlushSource> source)
    : place_(std::move(place)), options_(options), source_(std::move(source)) {}

void SegmentLog::OnStrand(std::function<void(SegmentLog&)> step) {
  place_.disk->engine().Post(place_.shard,
                             [self = shared_from_this(), step = std::move(step)] { step(*self); });
}

void SegmentLog::Want(int64_t bytes, Settled settled) {
  OnStrand([bytes, settled = std::move(settled)](SegmentLog& log) {
    if (log.closed_) return settled(bytes);
    log.wanted_bytes_ += bytes;
    log.settled_ = settled;
    log.Pump();
  });
}

void SegmentLog::ShowReserved(int64_t bytes) {
  place_.disk->stats().reserved_bytes.fetch_add(bytes - std::exchange(reserved_shown_, bytes));
}

void SegmentLog::Settle(int64_t bytes) {
  if (bytes > 0) settled_(bytes);
}

void SegmentLog::Pump() {
  if (!next_ && wanted_bytes_ > 0) next_ = Gather();
  if (!in_flight_ && next_) {
    Begin(std::move(next_));
    if (wanted_bytes_ > 0) next_ = Gather();
  }
}

// Freezes what fits into one group. When nothing is left to freeze, the rest of the request is
// settled: there is nothing to wait for.
std::unique_ptr<SegmentLog::Group> SegmentLog::Gather() {
  std::vector<FlushSource::Batch> batches =
      source_->FreezeSome(place_.slot, std::min(wanted_bytes_, options_.flush_group_bytes_max));
  if (batches.empty()) {
    Settle(std::exchange(wanted_bytes_, 0));
    return nullptr;
  }
  auto group = std::make_unique<Group>();
  for (FlushSource::Batch& batch : batches) AddBatch(*group, std::move(batch));
  if (const int64_t padding = RoundUp(group->bytes, kGroupAlignment) - group->bytes; padding > 0) {
    group->data.push_back(Zeros(padding));
    group->bytes += padding;
  }
  // The request counted block data; more than was asked for may have come with the last partition.
  const int64_t settled_by_group = std::min(wanted_bytes_, group->data_bytes);
  wanted_bytes_ -= settled_by_group;
  Settle(settled_by_group);
  place_.disk->stats().flush_bytes_in_flight.fetch_add(group->bytes);
  return group;
}

// Header and index in one piece of memory, then the blocks as slices of the partition's chunks,
// ordered by task so that a reader of some tasks finds theirs together. Only the copy that is
// written is sorted.
void SegmentLog::AddBatch(Group& group, FlushSource::Batch batch) {
  const BlockList& blocks = *batch.frozen.blocks;
  std::vector<uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return blocks.meta(a).task_attempt_id < blocks.meta(b).task_attempt_id;
  });
  const BatchHeader header{.generation = source_->generation(),
                           .partition = batch.partition->id(),
                           .block_count = static_cast<uint32_t>(blocks.size()),
                           .logical_offset = batch.frozen.logical_offset,
                           .data_bytes = blocks.data_bytes()};
  auto head = std::make_shared<std::vector<std::byte>>(
      static_cast<size_t>(kBatchHeaderBytes + header.index_bytes()));
  std::byte* record = head->data() + kBatchHeaderBytes;
  int64_t logical_offset = header.logical_offset;
  for (uint32_t i : order) {
    WriteIndexRecord(blocks.meta(i), logical_offset, record);
    logical_offset += blocks.meta(i).length;
    record += kIndexRecordBytes;
  }
  WriteBatchHeader(header, head->data());
  group.data.push_back(Slice{head, ConstBytes(head->data(), head->size())});
  for (uint32_t i : order) blocks.AppendSlices(i, group.data);
  group.extents.push_back({.segment = nullptr,
                           .batch_offset = group.bytes,
                           .logical_offset = header.logical_offset,
                           .data_bytes = header.data_bytes,
                           .block_count = header.block_count});
  group.heads.push_back(std::move(head));
  group.bytes += header.total_bytes();
  group.data_bytes += header.data_bytes;
  group.batches.push_back(std::move(batch));
}

void SegmentLog::Begin(std::unique_ptr<Group> group) {
  in_flight_ = std::move(group);
  in_flight_->began = std::chrono::steady_clock::now();
  watch_ = std::make_unique<Disk::Watch>(*place_.disk, [log = weak_from_this()] {
    if (const std::shared_ptr<SegmentLog> self = log.lock()) self->Abandon();
  });
  if (segment_ && end_ >= options_.segment_bytes_max) Seal();
  if (!segment_) return OpenSegment();
  Reserve(end_ + in_flight_->bytes, false);
}

void SegmentLog::OpenSegment() {
  std::string path = fmt::format("{}/{}.{}.seg", place_.folder, place_.slot, segment_paths_.size());
  // Noted before it exists: whatever becomes of the call, the name will be removed.
  segment_paths_.push_back(path);
  place_.disk->stats().segments.fetch_add(1);
  place_.disk->engine().Open(
      path, true, [self = shared_from_this(), path](Result<engine::FileRef> file) {
        self->OnStrand([path, file = std::move(file)](SegmentLog& log) {
          if (!file) return log.Fail(file.error());
          log.segment_ = std::make_shared<Segment>(log.place_.disk, *file, path);
          log.place_.disk->stats().segments_created_total.fetch_add(1);
          log.end_ = log.reserved_end_ = log.reserve_step_ = 0;
          log.Reserve(log.in_flight_->bytes, false);
        });
      });
}

// Space in steps that double, so that direct appends find it there; when a step does not fit,
// exactly what the group needs is tried before the disk counts as full.
void SegmentLog::Reserve(int64_t end, bool exact) {
  if (end <= reserved_end_) return Append();
  reserve_step_ = std::clamp(reserve_step_ * 2, kReserveStepMin, kReserveStepMax);
  const int64_t target = exact ? end : std::max(end, RoundUp(end, reserve_step_));
  place_.disk->engine().Reserve(
      segment_->file, target, [self = shared_from_this(), end, target](Status status) {
        self->OnStrand([end, target, status = std::move(status)](SegmentLog& log) {
          if (status) {
            log.reserved_end_ = target;
            log.ShowReserved(target - log.end_);
            return log.Append();
          }
          if (status.error().code == ErrorCode::kNoSpace && target > end) {
            log.reserve_step_ = 0;
            log.place_.disk->stats().reserve_retries_total.fetch_add(1);
            return log.Reserve(end, true);
          }
          log.Fail(status.error());
        });
      });
}

void SegmentLog::Append() {
  place_.disk->engine().Append(
      {.file = segment_->file,
       .offset = end_,
       .data = std::move(in_flight_->data),
       .mode = place_.disk->AppendMode(*segment_->file)},
      [self = shared_from_this()](Status status) {
        self->OnStrand([status = std::move(status)](SegmentLog& log) { log.OnAppended(status); });
      });
}

void SegmentLog::OnAppended(const Status& status) {
  if (!status) {
    // The engine cut the file back to the end; its reservation may be gone with it.
    reserved_end_ = end_;
    ShowReserved(0);
    return Fail(status.error());
  }
  // A group that was given back meanwhile is not ours to commit; the next one goes over it.
  if (!in_flight_->given_back) Commit();
  in_flight_.reset();
  watch_.reset();
  if (closed_) return RemoveAll();
  Pump();
}

void SegmentLog::Commit() {
  DiskStats& stats = place_.disk->stats();
  std::vector<Extent> extents = std::move(in_flight_->extents);
  for (size_t i = 0; i < extents.size(); ++i) {
    extents[i].segment = segment_;
    extents[i].batch_offset += end_;
    extents[i].head = source_->Cache(std::move(in_flight_->heads[i]));
  }
  end_ += in_flight_->bytes;
  ShowReserved(reserved_end_ - end_);
  const Disk::Histograms& histograms = place_.disk->histograms();
  Observe(histograms.append_seconds, in_flight_->began);
  if (histograms.group_bytes) {
    histograms.group_bytes->Observe(static_cast<double>(in_flight_->bytes));
  }
  stats.appended_bytes_total.fetch_add(in_flight_->bytes);
  stats.appended_groups_total.fetch_add(1);
  stats.appended_batches_total.fetch_add(static_cast<int64_t>(extents.size()));
  stats.flush_bytes_in_flight.fetch_sub(in_flight_->bytes);
  source_->OnCommitted(place_.slot, in_flight_->batches, std::move(extents));
}

void SegmentLog::Fail(const Error& error) {
  place_.disk->OnAppendFailed(error, in_flight_->bytes);
  GiveBackAll();
  in_flight_.reset();
  watch_.reset();
  if (closed_) RemoveAll();
}

// Nothing of the group in flight, nor of the one that waits, will be committed here: their blocks
// go back to staging, and who decides about flushes looks again at where they could go.
void SegmentLog::GiveBackAll() {
  Settle(std::exchange(wanted_bytes_, 0));
  std::vector<FlushSource::Batch> batches;
  for (Group* group : {in_flight_.get(), next_.get()}) {
    if (!group || group->given_back) continue;
    group->given_back = true;
    place_.disk->stats().flush_bytes_in_flight.fetch_sub(group->bytes);
    std::move(group->batches.begin(), group->batches.end(), std::back_inserter(batches));
  }
  next_.reset();
  if (!batches.empty()) source_->OnFailed(place_.slot, batches);
}

void SegmentLog::Abandon() {
  OnStrand([](SegmentLog& log) {
    if (log.closed_ || !log.in_flight_ || log.in_flight_->given_back) return;
    log.place_.disk->stats().groups_abandoned_total.fetch_add(1);
    log.GiveBackAll();
  });
}

// The space behind the end was only reserved. Whether the cut succeeds matters to nobody but the
// disk's owner.
void SegmentLog::Seal() {
  if (reserved_end_ > end_) {
    place_.disk->engine().Truncate(segment_->file, end_, [](Status) {});
  }
  ShowReserved(0);
  segment_.reset();
}

void SegmentLog::Close(std::function<void()> done) {
  OnStrand([done = std::move(done)](SegmentLog& log) {
    DOVETAIL_CHECK(!log.closed_);
    log.closed_ = true;
    log.on_removed_ = done;
    log.GiveBackAll();
    if (!log.in_flight_) log.RemoveAll();
  });
}

void SegmentLog::RemoveAll() {
  source_.reset();
  segment_.reset();
  ShowReserved(0);
  place_.disk->stats().removals_pending.fetch_add(1);
  RemoveNext(0);
}

// One name after the other: the removal of a large shuffle takes one operation at a time from the
// disk.
void SegmentLog::RemoveNext(size_t next) {
  auto again = [self = shared_from_this(), next](Status) {
    self->OnStrand([next](SegmentLog& log) {
      if (next < log.segment_paths_.size()) log.place_.disk->stats().segments.fetch_sub(1);
      log.RemoveNext(next + 1);
    });
  };
  if (next < segment_paths_.size()) {
    return place_.disk->engine().Remove(segment_paths_[next], std::move(again));
  }
  // Other lives may have files in the application's folder: then it stays.
  const std::string& life = place_.folder;
  if (next == segment_paths_.size()) {
    return place_.disk->engine().RemoveFolder(life, std::move(again));
  }
  if (next == segment_paths_.size() + 1) {
    return place_.disk->engine().RemoveFolder(life.substr(0, life.rfind('/')), std::move(again));
  }
  place_.disk->stats().removals_pending.fetch_sub(1);
  if (on_removed_) on_removed_();
}

}  // namespace dovetail::storage
