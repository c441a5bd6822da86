// The file reads of ShuffleStore: the index of a partition, and ranges of its data. A share of the
// read budget first, then the reads, then the answer on the executor: checking and sending it is no
// work for an engine's thread.
#include <spdlog/spdlog.h>

#include <utility>

#include "storage/read_plan.h"
#include "storage/shuffle_store.h"

namespace dovetail::storage {

// What one file read has to know; shared by its steps.
struct ShuffleStore::FileRead {
  std::shared_ptr<Shuffle> shuffle;
  Partition* partition = nullptr;
  std::vector<Extent> extents;
  std::vector<GroupHeads> heads;  // of an index: parallel to extents, null where it has to be read
  ReadPlan plan;
  std::shared_ptr<ReadGrant> grant;
  FileDone done;

  bool Ended() const { return shuffle->gate().closed(); }
};

namespace {

// A device that fails, an end where none should be, a checksum that does not match: the data is
// lost, and every later reader is told so. Anything else may pass.
Error Judge(Shuffle& shuffle, Partition& partition, const Error& error, const PlannedRead& where) {
  // The client comes again a little later.
  if (error.code == ErrorCode::kBusy) return {ErrorCode::kNoBuffer, 0, "reads"};
  if (error.code == ErrorCode::kTimeout) return {ErrorCode::kNoBuffer, 0, "slow disk"};
  if (error.code != ErrorCode::kIo && error.code != ErrorCode::kCorrupt &&
      error.code != ErrorCode::kNotFound) {
    return error;
  }
  if (shuffle.gate().closed()) return {ErrorCode::kNotFound, 0, "shuffle"};
  partition.MarkLost();
  where.segment->disk->stats().lost_partitions_total.fetch_add(1);
  spdlog::error(
      "partition {} lost data: {} (errno {}) reading {} bytes at {} of {} on {}; its readers get "
      "an error from now on",
      partition.id(), ToString(error.code), error.os_error, where.length, where.offset,
      where.segment->path, where.segment->disk->data_path());
  return {ErrorCode::kCorrupt, error.os_error, "partition data"};
}

bool Matches(const BatchHeader& header, const Shuffle& shuffle, const Partition& partition,
             const Extent& extent) {
  return header.generation == shuffle.generation() && header.partition == partition.id() &&
         header.logical_offset == extent.logical_offset && header.data_bytes == extent.data_bytes &&
         header.block_count == extent.block_count;
}

GroupHeads Join(const SliceChain& pieces, int64_t bytes) {
  auto whole = std::make_shared<std::vector<std::byte>>();
  whole->reserve(static_cast<size_t>(bytes));
  for (const Slice& slice : pieces) {
    whole->insert(whole->end(), slice.bytes.begin(), slice.bytes.end());
  }
  return whole;
}

engine::IoMode DataMode(const LocalFileStoreOptions& options) {
  const bool automatic = options.read_mode == "auto";
  const bool direct = automatic ? options.direct_io_append_enable : options.read_mode == "direct";
  return direct ? engine::IoMode::kDirect : engine::IoMode::kBuffered;
}

}  // namespace

Result<ShuffleStore::FoundPartition> ShuffleStore::FindPartition(std::string_view app,
                                                                 int32_t shuffle,
                                                                 int32_t partition) {
  Result<AppRegistry::Found> found = registry_->Find(app, shuffle);
  if (!found) return std::unexpected(found.error());
  if (!found->shuffle->Registered(partition)) return Fail(ErrorCode::kNotFound, "partition");
  Partition* there = found->shuffle->Find(partition);
  if (there && there->lost()) return Fail(ErrorCode::kCorrupt, "partition data");
  return FoundPartition{std::move(found->shuffle), there};
}

Result<std::shared_ptr<ShuffleStore::FileRead>> ShuffleStore::BeginFileRead(std::string_view app,
                                                                            int32_t shuffle,
                                                                            int32_t partition) {
  Result<FoundPartition> found = FindPartition(app, shuffle, partition);
  if (!found) return std::unexpected(found.error());
  auto read = std::make_shared<FileRead>();
  read->shuffle = std::move(found->shuffle);
  read->partition = found->partition;
  if (read->partition) read->extents = read->partition->extents();
  // A purge that began meanwhile may have taken them.
  if (read->Ended()) return Fail(ErrorCode::kNotFound, "shuffle");
  return read;
}

void ShuffleStore::RunFileRead(std::shared_ptr<FileRead> read, int64_t bytes, engine::IoMode mode,
                               PiecesDone finish) {
  read_budget_.Acquire(bytes, [this, read, mode, finish = std::move(finish)](
                                  Result<std::shared_ptr<ReadGrant>> grant) mutable {
    if (!grant) {
      if (grant.error().code == ErrorCode::kNoBuffer) stats_.read_no_buffer_total.fetch_add(1);
      return read->done(std::unexpected(grant.error()));
    }
    read->grant = std::move(*grant);
    if (read->plan.empty()) return finish({});
    ReadJob::Run(read->plan, mode, [this, read, finish = std::move(finish)](auto pieces) mutable {
      executor_.Post([read, finish = std::move(finish), pieces = std::move(pieces)]() mutable {
        if (!pieces) {
          const auto& [error, where] = pieces.error();
          read->grant.reset();
          return read->done(std::unexpected(Judge(*read->shuffle, *read->partition, error, where)));
        }
        if (read->Ended()) return read->done(Fail(ErrorCode::kNotFound, "shuffle"));
        finish(std::move(*pieces));
      });
    });
  });
}

void ShuffleStore::ReadIndex(std::string_view app, int32_t shuffle, int32_t partition,
                             FileDone done) {
  Result<std::shared_ptr<FileRead>> begun = BeginFileRead(app, shuffle, partition);
  if (!begun) return done(std::unexpected(begun.error()));
  std::shared_ptr<FileRead> read = std::move(*begun);
  if (read->extents.empty()) return done(FileAnswer{});
  read->done = std::move(done);
  int64_t bytes = 0;
  for (const Extent& extent : read->extents) {
    read->heads.push_back(extent.heads ? extent.heads->Get() : nullptr);
    if (!read->heads.back()) read->plan.push_back(PlanHead(extent));
    bytes += kBatchHeaderBytes + extent.index_bytes();
  }
  RunFileRead(read, bytes, engine::IoMode::kBuffered, [this, read](std::vector<SliceChain> pieces) {
    read->done(JoinIndex(*read, std::move(pieces)));
  });
}

// Every batch's records behind each other, in memory of their own: one contiguous index, as a
// single file would have, which keeps no group's heads from leaving the cache. What came from the
// disk is checked first.
Result<FileAnswer> ShuffleStore::JoinIndex(FileRead& read, std::vector<SliceChain> pieces) {
  auto index = std::make_shared<std::vector<std::byte>>();
  index->reserve(static_cast<size_t>(read.grant->bytes()));
  FileAnswer answer;
  size_t next = 0;
  for (size_t i = 0; i < read.extents.size(); ++i) {
    const Extent& extent = read.extents[i];
    GroupHeads heads = read.heads[i];
    int64_t head_offset = extent.head_offset;
    if (!heads) {
      const PlannedRead& where = read.plan[next];
      heads = Join(pieces[next++], where.length);
      head_offset = 0;
      const Result<BatchHeader> header = CheckBatch(*heads);
      if (!header || !Matches(*header, *read.shuffle, *read.partition, extent)) {
        return std::unexpected(
            Judge(*read.shuffle, *read.partition, {ErrorCode::kCorrupt, 0, "index"}, where));
      }
    }
    const ConstBytes records =
        ConstBytes(*heads).subspan(static_cast<size_t>(head_offset + kBatchHeaderBytes),
                                   static_cast<size_t>(extent.index_bytes()));
    index->insert(index->end(), records.begin(), records.end());
    answer.data_bytes += extent.data_bytes;
  }
  stats_.index_read_bytes_total.fetch_add(static_cast<int64_t>(index->size()));
  answer.bytes.push_back({index, ConstBytes(*index)});
  answer.grant = std::move(read.grant);
  return answer;
}

void ShuffleStore::ReadData(std::string_view app, int32_t shuffle, int32_t partition,
                            int64_t offset, int64_t length, FileDone done) {
  Result<std::shared_ptr<FileRead>> begun = BeginFileRead(app, shuffle, partition);
  if (!begun) return done(std::unexpected(begun.error()));
  std::shared_ptr<FileRead> read = std::move(*begun);
  const int64_t end = read->extents.empty() ? 0 : read->extents.back().logical_end();
  if (offset < 0 || length <= 0 || length > end || offset > end - length) {
    return done(Fail(ErrorCode::kInvalid, "range"));
  }
  read->plan = PlanData(read->extents, offset, length);
  read->done = std::move(done);
  RunFileRead(read, length, DataMode(options_.local_file),
              [this, read, length](std::vector<SliceChain> pieces) {
                FileAnswer answer;
                for (SliceChain& piece : pieces) {
                  std::move(piece.begin(), piece.end(), std::back_inserter(answer.bytes));
                }
                answer.grant = std::move(read->grant);
                stats_.file_reads_total.fetch_add(1);
                stats_.file_read_bytes_total.fetch_add(length);
                read->done(std::move(answer));
              });
}

}  // namespace dovetail::storage
