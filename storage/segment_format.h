// The bytes of a segment file, format version 1 (docs/storage.md describes them with an example).
//
// A segment is a sequence of groups; a group is what one flush appended. A group starts at a
// multiple of 4096 and is a sequence of batches, padded with zeros to the next one. A batch is
//   header (64 bytes, little-endian) + index (40 bytes a block, as clients read it) + the blocks'
//   data
// Header: magic, version, header size, generation of the shuffle's life, partition, block count,
// logical offset of the batch in its partition, data bytes, CRC-32 of the header (with this field
// 0) and the index.
//
// Index record, big-endian (the client's own form): logical offset of the block in the partition,
// length, uncompressed length, CRC-32 of the data, block id, task attempt id.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/buffer.h"
#include "engine/base/result.h"
#include "storage/block.h"

namespace dovetail::storage {

// What groups start at a multiple of and are padded to. Disks whose direct I/O needs less get the
// same: reads and later direct appends stay aligned. One that needs more is written buffered.
inline constexpr int64_t kGroupAlignment = 4096;
inline constexpr int64_t kBatchHeaderBytes = 64;
inline constexpr int64_t kIndexRecordBytes = 40;

struct BatchHeader {
  int64_t generation = 0;
  int32_t partition = 0;
  uint32_t block_count = 0;
  int64_t logical_offset = 0;
  int64_t data_bytes = 0;

  int64_t index_bytes() const { return int64_t{block_count} * kIndexRecordBytes; }
  // Header, index and data.
  int64_t total_bytes() const { return kBatchHeaderBytes + index_bytes() + data_bytes; }
};

// Writes one record. to: kIndexRecordBytes.
void WriteIndexRecord(const BlockMeta& meta, int64_t logical_offset, std::byte* to);

struct IndexRecord {
  BlockMeta meta;
  int64_t logical_offset = 0;
};
IndexRecord ReadIndexRecord(const std::byte* from);

// Writes the header in front of an index that is complete already. to: kBatchHeaderBytes, followed
// in the same memory by the index.
void WriteBatchHeader(const BatchHeader& header, std::byte* to);

// Checks magic, version, CRC over header and index, that records are gap-free from logical_offset
// on and sum up to data_bytes. kCorrupt otherwise. bytes: header and index, nothing else.
Result<BatchHeader> CheckBatch(std::span<const std::byte> bytes);

}  // namespace dovetail::storage
