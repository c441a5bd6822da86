#include "tests/e2e/disk/ledger.h"

#include <thread>

#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

constexpr std::chrono::milliseconds kPause{20};

}  // namespace

wire::StatusCode Ledger::Write(const Target& target, const std::vector<wire::ShuffleData>& groups) {
  const wire::RequireBufferResponse ticket = client_.Require(target, TicketBytes(groups));
  if (ticket.status() != wire::SUCCESS) {
    EXPECT_EQ(ticket.requirebufferid(), -1);
    return ticket.status();
  }
  const wire::StatusCode sent =
      client_.Send(MakeSend(target, ticket.requirebufferid(), groups)).status();
  EXPECT_EQ(sent, wire::SUCCESS) << "a ticket was had for it";
  if (sent != wire::SUCCESS) return sent;
  auto& partitions = acked_[{target.app, target.shuffle}];
  for (const wire::ShuffleData& group : groups) {
    Blocks& blocks = partitions[group.partitionid()];
    for (const wire::ShuffleBlock& block : group.block()) {
      blocks[block.blockid()] = {block.length(), block.taskattemptid()};
      acked_bytes_ += block.length();
      ++acked_blocks_;
    }
  }
  return sent;
}

void Ledger::WriteInTheEnd(const Target& target, const std::vector<wire::ShuffleData>& groups,
                           std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const wire::StatusCode status = Write(target, groups);
    if (status == wire::SUCCESS) return;
    ASSERT_EQ(status, wire::NO_BUFFER);
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "writers get NO_BUFFER for ever";
    std::this_thread::sleep_for(kPause);
  }
}

void Ledger::ExpectAll(const Target& target) const {
  for (const int32_t partition : Partitions(target)) ExpectPartition(target, partition);
}

void Ledger::ExpectPartition(const Target& target, int32_t partition) const {
  const PartitionRead read = ReadPartition(client_, target, partition);
  ASSERT_EQ(read.status, wire::SUCCESS) << "partition " << partition << ": " << read.message;
  ExpectRight(read, target, partition);
}

void Ledger::ExpectRight(const PartitionRead& read, const Target& target, int32_t partition) const {
  const Blocks& blocks = acked_.at({target.app, target.shuffle}).at(partition);
  ASSERT_EQ(read.blocks.size(), blocks.size()) << "partition " << partition;
  for (const auto& [id, block] : blocks) {
    const auto found = read.blocks.find(id);
    ASSERT_NE(found, read.blocks.end()) << "block " << id << " of partition " << partition;
    ASSERT_EQ(found->second.task, block.task) << "block " << id;
    ASSERT_TRUE(found->second.data == Payload(id, static_cast<size_t>(block.bytes)))
        << "bytes of block " << id << " of partition " << partition;
  }
}

std::vector<int32_t> Ledger::Partitions(const Target& target) const {
  std::vector<int32_t> partitions;
  const auto found = acked_.find({target.app, target.shuffle});
  if (found == acked_.end()) return partitions;
  for (const auto& entry : found->second) partitions.push_back(entry.first);
  return partitions;
}

}  // namespace dovetail::e2e
