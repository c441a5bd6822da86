// Sends as bytes: what protobuf allows and no client of ours does, and what nobody may.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/e2e/wire/methods.h"
#include "tests/e2e/wire/raw_message.h"
#include "tests/e2e/wire/reader.h"

namespace dovetail::e2e {
namespace {

const std::string kSend = "/rss.common.ShuffleServer/sendShuffleData";

class SendBytesTest : public DaemonSuite<SendBytesTest> {
 public:
  static Settings MakeSettings() { return {"memory_store.capacity=512M"}; }

 protected:
  static wire::StatusCode SendRaw(const std::vector<std::string>& slices) {
    const RawAnswer answer = client().Raw(kSend, slices);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_code();
    return ShuffleMethod("sendShuffleData").status(answer.bytes);
  }
  static wire::StatusCode SendRaw(const std::string& bytes) {
    return SendRaw(std::vector<std::string>{bytes});
  }

  static std::string SendBytes(const Target& target, const std::vector<wire::ShuffleData>& groups) {
    return MakeSend(target, client().Ticket(target, TicketBytes(groups)), groups)
        .SerializeAsString();
  }

  static void ExpectStored(const Target& target, const std::vector<wire::ShuffleData>& groups) {
    for (const wire::ShuffleData& group : groups) {
      PageAsk ask{.target = target, .partition = group.partitionid(), .filter = {}};
      ExpectBlocks(ReadPages(client(), ask).blocks, {group.block().begin(), group.block().end()});
    }
  }
};

// Fields in another order, unknown ones of every kind between them.
class Shuffler {
 public:
  explicit Shuffler(uint32_t seed) : random_(seed) {}

  std::string Block(const wire::ShuffleBlock& block) {
    return Join({RawMessage().Varint(1, block.blockid()).bytes(),
                 RawMessage().Varint(2, block.length()).bytes(),
                 RawMessage().Varint(3, block.uncompresslength()).bytes(),
                 RawMessage().Varint(4, block.crc()).bytes(),
                 RawMessage().Bytes(5, block.data()).bytes(),
                 RawMessage().Varint(6, block.taskattemptid()).bytes()});
  }

  // Blocks keep their order: it is the order of the partition.
  std::string Group(const wire::ShuffleData& group) {
    std::vector<std::string> fields;
    for (const wire::ShuffleBlock& block : group.block()) {
      fields.push_back(RawMessage().Bytes(2, Block(block)).bytes());
    }
    const std::string partition = RawMessage().Varint(1, group.partitionid()).bytes();
    fields.insert(fields.begin() + Any(fields.size() + 1), partition);
    std::string bytes;
    for (const std::string& field : fields) bytes += Unknown() + field;
    return bytes + Unknown();
  }

  std::string Send(const wire::SendShuffleDataRequest& send) {
    std::vector<std::string> fields = {RawMessage().Bytes(1, send.appid()).bytes(),
                                       RawMessage().Varint(2, send.shuffleid()).bytes(),
                                       RawMessage().Varint(3, send.requirebufferid()).bytes(),
                                       RawMessage().Varint(5, send.timestamp()).bytes(),
                                       RawMessage().Varint(6, 3).bytes()};
    for (const wire::ShuffleData& group : send.shuffledata()) {
      fields.push_back(RawMessage().Bytes(4, Group(group)).bytes());
    }
    return Join(fields);
  }

 private:
  int Any(size_t below) { return static_cast<int>(random_() % below); }

  std::string Unknown() {
    const uint32_t field = 1000 + static_cast<uint32_t>(Any(1000));
    switch (Any(8)) {
      case 0:
        return RawMessage().Varint(field, -1).bytes();
      case 1:
        return RawMessage().Fixed32(field, 7).bytes();
      case 2:
        return RawMessage().Fixed64(field, 7).bytes();
      case 3:
        return RawMessage().Bytes(field, std::string(static_cast<size_t>(Any(300)), 'u')).bytes();
      case 4:
        return RawMessage().Group(field, RawMessage().Bytes(5, "inside").bytes()).bytes();
      default:
        return "";
    }
  }

