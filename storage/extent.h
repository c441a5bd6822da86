// Committed data: which bytes of which segment hold a range of a partition's logical log.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "storage/index_cache.h"
#include "storage/segment_format.h"

namespace dovetail::storage {

class Disk;

// One segment file. Shared by the log that appends to it, the extents in it and the reads that run:
// the file is closed with the last of them. Its name is removed when the shuffle's life ends,
// whoever still reads. Threads: immutable after creation.
struct Segment {
  Disk* disk = nullptr;  // outlives every segment
  engine::FileRef file;
  std::string path;  // below the disk's data path
};

// One committed batch of a partition.
struct Extent {
  std::shared_ptr<const Segment> segment;
  int64_t batch_offset = 0;    // of the batch's header in the segment
  int64_t logical_offset = 0;  // of its first data byte in the partition
  int64_t data_bytes = 0;
  uint32_t block_count = 0;
  uint32_t head_offset = 0;  // of the batch's header and index in its group's heads
  std::shared_ptr<IndexCache::Entry> heads = nullptr;  // null where nothing caches

  int64_t index_bytes() const { return int64_t{block_count} * kIndexRecordBytes; }
  int64_t data_offset() const { return batch_offset + kBatchHeaderBytes + index_bytes(); }
  int64_t logical_end() const { return logical_offset + data_bytes; }
};

static_assert(sizeof(Extent) == 64, "kExtentOverheadBytes is an extent and the slack of its list");

}  // namespace dovetail::storage
