// Reads a partition the way a client does: memory to its end, then the index, then the data that
// the index describes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/e2e/wire/reader.h"
#include "tests/e2e/wire/wire_client.h"

namespace dovetail::e2e {

struct PartitionRead {
  // The first answer that was not SUCCESS ends the read.
  wire::StatusCode status = wire::SUCCESS;
  std::string message;
  std::map<int64_t, ReadBlock> blocks;  // by id
  int64_t memory_bytes = 0;
  int64_t file_bytes = 0;
};

// Failed test: an index that is not whole records, has a gap or another sum than it says; data of
// another length than asked for; a block whose CRC does not fit, or that differs between tiers.
// data_bytes_max: what one call for data asks for.
PartitionRead ReadPartition(WireClient& client, const Target& target, int32_t partition,
                            int32_t data_bytes_max = 8 << 20);

wire::GetLocalShuffleIndexResponse ReadIndex(WireClient& client, const Target& target,
                                             int32_t partition);
wire::GetLocalShuffleDataResponse ReadData(WireClient& client, const Target& target,
                                           int32_t partition, int64_t offset, int32_t length);
wire::GetShuffleResultResponse ReadResult(WireClient& client, const Target& target,
                                          int32_t partition);

}  // namespace dovetail::e2e