  std::string Join(std::vector<std::string> fields) {
    std::ranges::shuffle(fields, random_);
    std::string bytes = Unknown();
    for (const std::string& field : fields) bytes += field + Unknown();
    return bytes;
  }

  std::mt19937 random_;
};

TEST_F(SendBytesTest, FieldsInAnyOrderWithUnknownOnes) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Target target = Registered(4);
    const std::vector<wire::ShuffleData> groups = {
        MakeBlocks(3, 0, 5, 100, 2), MakeBlocks(0, 0, 1, 70'000), MakeBlocks(1, 9, 30, 33, 1)};
    const int64_t ticket = client().Ticket(target, TicketBytes(groups));
    EXPECT_EQ(SendRaw(Shuffler(seed).Send(MakeSend(target, ticket, groups))), wire::SUCCESS)
        << seed;
    ExpectStored(target, groups);
  }
}

// Of a scalar that comes more than once the last counts.
TEST_F(SendBytesTest, RepeatedScalars) {
  const Target target = Registered(2);
  const wire::ShuffleBlock block = MakeBlock(BlockId(5, 1, 2), 100, 2);
  const std::string twice = RawMessage()
                                .Varint(1, 99)
                                .Varint(2, 3)
                                .Bytes(5, "abc")
                                .Varint(6, 77)
                                .Varint(4, 1)
                                .Append(block.SerializeAsString())
                                .bytes();
  const std::string group = RawMessage().Varint(1, 0).Bytes(2, twice).Varint(1, 1).bytes();
  const std::string send = RawMessage()
                               .Bytes(1, "somebody else")
                               .Varint(3, -1)
                               .Varint(2, 44)
                               .Bytes(4, group)
                               .Bytes(1, target.app)
                               .Varint(2, target.shuffle)
                               .Varint(3, client().Ticket(target, 132))
                               .bytes();
  EXPECT_EQ(SendRaw(send), wire::SUCCESS);
  ExpectStored(target, {MakeGroup(1, {block})});
  ExpectStored(target, {MakeGroup(0, {})});
}

TEST_F(SendBytesTest, CutAnywhere) {
  for (const size_t size : {1, 2, 3, 7, 13, 255, 4093, 16'385}) {
    const Target target = Registered(3);
    const std::vector<wire::ShuffleData> groups = {MakeBlocks(0, 0, 20, size < 10 ? 50 : 5'001),
                                                   MakeBlocks(2, 0, 30, 11)};
    EXPECT_EQ(SendRaw(Cut(SendBytes(target, groups), size)), wire::SUCCESS) << size;
    ExpectStored(target, groups);
  }
}

TEST_F(SendBytesTest, OneLargeBlockAmongThousands) {
  const Target target = Registered(50);
  std::vector<wire::ShuffleData> groups;
  for (int32_t partition = 0; partition < 50; ++partition) {
    groups.push_back(MakeBlocks(partition, 0, 100, static_cast<size_t>(partition + 1)));
  }
  const wire::ShuffleBlock large = MakeBlock(BlockId(1000, 7, 0), 64 << 20);
  *groups[7].add_block() = large;
  *groups[7].add_block() = MakeBlock(BlockId(1001, 7, 0), 3);
  EXPECT_EQ(SendRaw(Cut(SendBytes(target, groups), 1'000'003)), wire::SUCCESS);
  EXPECT_EQ(Metric("dovetail_memory_used_bytes"), StoredBytes(groups));
  ExpectStored(target, groups);
}

TEST_F(SendBytesTest, EmptyGroups) {
  const Target target = Registered(1);
  RawMessage send;
  send.Bytes(1, target.app).Varint(3, client().Ticket(target, 1000));
  for (int i = 0; i < 10'000; ++i) send.Bytes(4, "");
  EXPECT_EQ(
      SendRaw(RawMessage(send).Bytes(4, MakeBlocks(0, 0, 1, 100).SerializeAsString()).bytes()),
      wire::SUCCESS);
  // More of them than any real send could have: refused, whatever they cost to count.
  std::string many = MakeSend(target, client().Ticket(target, 1000), {}).SerializeAsString();
  for (int i = 0; i < 1'200'000; ++i) many += RawMessage().Bytes(4, "").bytes();
  EXPECT_EQ(SendRaw(many), wire::INVALID_REQUEST);
}

TEST_F(SendBytesTest, LengthsThatLie) {
  const Target target = Registered(1);
  const std::string data = Payload(1, 100);
  for (const uint64_t lie :
       {uint64_t{0}, uint64_t{99}, uint64_t{101}, uint64_t{1} << 20, uint64_t{INT32_MAX},
        uint64_t{INT32_MAX} + 1, uint64_t{UINT32_MAX}, uint64_t{1} << 40, UINT64_MAX}) {
    const auto block = [&](uint64_t length) {
      return RawMessage().Varint(1, 1).Varint(2, 100).LyingBytes(5, length, data).bytes();
    };
    const std::string good = block(100);
    const std::string group = RawMessage().Bytes(2, good).bytes();
    for (const std::string& groups :
         {RawMessage().Bytes(4, RawMessage().Bytes(2, block(lie)).bytes()).bytes(),
          RawMessage().Bytes(4, RawMessage().LyingBytes(2, lie, good).bytes()).bytes(),
          RawMessage().LyingBytes(4, lie, group).bytes()}) {
      const int64_t ticket = client().Ticket(target, 1000);
      const std::string send =
          RawMessage().Bytes(1, target.app).Varint(3, ticket).Append(groups).bytes();
      // A group of no bytes is a group, and what follows are fields that nobody knows.
      const bool empty_group = lie == 0 && groups[1] == '\0';
      EXPECT_EQ(SendRaw(send), empty_group ? wire::SUCCESS : wire::INVALID_REQUEST) << lie;
    }
    EXPECT_NE(SendRaw(RawMessage().LyingBytes(1, lie, target.app).bytes()), wire::SUCCESS);
  }
  EXPECT_EQ(Metric("dovetail_memory_used_bytes"), 0);
  EXPECT_EQ(Metric("dovetail_partitions"), 0);
}

// The blocks are the last field, so that no shorter part of the message is a whole send.
TEST_F(SendBytesTest, TruncatedAtEveryPosition) {
  const Target target = NewTarget();
  const std::string group = MakeBlocks(0, 0, 3, 40).SerializeAsString();
  size_t size = 1;
  for (size_t cut = 0; cut < size; ++cut) {
    ASSERT_EQ(client().Register(target, 1), wire::SUCCESS);
    const std::string send = RawMessage()
                                 .Bytes(1, target.app)
                                 .Varint(2, target.shuffle)
                                 .Varint(3, client().Ticket(target, 1000))
                                 .Varint(5, 1'700'000'000'000)
                                 .Bytes(4, group)
                                 .bytes();
    size = send.size();
    EXPECT_NE(SendRaw(send.substr(0, cut)), wire::SUCCESS) << cut;
    const MetricsPage metrics = daemon().Metrics();
    EXPECT_EQ(metrics.Value("dovetail_memory_used_bytes"), 0) << cut;
    EXPECT_EQ(metrics.Value("dovetail_partitions"), 0) << cut;
    EXPECT_EQ(metrics.Value("dovetail_arena_used_bytes"), 0) << cut;
    client().Unregister(target);
    if (cut + 1 == size) {
      EXPECT_GT(size, 150u);
    }
  }
}

TEST_F(SendBytesTest, NoMessageAtAll) {
  const Target target = Registered(1);
  const std::string head =
      RawMessage().Bytes(1, target.app).Varint(3, client().Ticket(target, 1000)).bytes();
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += '\x0b';  // groups that are never closed
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1000, '\0'), std::string(1000, '\xff'),
        head + '\0', head + '\x07', head + '\x0c', deep, head + deep,
        RawMessage().Bytes(4, head + deep).bytes()}) {
    const wire::StatusCode status = SendRaw(bytes);
    EXPECT_EQ(status, wire::INVALID_REQUEST);
  }
  EXPECT_EQ(Metric("dovetail_memory_used_bytes"), 0);
}

}  // namespace
}  // namespace dovetail::e2e
