// Reads a partition from memory the way the client does, page after page, and checks every promise
// of the paging on the way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/wire/wire_client.h"

namespace dovetail::e2e {

struct PageAsk {
  Target target;
  int32_t partition = 0;
  int64_t last_block_id = -1;
  int32_t read_bytes = 14 << 20;
  // The bytes of the bitmap of wanted tasks; nothing leaves the field out.
  std::optional<std::string> filter;
};

wire::GetMemoryShuffleDataRequest ToRequest(const PageAsk& ask);
wire::GetMemoryShuffleDataResponse ReadPage(WireClient& client, const PageAsk& ask);

struct ReadBlock {
  int64_t id = 0;
  int64_t task = 0;
  int32_t uncompress_length = 0;
  int64_t crc = 0;
  std::string data;
};

// The blocks of one page. Failed test: offsets not contiguous from 0, data of another size than its
// segments, a CRC that does not fit, or a page that goes on after read_bytes was reached.
std::vector<ReadBlock> BlocksOf(const wire::GetMemoryShuffleDataResponse& page, int32_t read_bytes);

// Until an empty page (as client 0.9 does) or, with trust_is_end, until is_end. A failed test when
// that does not come, when is_end is said too early or not with the last block.
struct PagesRead {
  std::vector<ReadBlock> blocks;
  int pages = 0;  // the empty one included
};
PagesRead ReadPages(WireClient& client, PageAsk ask, bool trust_is_end = false);

// The ids, in order.
std::vector<int64_t> IdsOf(const std::vector<ReadBlock>& blocks);

// A failed test unless exactly these blocks, in this order, came with their own bytes.
void ExpectBlocks(const std::vector<ReadBlock>& read, const std::vector<wire::ShuffleBlock>& sent);

}  // namespace dovetail::e2e
