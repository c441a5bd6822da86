#include "tests/e2e/wire/blocks.h"

#include <zlib.h>

#include <cstring>

namespace dovetail::e2e {
namespace {

int64_t SumOfBlocks(const std::vector<wire::ShuffleData>& groups, int64_t overhead_bytes) {
  int64_t sum = 0;
  for (const wire::ShuffleData& group : groups) {
    for (const wire::ShuffleBlock& block : group.block()) sum += block.length() + overhead_bytes;
  }
  return sum;
}

}  // namespace

wire::BlockIdLayout SparkLayout() {
  wire::BlockIdLayout layout;
  layout.set_sequencenobits(21);
  layout.set_partitionidbits(20);
  layout.set_taskattemptidbits(22);
  return layout;
}

int64_t BlockId(int64_t sequence, int64_t partition, int64_t task) {
  return sequence << 42 | partition << 22 | task;
}

uint32_t Crc32(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string Payload(int64_t block_id, size_t bytes) {
  std::string payload(bytes, '\0');
  uint64_t state = static_cast<uint64_t>(block_id) * 0x9e3779b97f4a7c15 + bytes + 1;
  for (size_t at = 0; at < bytes; at += sizeof(state)) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(payload.data() + at, &state, std::min(sizeof(state), bytes - at));
  }
  return payload;
}

wire::ShuffleBlock MakeBlock(int64_t block_id, size_t bytes, int64_t task) {
  wire::ShuffleBlock block;
  block.set_blockid(block_id);
  block.set_data(Payload(block_id, bytes));
  block.set_length(static_cast<int32_t>(bytes));
  block.set_uncompresslength(static_cast<int32_t>(bytes % 1000 + 7));
  block.set_crc(Crc32(block.data()));
  block.set_taskattemptid(task);
  return block;
}

wire::ShuffleData MakeGroup(int32_t partition, const std::vector<wire::ShuffleBlock>& blocks) {
  wire::ShuffleData group;
  group.set_partitionid(partition);
  for (const wire::ShuffleBlock& block : blocks) *group.add_block() = block;
  return group;
}

wire::SendShuffleDataRequest MakeSend(const Target& target, int64_t ticket,
                                      const std::vector<wire::ShuffleData>& groups) {
  wire::SendShuffleDataRequest request;
  request.set_appid(target.app);
  request.set_shuffleid(target.shuffle);
  request.set_requirebufferid(ticket);
  for (const wire::ShuffleData& group : groups) *request.add_shuffledata() = group;
  request.set_timestamp(1'700'000'000'000);
  return request;
}

wire::ShuffleData MakeBlocks(int32_t partition, int64_t first, int count, size_t bytes,
                             int64_t task) {
  wire::ShuffleData group;
  group.set_partitionid(partition);
  for (int i = 0; i < count; ++i) {
    *group.add_block() = MakeBlock(BlockId(first + i, partition, task), bytes, task);
  }
  return group;
}

int64_t TicketBytes(const std::vector<wire::ShuffleData>& groups) {
  return SumOfBlocks(groups, kTicketOverheadBytes);
}

int64_t StoredBytes(const std::vector<wire::ShuffleData>& groups) {
  return SumOfBlocks(groups, kStoredOverheadBytes);
}

}  // namespace dovetail::e2e
