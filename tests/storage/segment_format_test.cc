// The bytes of a segment: what a log writes is what docs/storage.md shows, field by field, and a
// head that is damaged in any way is refused.
#include "storage/segment_format.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "storage/segment_log.h"
#include "tests/fakes/mem_engine.h"
#include "tests/storage/store_fixture.h"

namespace dovetail::storage {
namespace {

using Head = std::vector<std::byte>;

BlockMeta Meta(int64_t id, int32_t length, int64_t task) {
  return {.block_id = id,
          .crc = 0xC0FFEE00 + id,
          .task_attempt_id = task,
          .length = length,
          .uncompress_length = length * 2};
}

// A head of blocks of these lengths, complete and right.
Head MakeHead(BatchHeader header, const std::vector<int32_t>& lengths) {
  header.block_count = static_cast<uint32_t>(lengths.size());
  header.data_bytes = 0;
  Head head(static_cast<size_t>(kBatchHeaderBytes + header.index_bytes()));
  std::byte* record = head.data() + kBatchHeaderBytes;
  int64_t id = 1;
  for (const int32_t length : lengths) {
    WriteIndexRecord(Meta(id++, length, 5), header.logical_offset + header.data_bytes, record);
    header.data_bytes += length;
    record += kIndexRecordBytes;
  }
  WriteBatchHeader(header, head.data());
  return head;
}

const BatchHeader kHeader{.generation = 0x0102030405060708,
                          .partition = 0x0A0B0C0D,
                          .logical_offset = 0x1112131415161718};

template <class T>
T LittleAt(const Head& head, size_t at) {
  T value;
  std::memcpy(&value, head.data() + at, sizeof(value));
  return value;
}

uint64_t BigAt(const Head& head, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | std::to_integer<uint64_t>(head[at + i]);
  return value;
}

// Bit by bit, as the standard has it: independent of the library that the code uses.
uint32_t Crc32(const Head& bytes) {
  uint32_t crc = 0xffffffff;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

void Seal(Head& head) {
  std::memset(head.data() + 40, 0, 4);
  const uint32_t crc = Crc32(head);
  std::memcpy(head.data() + 40, &crc, 4);
}

template <class T>
void Put(Head& head, size_t at, T value) {
  std::memcpy(head.data() + at, &value, sizeof(value));
}

void PutBig64(Head& head, size_t at, uint64_t value) {
  for (size_t i = 0; i < 8; ++i) head[at + i] = std::byte(value >> (56 - 8 * i));
}

TEST(SegmentFormat, TheHeaderHasItsFieldsAtTheirPlaces) {
  const Head head = MakeHead(kHeader, {300, 1});
  ASSERT_EQ(head.size(), 64u + 2 * 40);
  EXPECT_EQ(std::memcmp(head.data(), "DVB1", 4), 0);
  EXPECT_EQ(LittleAt<uint16_t>(head, 4), 1) << "version";
  EXPECT_EQ(LittleAt<uint16_t>(head, 6), 64) << "header bytes";
  EXPECT_EQ(LittleAt<int64_t>(head, 8), kHeader.generation);
  EXPECT_EQ(LittleAt<int32_t>(head, 16), kHeader.partition);
  EXPECT_EQ(LittleAt<uint32_t>(head, 20), 2u) << "blocks";
  EXPECT_EQ(LittleAt<int64_t>(head, 24), kHeader.logical_offset);
  EXPECT_EQ(LittleAt<int64_t>(head, 32), 301) << "data bytes";
  for (size_t at = 44; at < 64; ++at) EXPECT_EQ(head[at], std::byte{0}) << at;
  Head sealed = head;
  Seal(sealed);
  EXPECT_EQ(sealed, head) << "CRC-32 of header and index at 40, taken with that field 0";
}

TEST(SegmentFormat, AnIndexRecordIsBigEndianAsClientsReadIt) {
  Head record(kIndexRecordBytes);
  WriteIndexRecord({.block_id = 0x2122232425262728,
                    .crc = 0x31323334,
                    .task_attempt_id = 0x4142434445464748,
                    .length = 0x51525354,
                    .uncompress_length = 0x61626364},
                   0x0102030405060708, record.data());
  EXPECT_EQ(BigAt(record, 0, 8), 0x0102030405060708u) << "logical offset";
  EXPECT_EQ(BigAt(record, 8, 4), 0x51525354u) << "length";
  EXPECT_EQ(BigAt(record, 12, 4), 0x61626364u) << "uncompressed length";
  EXPECT_EQ(BigAt(record, 16, 8), 0x31323334u) << "CRC-32 of the data";
  EXPECT_EQ(BigAt(record, 24, 8), 0x2122232425262728u) << "block id";
  EXPECT_EQ(BigAt(record, 32, 8), 0x4142434445464748u) << "task attempt id";
  const IndexRecord read = ReadIndexRecord(record.data());
  EXPECT_EQ(read.logical_offset, 0x0102030405060708);
  EXPECT_EQ(read.meta.length, 0x51525354);
  EXPECT_EQ(read.meta.uncompress_length, 0x61626364);
  EXPECT_EQ(read.meta.crc, 0x31323334);
  EXPECT_EQ(read.meta.block_id, 0x2122232425262728);
  EXPECT_EQ(read.meta.task_attempt_id, 0x4142434445464748);
}

TEST(SegmentFormat, AGoodHeadIsTakenWithItsFields) {
  const Head head = MakeHead(kHeader, {300, 1, 7});
  const Result<BatchHeader> read = CheckBatch(head);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->generation, kHeader.generation);
  EXPECT_EQ(read->partition, kHeader.partition);
  EXPECT_EQ(read->block_count, 3u);
  EXPECT_EQ(read->logical_offset, kHeader.logical_offset);
  EXPECT_EQ(read->data_bytes, 308);
  EXPECT_EQ(read->total_bytes(), 64 + 3 * 40 + 308);
}

TEST(SegmentFormat, EachFlippedBitIsRefused) {
  Head head = MakeHead(kHeader, {300, 1, 7});
  for (size_t at = 0; at < head.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      head[at] ^= std::byte(1 << bit);
      const Result<BatchHeader> read = CheckBatch(head);
      ASSERT_FALSE(read) << "byte " << at << ", bit " << bit;
      ASSERT_EQ(read.error().code, ErrorCode::kCorrupt);
      head[at] ^= std::byte(1 << bit);
    }
  }
  EXPECT_TRUE(CheckBatch(head));
}

TEST(SegmentFormat, EachTruncationAndEachSurplusIsRefused) {
  Head head = MakeHead(kHeader, {300, 1, 7});
  for (size_t size = 0; size < head.size(); ++size) {
    ASSERT_FALSE(CheckBatch(std::span(head).first(size))) << size;
  }
  for (int surplus = 1; surplus <= 80; ++surplus) {
    head.push_back(std::byte{0});
    ASSERT_FALSE(CheckBatch(head)) << surplus;
  }
}

// What a wrong program could write with a right checksum.
TEST(SegmentFormat, AHeadThatContradictsItselfIsRefused) {
  const Head good = MakeHead({.logical_offset = 1000}, {300, 1, 7});
  const auto refused = [&good](auto change) {
    Head head = good;
    change(head);
    Seal(head);
    return !CheckBatch(head).has_value();
  };
  EXPECT_FALSE(refused([](Head&) {}));
  EXPECT_TRUE(refused([](Head& head) { Put<uint32_t>(head, 0, 0x32425644); })) << "magic";
  EXPECT_TRUE(refused([](Head& head) { Put<uint16_t>(head, 4, 2); })) << "version";
  EXPECT_TRUE(refused([](Head& head) { Put<uint16_t>(head, 6, 72); })) << "header bytes";
  EXPECT_TRUE(refused([](Head& head) { Put<uint32_t>(head, 20, 2); })) << "block count";
  EXPECT_TRUE(refused([](Head& head) { Put<uint32_t>(head, 20, UINT32_MAX); })) << "block count";
  EXPECT_TRUE(refused([](Head& head) { Put<int64_t>(head, 24, 999); })) << "logical offset";
  EXPECT_TRUE(refused([](Head& head) { Put<int64_t>(head, 32, 307); })) << "sum too small";
  EXPECT_TRUE(refused([](Head& head) { Put<int64_t>(head, 32, 309); })) << "sum too large";
  EXPECT_TRUE(refused([](Head& head) { PutBig64(head, 64 + 40, 1301); })) << "gap";
  EXPECT_TRUE(refused([](Head& head) { PutBig64(head, 64 + 40, 1299); })) << "overlap";
  EXPECT_TRUE(refused([](Head& head) { std::memset(&head[64 + 40 + 8], 0, 4); })) << "no length";
  EXPECT_TRUE(refused([](Head& head) { head[64 + 40 + 8] = std::byte{0x80}; })) << "negative";
}

TEST(SegmentFormat, OffsetsAtTheEndOfTheNumbersAreRefusedAndNotCounted) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(CheckBatch(MakeHead({.logical_offset = kMax - 308}, {300, 1, 7})));
  for (const int64_t offset :
       {kMax - 307, kMax, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    Head head = MakeHead({.logical_offset = 0}, {300, 1, 7});
    Put<int64_t>(head, 24, offset);
    PutBig64(head, 64, static_cast<uint64_t>(offset));
    PutBig64(head, 64 + 40, static_cast<uint64_t>(offset) + 300);
    PutBig64(head, 64 + 80, static_cast<uint64_t>(offset) + 301);
    Seal(head);
    EXPECT_FALSE(CheckBatch(head)) << offset;
  }
  Head negative = MakeHead({.logical_offset = 0}, {300});
  Put<int64_t>(negative, 32, -300);
  Seal(negative);
  EXPECT_FALSE(CheckBatch(negative));
}

// Two partitions that are flushed together, then one of them again.
class TwoFlushes : public FlushSource {
 public:
  TwoFlushes() {
    Append(three_, BatchBuilder().Add(3, 0x31, 5, 'a', 9).Add(3, 0x32, 6, 'b', 4));
    Append(four_, BatchBuilder().Add(4, 0x41, 7, 'c', 9));
  }

