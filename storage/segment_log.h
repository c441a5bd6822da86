// The append-only log of one shuffle's life on one shard of one disk, and the one truth of where
// its segments end. It gathers the frozen batches of many partitions into a group, appends the
// group at the end, and commits all of them when, and only when, the append has succeeded. On
// failure the end does not move, so the next group overwrites the same range; the batches go back
// to their partitions.
//
// One group is in flight at a time; the next one is gathered meanwhile and waits.
//
//   Open (first group of a segment) -> Reserve (when the group passes the reserved end) -> Append
//   -> commit
//
// Threads: everything runs on the shard's strand (Engine::Post); completions of the engine come
// back to it. Lifetime: the log holds itself while an operation is in flight; the shuffle's life
// outlives the log's last commit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/disk.h"
#include "storage/extent.h"
#include "storage/partition.h"

namespace dovetail::storage {

// What a log needs of the shuffle's life; implemented by Shuffle. Any thread.
class FlushSource {
 public:
  virtual ~FlushSource() = default;
  virtual int64_t generation() const = 0;
  // Freezes partitions that wait to be flushed to this place until their data reaches bytes_max (at
  // least one).
  struct Batch {
    Partition* partition = nullptr;
    Partition::FrozenBatch frozen;
  };
  virtual std::vector<Batch> FreezeSome(int slot, int64_t bytes_max) = 0;
  // Keeps the heads of a group that is about to be committed, for a while.
  virtual std::shared_ptr<IndexCache::Entry> Cache(GroupHeads heads) = 0;
  // The group is on disk (extents parallel to batches) or is not.
  virtual void OnCommitted(int slot, std::vector<Batch>& batches, std::vector<Extent> extents) = 0;
  virtual void OnFailed(int slot, std::vector<Batch>& batches) = 0;
};

class SegmentLog : public std::enable_shared_from_this<SegmentLog> {
 public:
  struct Place {
    Disk* disk = nullptr;
    int shard = 0;
    int slot = 0;        // the source's number for what flushes here
    std::string folder;  // of the shuffle's life, below the disk's data path
  };

  SegmentLog(Place place, const LocalFileStoreOptions& options,
             std::shared_ptr<FlushSource> source);

  // Any thread: flush up to so many bytes more. finished(bytes, ok) runs once the request is
  // settled in parts: bytes of the request that need no longer be waited for.
  using Settled = std::function<void(int64_t bytes)>;
  void Want(int64_t bytes, Settled settled);

  // Any thread: no new groups; when the one in flight is done every segment's name and the folder
  // are removed (what cannot be is tried again at every look at the disk), then done runs.
  void Close(std::function<void()> done);

 private:
  struct Group {
    std::vector<FlushSource::Batch> batches;
    std::vector<Extent> extents;  // batch_offset relative to the group's start until it is appended
    std::shared_ptr<std::vector<std::byte>> heads;
    SliceChain data;
    int64_t data_bytes = 0;   // of blocks
    int64_t bytes = 0;        // of the whole group, padding included
    TimePoint began;          // of its way to the disk
    bool given_back = false;  // its batches are their partitions' again
  };

  void Pump();
  void Begin(std::unique_ptr<Group> group);
  std::unique_ptr<Group> Gather();
  void OrderByTask(const BlockList& blocks);
  void AddBatch(Group& group, FlushSource::Batch batch, int64_t head_offset);
  void OpenSegment();
  void Reserve(int64_t end, bool exact);
  void Append();
  void OnAppended(const Status& status);
  // No segment could be opened.
  void Fail(const Error& error);
  void FailSegment(const Error& error);
  // Ends what is in flight without a commit.
  void GiveBack();
  void GiveBackAll();
  // Any thread: the disk does not answer. What is under way goes back to its partitions, for
  // another disk to take; should the append succeed after all, nothing comes of it.
  void Abandon();
  void Commit();
  void Settle(int64_t bytes);
  void ShowReserved(int64_t bytes);
  void Seal();
  void RemoveAll();
  void RemoveNext(size_t next);
  void OnRemoved(size_t i, const Status& status);
  void RemoveLater();
  // Runs `step` on the strand; it keeps this log alive.
  void OnStrand(std::function<void(SegmentLog&)> step);

  const Place place_;
  const LocalFileStoreOptions options_;
  std::shared_ptr<FlushSource> source_;  // let go when closed

  // All on the strand.
  std::vector<uint32_t> order_;  // of the batch that is being added; kept for its memory
  int64_t wanted_bytes_ = 0;
  Settled settled_;
  std::unique_ptr<Group> in_flight_;
  std::unique_ptr<Group> next_;
  std::unique_ptr<Disk::Watch> watch_;
  std::shared_ptr<Segment> segment_;
  std::vector<std::string> segment_paths_;
  int64_t end_ = 0;
  int64_t reserved_end_ = 0;
  int64_t reserved_shown_ = 0;  // what of it the disk's gauge counts
  int64_t reserve_step_ = 0;
  bool closed_ = false;
  bool removal_failed_ = false;  // something of this round
  bool removal_told_ = false;
  std::function<void()> on_removed_;
};

}  // namespace dovetail::storage
