// Blocks for tests: payloads that differ from block to block and can be made again from the id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/e2e/wire/wire_client.h"

namespace dovetail::e2e {

// What the client adds to a block's length when it asks for a ticket, and what a stored one counts.
inline constexpr int64_t kTicketOverheadBytes = 32;
inline constexpr int64_t kStoredOverheadBytes = 64;
// What a block in an answer counts beside its data.
inline constexpr int64_t kSegmentBytes = 64;

// Share of read_bytes_max that an answer of `count` blocks of `bytes` each takes.
constexpr int64_t AnswerCost(int64_t count, int64_t bytes) {
  return count * (bytes + kSegmentBytes);
}

// Spark's default layout of a block id: 21 bits sequence, 20 partition, 22 task.
wire::BlockIdLayout SparkLayout();
int64_t BlockId(int64_t sequence, int64_t partition, int64_t task);

uint32_t Crc32(std::string_view bytes);
// The same bytes for the same arguments; compresses badly.
std::string Payload(int64_t block_id, size_t bytes);

wire::ShuffleBlock MakeBlock(int64_t block_id, size_t bytes, int64_t task = 0);
wire::ShuffleData MakeGroup(int32_t partition, const std::vector<wire::ShuffleBlock>& blocks);
wire::SendShuffleDataRequest MakeSend(const Target& target, int64_t ticket,
                                      const std::vector<wire::ShuffleData>& groups);
// One group of `count` blocks of `bytes` each, with sequence numbers from `first`, all of one task.
wire::ShuffleData MakeBlocks(int32_t partition, int64_t first, int count, size_t bytes,
                             int64_t task = 0);

// Sum of length + 32 and of length + 64 over all blocks.
int64_t TicketBytes(const std::vector<wire::ShuffleData>& groups);
int64_t StoredBytes(const std::vector<wire::ShuffleData>& groups);

}  // namespace dovetail::e2e
