#include "tests/e2e/disk/partition_read.h"

#include <endian.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

using Stub = wire::ShuffleServer::Stub;

constexpr size_t kRecordBytes = 40;
constexpr int kPagesMax = 100'000;

template <class T>
T BigEndian(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(be64toh(static_cast<uint64_t>(value)));
  } else {
    return static_cast<T>(be32toh(static_cast<uint32_t>(value)));
  }
}

struct Record {
  int64_t offset = 0;
  int32_t length = 0;
  ReadBlock block;  // all but its data
};

Record ParseRecord(const char* from) {
  Record record{
      .offset = BigEndian<int64_t>(from), .length = BigEndian<int32_t>(from + 8), .block = {}};
  record.block.uncompress_length = BigEndian<int32_t>(from + 12);
  record.block.crc = BigEndian<int64_t>(from + 16);
  record.block.id = BigEndian<int64_t>(from + 24);
  record.block.task = BigEndian<int64_t>(from + 32);
  return record;
}

std::vector<Record> RecordsOf(const wire::GetLocalShuffleIndexResponse& index) {
  const std::string& bytes = index.indexdata();
  EXPECT_EQ(bytes.size() % kRecordBytes, 0u);
  std::vector<Record> records;
  int64_t end = 0;
  for (size_t at = 0; at + kRecordBytes <= bytes.size(); at += kRecordBytes) {
    records.push_back(ParseRecord(bytes.data() + at));
    EXPECT_EQ(records.back().offset, end) << "a gap in the index";
    EXPECT_GT(records.back().length, 0);
    end += records.back().length;
  }
  EXPECT_EQ(index.datafilelen(), end);
  return records;
}

template <class Answer>
bool Failed(const Answer& answer, PartitionRead& read) {
  if (answer.status() == wire::SUCCESS) return false;
  read.status = answer.status();
  read.message = answer.retmsg();
  return true;
}

void Add(PartitionRead& read, ReadBlock block) {
  const auto [place, fresh] = read.blocks.try_emplace(block.id, block);
  if (!fresh) {
    EXPECT_TRUE(place->second.data == block.data) << "block " << block.id << " differs";
  }
}

void ReadMemory(WireClient& client, const Target& target, int32_t partition, PartitionRead& read) {
  PageAsk ask{.target = target, .partition = partition, .filter = {}};
  for (int page_number = 0; page_number < kPagesMax; ++page_number) {
    const wire::GetMemoryShuffleDataResponse page = ReadPage(client, ask);
    if (Failed(page, read)) return;
    std::vector<ReadBlock> blocks = BlocksOf(page, ask.read_bytes);
    if (blocks.empty()) return;
    ask.last_block_id = blocks.back().id;
    for (ReadBlock& block : blocks) {
      read.memory_bytes += static_cast<int64_t>(block.data.size());
      Add(read, std::move(block));
    }
    if (page.is_end().value()) return;
  }
  ADD_FAILURE() << "the pages do not end";
}

void ReadFile(WireClient& client, const Target& target, int32_t partition, int32_t data_bytes_max,
              PartitionRead& read) {
  const wire::GetLocalShuffleIndexResponse index = ReadIndex(client, target, partition);
  if (Failed(index, read)) return;
  std::vector<Record> records = RecordsOf(index);
  for (size_t first = 0; first < records.size();) {
    size_t last = first;
    int64_t bytes = records[first].length;
    while (last + 1 < records.size() && bytes + records[last + 1].length <= data_bytes_max) {
      bytes += records[++last].length;
    }
    const wire::GetLocalShuffleDataResponse data =
        ReadData(client, target, partition, records[first].offset, static_cast<int32_t>(bytes));
    if (Failed(data, read)) return;
    ASSERT_EQ(static_cast<int64_t>(data.data().size()), bytes);
    for (const size_t begin = first; first <= last; ++first) {
      Record& record = records[first];
      record.block.data =
          data.data().substr(static_cast<size_t>(record.offset - records[begin].offset),
                             static_cast<size_t>(record.length));
      EXPECT_EQ(Crc32(record.block.data), record.block.crc) << "block " << record.block.id;
      read.file_bytes += record.length;
      Add(read, std::move(record.block));
    }
  }
}

}  // namespace

wire::GetLocalShuffleIndexResponse ReadIndex(WireClient& client, const Target& target,
                                             int32_t partition) {
  wire::GetLocalShuffleIndexRequest request;
  request.set_appid(target.app);
  request.set_shuffleid(target.shuffle);
  request.set_partitionid(partition);
  request.set_partitionnumperrange(1);
  request.set_partitionnum(1);
  return client.Ask(&Stub::getLocalShuffleIndex, request);
}

wire::GetLocalShuffleDataResponse ReadData(WireClient& client, const Target& target,
                                           int32_t partition, int64_t offset, int32_t length) {
  wire::GetLocalShuffleDataRequest request;
  request.set_appid(target.app);
  request.set_shuffleid(target.shuffle);
  request.set_partitionid(partition);
  request.set_partitionnumperrange(1);
  request.set_partitionnum(1);
  request.set_offset(offset);
  request.set_length(length);
  return client.Ask(&Stub::getLocalShuffleData, request);
}

wire::GetShuffleResultResponse ReadResult(WireClient& client, const Target& target,
                                          int32_t partition) {
  wire::GetShuffleResultRequest request;
  request.set_appid(target.app);
  request.set_shuffleid(target.shuffle);
  request.set_partitionid(partition);
  *request.mutable_blockidlayout() = SparkLayout();
  return client.Ask(&Stub::getShuffleResult, request);
}

PartitionRead ReadPartition(WireClient& client, const Target& target, int32_t partition,
                            int32_t data_bytes_max) {
  PartitionRead read;
  ReadMemory(client, target, partition, read);
  if (read.status == wire::SUCCESS) ReadFile(client, target, partition, data_bytes_max, read);
  return read;
}

}  // namespace dovetail::e2e
