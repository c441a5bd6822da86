#include "storage/segment_format.h"

#include <endian.h>
#include <isa-l/crc.h>

#include <cstring>

#include "engine/base/check.h"

namespace dovetail::storage {
namespace {

constexpr uint32_t kMagic = 0x31425644;  // "DVB1" in the file
constexpr uint16_t kVersion = 1;

// Positions of the header's fields.
constexpr size_t kMagicAt = 0;
constexpr size_t kVersionAt = 4;
constexpr size_t kHeaderBytesAt = 6;
constexpr size_t kGenerationAt = 8;
constexpr size_t kPartitionAt = 16;
constexpr size_t kBlockCountAt = 20;
constexpr size_t kLogicalOffsetAt = 24;
constexpr size_t kDataBytesAt = 32;
constexpr size_t kCrcAt = 40;

template <class T>
void PutLittle(std::byte* to, T value) {
  static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "the header is written as it lies in memory");
  std::memcpy(to, &value, sizeof(value));
}

template <class T>
T GetLittle(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

void PutBig32(std::byte* to, int32_t value) {
  PutLittle(to, htobe32(static_cast<uint32_t>(value)));
}
void PutBig64(std::byte* to, int64_t value) {
  PutLittle(to, htobe64(static_cast<uint64_t>(value)));
}
int32_t GetBig32(const std::byte* from) {
  return static_cast<int32_t>(be32toh(GetLittle<uint32_t>(from)));
}
int64_t GetBig64(const std::byte* from) {
  return static_cast<int64_t>(be64toh(GetLittle<uint64_t>(from)));
}

uint32_t Crc(const std::byte* header, size_t bytes) {
  std::byte copy[kBatchHeaderBytes];
  std::memcpy(copy, header, sizeof(copy));
  PutLittle(copy + kCrcAt, uint32_t{0});
  const uint32_t crc =
      crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(copy), sizeof(copy));
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(header + kBatchHeaderBytes),
                         bytes - sizeof(copy));
}

}  // namespace

void WriteIndexRecord(const BlockMeta& meta, int64_t logical_offset, std::byte* to) {
  PutBig64(to, logical_offset);
  PutBig32(to + 8, meta.length);
  PutBig32(to + 12, meta.uncompress_length);
  PutBig64(to + 16, meta.crc);
  PutBig64(to + 24, meta.block_id);
  PutBig64(to + 32, meta.task_attempt_id);
}

IndexRecord ReadIndexRecord(const std::byte* from) {
  IndexRecord record;
  record.logical_offset = GetBig64(from);
  record.meta.length = GetBig32(from + 8);
  record.meta.uncompress_length = GetBig32(from + 12);
  record.meta.crc = GetBig64(from + 16);
  record.meta.block_id = GetBig64(from + 24);
  record.meta.task_attempt_id = GetBig64(from + 32);
  return record;
}

void WriteBatchHeader(const BatchHeader& header, std::byte* to) {
  std::memset(to, 0, kBatchHeaderBytes);
  PutLittle(to + kMagicAt, kMagic);
  PutLittle(to + kVersionAt, kVersion);
  PutLittle(to + kHeaderBytesAt, static_cast<uint16_t>(kBatchHeaderBytes));
  PutLittle(to + kGenerationAt, header.generation);
  PutLittle(to + kPartitionAt, header.partition);
  PutLittle(to + kBlockCountAt, header.block_count);
  PutLittle(to + kLogicalOffsetAt, header.logical_offset);
  PutLittle(to + kDataBytesAt, header.data_bytes);
  PutLittle(to + kCrcAt, Crc(to, static_cast<size_t>(kBatchHeaderBytes + header.index_bytes())));
}

Result<BatchHeader> CheckBatch(std::span<const std::byte> bytes) {
  const auto corrupt = Fail(ErrorCode::kCorrupt, "batch");
  if (bytes.size() < static_cast<size_t>(kBatchHeaderBytes)) return corrupt;
  const std::byte* at = bytes.data();
  if (GetLittle<uint32_t>(at + kMagicAt) != kMagic ||
      GetLittle<uint16_t>(at + kVersionAt) != kVersion ||
      GetLittle<uint16_t>(at + kHeaderBytesAt) != kBatchHeaderBytes) {
    return corrupt;
  }
  BatchHeader header{.generation = GetLittle<int64_t>(at + kGenerationAt),
                     .partition = GetLittle<int32_t>(at + kPartitionAt),
                     .block_count = GetLittle<uint32_t>(at + kBlockCountAt),
                     .logical_offset = GetLittle<int64_t>(at + kLogicalOffsetAt),
                     .data_bytes = GetLittle<int64_t>(at + kDataBytesAt)};
  if (static_cast<int64_t>(bytes.size()) != kBatchHeaderBytes + header.index_bytes() ||
      GetLittle<uint32_t>(at + kCrcAt) != Crc(at, bytes.size())) {
    return corrupt;
  }
  if (header.logical_offset < 0 || header.data_bytes < 0 ||
      header.data_bytes > INT64_MAX - header.logical_offset) {
    return corrupt;
  }
  const int64_t end = header.logical_offset + header.data_bytes;
  int64_t offset = header.logical_offset;
  for (uint32_t i = 0; i < header.block_count; ++i) {
    const IndexRecord record = ReadIndexRecord(at + kBatchHeaderBytes + i * kIndexRecordBytes);
    if (record.logical_offset != offset || record.meta.length <= 0) return corrupt;
    if (record.meta.length > end - offset) return corrupt;
    offset += record.meta.length;
  }
  if (offset != end) return corrupt;
  return header;
}

}  // namespace dovetail::storage
