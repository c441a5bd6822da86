// Blocks as they come in and as they are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/buffer.h"

namespace dovetail::storage {

// What the client says of a block, given back to readers unchanged. Meaning of the fields:
// proto/shuffle.proto.
struct BlockMeta {
  int64_t block_id = 0;
  int64_t crc = 0;  // CRC-32 of the data as an unsigned value
  int64_t task_attempt_id = 0;
  int32_t length = 0;  // bytes of data, > 0
  int32_t uncompress_length = 0;
};

// One block of a batch. Its data is the pieces [first_piece, first_piece + piece_count) of the
// batch, together meta.length bytes.
struct IncomingBlock {
  BlockMeta meta;
  uint32_t first_piece = 0;
  uint32_t piece_count = 0;
};

// The blocks of one partition within a batch: [first_block, first_block + block_count).
struct IncomingGroup {
  int32_t partition = 0;
  uint32_t first_block = 0;
  uint32_t block_count = 0;
};

// A decoded send, still pointing into the receive buffers; they must live until Store returns.
struct IncomingBatch {
  std::vector<IncomingGroup> groups;
  std::vector<IncomingBlock> blocks;
  std::vector<ConstBytes> pieces;
};

// Where the data of a page's block lies inside the page's data.
struct PageBlock {
  BlockMeta meta;
  int64_t offset = 0;
};

// One answer to a memory read: blocks in stable order, and their data as slices in the same order.
struct MemoryPage {
  std::vector<PageBlock> blocks;
  SliceChain data;
  int64_t data_bytes = 0;
  bool is_end = false;  // nothing more in memory behind this page
};

}  // namespace dovetail::storage
