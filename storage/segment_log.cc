#include "storage/segment_log.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "engine/base/check.h"

namespace dovetail::storage {
namespace {

constexpr int64_t kReserveStepMin = 64 << 10;
constexpr int64_t kReserveStepMax = 16 << 20;

int64_t HeadBytes(const BlockList& blocks) {
  return kBatchHeaderBytes + static_cast<int64_t>(blocks.size()) * kIndexRecordBytes;
}

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
  int64_t heads_bytes = 0;
  for (const FlushSource::Batch& batch : batches) heads_bytes += HeadBytes(*batch.frozen.blocks);
  group->heads = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(heads_bytes));
  group->batches.reserve(batches.size());
  group->extents.reserve(batches.size());
  group->data.reserve(2 * batches.size() + 1);
  int64_t head_offset = 0;
  for (FlushSource::Batch& batch : batches) {
    const int64_t head_bytes = HeadBytes(*batch.frozen.blocks);
    AddBatch(*group, std::move(batch), head_offset);
    head_offset += head_bytes;
  }
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

// The blocks of a batch ordered by task, so that a reader of some tasks finds theirs together. Only
// the order of what is written is changed, not the list.
void SegmentLog::OrderByTask(const BlockList& blocks) {
  order_.resize(blocks.size());
  std::iota(order_.begin(), order_.end(), 0u);
  const auto before = [&](uint32_t a, uint32_t b) {
    return blocks.meta(a).task_attempt_id < blocks.meta(b).task_attempt_id;
  };
  if (std::ranges::is_sorted(order_, before)) return;
  std::stable_sort(order_.begin(), order_.end(), before);
}

// Header and index go into the group's heads, the data stays where it is: slices of the partition's
// chunks.
void SegmentLog::AddBatch(Group& group, FlushSource::Batch batch, int64_t head_offset) {
  const BlockList& blocks = *batch.frozen.blocks;
  OrderByTask(blocks);
  const BatchHeader header{.generation = source_->generation(),
                           .partition = batch.partition->id(),
                           .block_count = static_cast<uint32_t>(blocks.size()),
                           .logical_offset = batch.frozen.logical_offset,
                           .data_bytes = blocks.data_bytes()};
  std::byte* head = group.heads->data() + head_offset;
  std::byte* record = head + kBatchHeaderBytes;
  int64_t logical_offset = header.logical_offset;
  for (uint32_t i : order_) {
    WriteIndexRecord(blocks.meta(i), logical_offset, record);
    logical_offset += blocks.meta(i).length;
    record += kIndexRecordBytes;
  }
  WriteBatchHeader(header, head);
  group.data.push_back(Slice{group.heads, ConstBytes(head, record)});
  for (uint32_t i : order_) blocks.AppendSlices(i, group.data);
  group.extents.push_back({.segment = nullptr,
                           .batch_offset = group.bytes,
                           .logical_offset = header.logical_offset,
                           .data_bytes = header.data_bytes,
                           .block_count = header.block_count,
                           .head_offset = static_cast<uint32_t>(head_offset)});
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
          log.FailSegment(status.error());
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
    return FailSegment(status.error());
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
  const std::shared_ptr<IndexCache::Entry> heads = source_->Cache(std::move(in_flight_->heads));
  for (Extent& extent : extents) {
    extent.segment = segment_;
    extent.batch_offset += end_;
    extent.heads = heads;
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

// Full, or busy, is no fault of the segment. Whatever else it was, the next group goes to a new
// one: a file that lost its name or its length must not take the whole disk with it.
void SegmentLog::FailSegment(const Error& error) {
  const bool segment_gone = error.code == ErrorCode::kNotFound || error.code == ErrorCode::kCorrupt;
  if (segment_gone) {
    spdlog::error(
        "segment {} on {} is damaged ({} at {}): something else removed or cut it; new data goes "
        "to "
        "a new one, and what cannot be read of it any more is lost",
        segment_->path, place_.disk->data_path(), ToString(error.code), error.where);
    place_.disk->stats().append_failures_total.fetch_add(1);
  } else {
    place_.disk->OnAppendFailed(error, in_flight_->bytes);
  }
  if (segment_gone || error.code == ErrorCode::kIo) {
    ShowReserved(0);
    segment_.reset();
  }
  GiveBack();
}

void SegmentLog::Fail(const Error& error) {
  place_.disk->OnAppendFailed(error, in_flight_->bytes);
  GiveBack();
}

void SegmentLog::GiveBack() {
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
  auto again = [self = shared_from_this(), next](Status status) {
    self->OnStrand([next, status = std::move(status)](SegmentLog& log) {
      log.OnRemoved(next, status);
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
  if (removal_failed_) return RemoveLater();
  place_.disk->stats().removals_pending.fetch_sub(1);
  if (on_removed_) on_removed_();
}

void SegmentLog::OnRemoved(size_t i, const Status& status) {
  if (status) {
    if (i >= segment_paths_.size()) return;
    place_.disk->stats().segments.fetch_sub(1);
    segment_paths_[i].clear();
    return;
  }
  if (!std::exchange(removal_told_, true)) {
    spdlog::warn(
        "data path {}: a file or folder below {} could not be removed ({}, errno {}); tried again "
        "at every look at the disk, and at the next start",
        place_.disk->data_path(), place_.folder, ToString(status.error().code),
        status.error().os_error);
  }
  removal_failed_ = true;
}

// The rest once more, for as long as it takes: a disk that cannot remove something now, or has too
// much to do, must not keep it for ever.
void SegmentLog::RemoveLater() {
  removal_failed_ = false;
  std::erase(segment_paths_, std::string());
  place_.disk->AtNextLook(
      [self = shared_from_this()] { self->OnStrand([](SegmentLog& log) { log.RemoveNext(0); }); });
}

}  // namespace dovetail::storage