  int64_t generation() const override { return 17; }
  std::vector<Batch> FreezeSome(int, int64_t) override {
    std::vector<Batch> batches;
    for (Partition* partition : {&three_, &four_}) {
      if (auto frozen = partition->Freeze()) batches.push_back({partition, std::move(*frozen)});
    }
    return batches;
  }
  std::shared_ptr<IndexCache::Entry> Cache(GroupHeads) override { return nullptr; }
  void OnCommitted(int, std::vector<Batch>& batches, std::vector<Extent> extents) override {
    for (size_t i = 0; i < batches.size(); ++i) {
      batches[i].partition->Commit(batches[i].frozen, std::move(extents[i]));
    }
  }
  void OnFailed(int, std::vector<Batch>&) override { FAIL(); }

  void AppendMore() { Append(three_, BatchBuilder().Add(3, 0x33, 4, 'd', 9)); }
  std::vector<Extent> extents() const { return three_.extents(); }
  void Clear() {
    three_.Clear();
    four_.Clear();
  }

 private:
  static void Append(Partition& partition, const BatchBuilder& batch) {
    partition.Append(batch.batch().blocks, batch.batch().pieces, 0);
  }

  Arena arena_;
  Partition three_{arena_, 3};
  Partition four_{arena_, 4};
};

// As `hexdump -C` prints it.
std::string Dump(const Head& bytes) {
  std::string text;
  std::string last;
  bool starred = false;
  for (size_t at = 0; at < bytes.size(); at += 16) {
    std::string hex;
    std::string readable;
    for (size_t i = 0; i < 16 && at + i < bytes.size(); ++i) {
      const auto byte = std::to_integer<unsigned char>(bytes[at + i]);
      hex += fmt::format("{}{:02x} ", i == 8 ? " " : "", byte);
      readable += byte >= 0x20 && byte < 0x7f ? static_cast<char>(byte) : '.';
    }
    const std::string line = fmt::format("{:<50}|{}|\n", hex, readable);
    if (line == last) {
      if (!std::exchange(starred, true)) text += "*\n";
      continue;
    }
    starred = false;
    last = line;
    text += fmt::format("{:08x}  {}", at, line);
  }
  return text + fmt::format("{:08x}\n", bytes.size());
}

TEST(SegmentFormat, TheDumpOfTheDocumentIsWhatALogWrites) {
  auto made = std::make_unique<fakes::MemEngine>(fakes::MemOptions{.stepped = true});
  fakes::MemEngine& engine = *made;
  Disk disk(0, "/disk", std::move(made), {}, SteadyClock(), nullptr);
  auto source = std::make_shared<TwoFlushes>();
  auto log = std::make_shared<SegmentLog>(
      SegmentLog::Place{.disk = &disk, .folder = "apps/app/0.17"}, LocalFileStoreOptions{}, source);
  for (int flush = 0; flush < 2; ++flush) {
    log->Want(1 << 20, [](int64_t) {});
    engine.RunAll();
    source->AppendMore();
  }
  const std::string dump = Dump(engine.disk()->Contents("apps/app/0.17/0.0.seg"));
  std::ifstream file(DOVETAIL_SOURCE_DIR "/docs/storage.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(document.find("```\n" + dump + "```\n"), std::string::npos) << dump;

  // Where the document's text says that things lie.
  const std::vector<Extent> extents = source->extents();
  ASSERT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents[0].batch_offset, 0);
  EXPECT_EQ(extents[0].data_offset(), 64 + 2 * 40);
  EXPECT_EQ(extents[1].batch_offset, kGroupAlignment);
  EXPECT_EQ(extents[1].logical_offset, 11);

  bool removed = false;
  log->Close([&removed] { removed = true; });
  source->Clear();
  engine.RunAll();
  EXPECT_TRUE(removed);
  EXPECT_TRUE(engine.disk()->Files().empty());
}

}  // namespace
}  // namespace dovetail::storage
