// A writer that remembers what was acknowledged, and can check that it is all there: sizes and ids
// are kept, the bytes are made again.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/e2e/disk/partition_read.h"
#include "tests/e2e/wire/wire_client.h"

namespace dovetail::e2e {

class Ledger {
 public:
  // client: outlives the ledger.
  explicit Ledger(WireClient& client) : client_(client) {}

  // One request for memory and one send. What the server answers to the first of them that it does
  // not grant; a send that is not granted after all is a failed test.
  wire::StatusCode Write(const Target& target, const std::vector<wire::ShuffleData>& groups);
  // As a client does it: again while the answer is NO_BUFFER. Failed test when it never ends, or
  // with any other answer.
  void WriteInTheEnd(const Target& target, const std::vector<wire::ShuffleData>& groups,
                     std::chrono::seconds timeout = std::chrono::seconds(30));

  // Failed test unless every partition holds exactly what was acknowledged, byte for byte.
  void ExpectAll(const Target& target) const;
  void ExpectPartition(const Target& target, int32_t partition) const;
  // What is read is right, and nothing is missing.
  void ExpectRight(const PartitionRead& read, const Target& target, int32_t partition) const;

  int64_t acked_bytes() const { return acked_bytes_; }
  int64_t acked_blocks() const { return acked_blocks_; }
  std::vector<int32_t> Partitions(const Target& target) const;

 private:
  struct Block {
    int32_t bytes = 0;
    int64_t task = 0;
  };
  using Blocks = std::map<int64_t, Block>;  // by id
  using Key = std::pair<std::string, int32_t>;

  WireClient& client_;
  std::map<Key, std::map<int32_t, Blocks>> acked_;
  int64_t acked_bytes_ = 0;
  int64_t acked_blocks_ = 0;
};

}  // namespace dovetail::e2e
