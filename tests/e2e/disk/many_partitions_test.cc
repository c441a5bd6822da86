// Very many small partitions: more than memory holds, all of it right, all of it gone afterwards.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tests/e2e/disk/disk_suite.h"
#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

constexpr int32_t kPartitions = 100'000;
constexpr int32_t kPartitionsOfSend = 5'000;
constexpr int kRounds = 10;  // each a block for every partition
constexpr size_t kBlockBytes = 1024;
constexpr int32_t kReadEvery = 17;

// Most memory that the process ever had, in bytes.
int64_t PeakBytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) << 10;
  }
  return 0;
}

class ManyPartitionsTest : public DiskTest {
 protected:
  void WriteRound(const Target& target, int64_t round) {
    for (int32_t first = 0; first < kPartitions; first += kPartitionsOfSend) {
      wire::SendShuffleDataRequest send;
      send.set_appid(target.app);
      send.set_shuffleid(target.shuffle);
      for (int32_t partition = first; partition < first + kPartitionsOfSend; ++partition) {
        wire::ShuffleData& group = *send.add_shuffledata();
        group.set_partitionid(partition);
        *group.add_block() = MakeBlock(BlockId(round, partition, round), kBlockBytes, round);
      }
      constexpr int64_t kTicketBytes = kPartitionsOfSend * (kBlockBytes + kTicketOverheadBytes);
      wire::RequireBufferResponse ticket = client().Require(target, kTicketBytes);
      while (ticket.status() == wire::NO_BUFFER) ticket = client().Require(target, kTicketBytes);
      ASSERT_EQ(ticket.status(), wire::SUCCESS);
      send.set_requirebufferid(ticket.requirebufferid());
      ASSERT_EQ(client().Send(send).status(), wire::SUCCESS);
    }
  }

  void ExpectPartition(const Target& target, int32_t partition) {
    const PartitionRead read = ReadPartition(client(), target, partition);
    ASSERT_EQ(read.status, wire::SUCCESS) << read.message;
    ASSERT_EQ(read.blocks.size(), static_cast<size_t>(kRounds)) << "partition " << partition;
    for (const auto& [id, block] : read.blocks) {
      ASSERT_EQ(id, BlockId(block.task, partition, block.task));
      ASSERT_TRUE(block.data == Payload(id, kBlockBytes)) << "block " << id;
    }
  }
};

TEST_F(ManyPartitionsTest, AllReadBackAndGo) {
  const std::string path = PlainPath("disk");
  ASSERT_TRUE(Start({path}, {"memory_store.capacity=512M", "memory_store.require_wait_ms=5000"}));
  const Target target{"app", 0};
  wire::ShuffleRegisterRequest request;
  request.set_appid(target.app);
  request.set_shuffleid(target.shuffle);
  wire::ShufflePartitionRange* range = request.add_partitionranges();
  range->set_start(0);
  range->set_end(kPartitions - 1);
  ASSERT_EQ(client().Register(request), wire::SUCCESS);
  for (int64_t round = 0; round < kRounds; ++round) WriteRound(target, round);
  const MetricsPage written = daemon().Metrics();
  EXPECT_EQ(written.Value("dovetail_partitions"), kPartitions);
  EXPECT_EQ(written.Value("dovetail_received_blocks_total"), kPartitions * kRounds);
  EXPECT_GT(written.Value("dovetail_flushed_bytes_total"), 500.0 * kMiB);

  // The step goes through all shards, and with the first and the last through both ends.
  for (int32_t partition = 0; partition < kPartitions && !HasFatalFailure();
       partition += kReadEvery) {
    ExpectPartition(target, partition);
  }
  ExpectPartition(target, kPartitions - 1);
  const MetricsPage read = daemon().Metrics();
  EXPECT_GT(read.Value("dovetail_read_bytes_total", {{"tier", "memory"}}), 0);
  EXPECT_GT(read.Value("dovetail_read_bytes_total", {{"tier", "file"}}), 0);
  const int64_t peak_bytes = PeakBytes(daemon().process().pid());
  RecordProperty("peak_mib", std::to_string(peak_bytes / kMiB));
  std::cout << "most memory of the daemon: " << peak_bytes / kMiB << " MiB\n";
  Finish();
}

}  // namespace
}  // namespace dovetail::e2e
