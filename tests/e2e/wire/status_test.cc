// The table of answers in docs/protocol.md over the real wire.
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <string>
#include <vector>

#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/daemon_suite.h"
#include "tests/e2e/wire/methods.h"
#include "tests/e2e/wire/reader.h"
#include "tests/golden/roaring64_builder.h"

namespace dovetail::e2e {
namespace {

using Stub = wire::ShuffleServer::Stub;

class StatusTest : public DaemonSuite<StatusTest> {
 public:
  static Settings MakeSettings() { return {"memory_store.capacity=64M"}; }

 protected:
  // A send of these groups with a ticket that would do for `ticket_bytes`.
  static wire::StatusCode SendWith(const Target& target, int64_t ticket_bytes,
                                   const std::vector<wire::ShuffleData>& groups) {
    return client().Send(MakeSend(target, client().Ticket(target, ticket_bytes), groups)).status();
  }

  static wire::StatusCode RegisterRange(const Target& target, int32_t start, int32_t end) {
    wire::ShuffleRegisterRequest request;
    request.set_appid(target.app);
    request.set_shuffleid(target.shuffle);
    for (const auto& [from, to] : {std::pair(0, 3), std::pair(start, end)}) {
      wire::ShufflePartitionRange* range = request.add_partitionranges();
      range->set_start(from);
      range->set_end(to);
    }
    return client().Register(request);
  }

  static wire::GetShuffleResultForMultiPartResponse MultiPart(
      const Target& target, const std::vector<int32_t>& partitions) {
    wire::GetShuffleResultForMultiPartRequest request;
    request.set_appid(target.app);
    request.set_shuffleid(target.shuffle);
    for (const int32_t partition : partitions) request.add_partitions(partition);
    *request.mutable_blockidlayout() = SparkLayout();
    return client().Ask(&Stub::getShuffleResultForMultiPart, request);
  }
};

TEST_F(StatusTest, WrongApplicationIds) {
  for (const std::string& app : {std::string(), std::string(256, 'a'), std::string("a\0b", 3)}) {
    for (const MethodRule& method : ShuffleMethods()) {
      EXPECT_EQ(Call(client(), method, {app, 1}), wire::INVALID_REQUEST) << method.path;
    }
  }
  EXPECT_EQ(Metric("dovetail_apps"), 0);
}

TEST_F(StatusTest, TheLongestApplicationIdIsFine) {
  const Target target{std::string(255, 'a'), 1};
  EXPECT_EQ(client().Register(target, 1), wire::SUCCESS);
  EXPECT_EQ(client().Store(target, {MakeBlocks(0, 0, 1, 10)}), wire::SUCCESS);
}

TEST_F(StatusTest, NegativeIds) {
  const Target target = Registered(4);
  for (const MethodRule& method : ShuffleMethods()) {
    if (method.has_shuffle) {
      EXPECT_EQ(Call(client(), method, {target.app, -1}), wire::INVALID_REQUEST) << method.path;
    }
    if (method.path.ends_with("sendShuffleData")) continue;  // needs a ticket: below
    if (method.has_partition) {
      EXPECT_EQ(Call(client(), method, target, -1), wire::INVALID_REQUEST) << method.path;
      EXPECT_EQ(Call(client(), method, target, INT_MIN), wire::INVALID_REQUEST) << method.path;
    }
  }
  EXPECT_EQ(SendWith(target, 1000, {MakeBlocks(-1, 0, 1, 10)}), wire::INVALID_REQUEST);
  EXPECT_EQ(Metric("dovetail_memory_promised_bytes"), 0);
  EXPECT_EQ(Metric("dovetail_partitions"), 0);
}

TEST_F(StatusTest, UnknownApplicationShuffleAndPartition) {
  const Target target = Registered(4);
  for (const MethodRule& method : ShuffleMethods()) {
    if (method.path.ends_with("registerShuffle")) continue;
    EXPECT_EQ(Call(client(), method, {"nobody", 0}), method.when_unknown) << method.path;
    if (method.path.ends_with("ByAppId")) continue;
    if (method.has_shuffle) {
      EXPECT_EQ(Call(client(), method, {target.app, 7}), method.when_unknown) << method.path;
    }
    if (method.path.ends_with("sendShuffleData")) continue;
    if (method.has_partition) {
      EXPECT_EQ(Call(client(), method, target, 4), wire::NO_REGISTER) << method.path;
      EXPECT_EQ(Call(client(), method, target, INT_MAX), wire::NO_REGISTER) << method.path;
    }
  }
  EXPECT_EQ(SendWith(target, 1000, {MakeBlocks(4, 0, 1, 10)}), wire::NO_REGISTER);
  EXPECT_EQ(Metric("dovetail_memory_promised_bytes"), 0);
}

TEST_F(StatusTest, AfterUnregisterOnlyANewLife) {
  const Target target = Registered(2);
  EXPECT_EQ(client().Store(target, {MakeBlocks(0, 0, 3, 100)}), wire::SUCCESS);
  const int64_t ticket = client().Ticket(target, 1000);
  EXPECT_EQ(client().Unregister(target), wire::SUCCESS);
  for (const char* name : {"requireBuffer", "sendShuffleData", "reportShuffleResult",
                           "getShuffleResult", "getMemoryShuffleData", "getLocalShuffleIndex"}) {
    EXPECT_EQ(Call(client(), ShuffleMethod(name), target), wire::NO_REGISTER) << name;
  }
  EXPECT_EQ(client().Register(target, 2), wire::SUCCESS);
  EXPECT_EQ(client().Send(MakeSend(target, ticket, {MakeBlocks(0, 0, 1, 10)})).status(),
            wire::INTERNAL_ERROR);
  EXPECT_TRUE(ReadPages(client(), {.target = target, .filter = {}}).blocks.empty());
}

TEST_F(StatusTest, Layouts) {
  const Target target = Registered(1);
  const std::vector<std::vector<int32_t>> wrong = {
      {0, 0, 0},   {21, 20, 21}, {21, 20, 23}, {32, 20, 11},
      {0, 32, 31}, {-1, 33, 31}, {31, 32, 0},  {INT_MAX, INT_MAX, 65}};
  for (const std::vector<int32_t>& bits : wrong) {
    wire::GetShuffleResultRequest one;
    one.set_appid(target.app);
    one.mutable_blockidlayout()->set_sequencenobits(bits[0]);
    one.mutable_blockidlayout()->set_partitionidbits(bits[1]);
    one.mutable_blockidlayout()->set_taskattemptidbits(bits[2]);
    EXPECT_EQ(client().Ask(&Stub::getShuffleResult, one).status(), wire::INVALID_REQUEST);
    wire::GetShuffleResultForMultiPartRequest many;
    many.set_appid(target.app);
    many.add_partitions(0);
    *many.mutable_blockidlayout() = one.blockidlayout();
    EXPECT_EQ(client().Ask(&Stub::getShuffleResultForMultiPart, many).status(),
              wire::INVALID_REQUEST);
    many.clear_blockidlayout();
    EXPECT_EQ(client().Ask(&Stub::getShuffleResultForMultiPart, many).status(),
              wire::INVALID_REQUEST);
  }
}

TEST_F(StatusTest, SizesThatAreNotPositive) {
  const Target target = Registered(1);
  for (const int32_t size : {0, -1, INT_MIN}) {
    const wire::RequireBufferResponse response = client().Require(target, size);
    EXPECT_EQ(response.status(), wire::INVALID_REQUEST);
    EXPECT_EQ(response.requirebufferid(), -1);
    EXPECT_FALSE(response.retmsg().empty());
    EXPECT_EQ(ReadPage(client(), {.target = target, .read_bytes = size, .filter = {}}).status(),
              wire::INVALID_REQUEST);
  }
  EXPECT_EQ(Metric("dovetail_tickets"), 0);
}

TEST_F(StatusTest, RangesOfRegistration) {
  const Target target = NewTarget();
  EXPECT_EQ(RegisterRange(target, -1, 5), wire::INVALID_REQUEST);
  EXPECT_EQ(RegisterRange(target, 6, 5), wire::INVALID_REQUEST);
  EXPECT_EQ(RegisterRange(target, INT_MIN, INT_MAX), wire::INVALID_REQUEST);
  EXPECT_EQ(Metric("dovetail_apps"), 0);
  EXPECT_EQ(RegisterRange(target, 10, INT_MAX), wire::SUCCESS);
  EXPECT_EQ(client().Store(target, {MakeBlocks(INT_MAX, 0, 1, 10)}), wire::SUCCESS);
  EXPECT_EQ(SendWith(target, 1000, {MakeBlocks(9, 0, 1, 10)}), wire::NO_REGISTER);
  // A wrong range beside right ones: none is added, and what is there stays.
  EXPECT_EQ(RegisterRange(target, 8, 7), wire::INVALID_REQUEST);
  EXPECT_EQ(SendWith(target, 1000, {MakeBlocks(9, 0, 1, 10)}), wire::NO_REGISTER);
}

TEST_F(StatusTest, MergeContextIsRefused) {
  wire::ShuffleRegisterRequest request;
  request.set_appid(NewTarget().app);
  request.mutable_mergecontext();
  EXPECT_EQ(client().Register(request), wire::INVALID_REQUEST);
  EXPECT_EQ(Metric("dovetail_apps"), 0);
}

TEST_F(StatusTest, RegisteringAgainKeepsTheLifeAndAddsRanges) {
  const Target target = Registered(2);
  const wire::ShuffleData group = MakeBlocks(1, 0, 3, 100);
  EXPECT_EQ(client().Store(target, {group}), wire::SUCCESS);
  const int64_t ticket = client().Ticket(target, 1000);
  EXPECT_EQ(client().Register(target, 4), wire::SUCCESS);
  EXPECT_EQ(Metric("dovetail_shuffles"), 1);
  EXPECT_EQ(client().Send(MakeSend(target, ticket, {MakeBlocks(3, 0, 1, 10)})).status(),
            wire::SUCCESS);
  ExpectBlocks(ReadPages(client(), {.target = target, .partition = 1, .filter = {}}).blocks,
               {group.block().begin(), group.block().end()});
}

TEST_F(StatusTest, LargerThanTheWholeCapacity) {
  const Target old_client = Registered(1);
  wire::RequireBufferResponse response = client().Require(old_client, (64 << 20) + 1);
  EXPECT_EQ(response.status(), wire::INVALID_REQUEST);
  EXPECT_EQ(response.requirebufferid(), -1);

  wire::ShuffleRegisterRequest request;
  const Target new_client = NewTarget();
  request.set_appid(new_client.app);
  (*request.mutable_properties())["spark.rss.client.type"] = "GRPC";
  EXPECT_EQ(client().Register(request), wire::SUCCESS);
  response = client().Require(new_client, INT_MAX);
  EXPECT_EQ(response.status(), wire::INTERNAL_NOT_RETRY_ERROR);
  EXPECT_EQ(response.requirebufferid(), -1);
  EXPECT_EQ(client().Require(new_client, 64 << 20).status(), wire::SUCCESS);
}

TEST_F(StatusTest, WhatIsWrongWithASend) {
  const Target target = Registered(1);
  EXPECT_EQ(SendWith(target, 1000, {}), wire::INVALID_REQUEST);
  const wire::ShuffleBlock good = MakeBlock(BlockId(1, 0, 0), 100);
  for (const int32_t length : {0, -1, 99, 101, INT_MAX, INT_MIN}) {
    wire::ShuffleBlock bad = MakeBlock(BlockId(2, 0, 0), 100);
    bad.set_length(length);
    EXPECT_EQ(SendWith(target, 1000, {MakeGroup(0, {good, bad})}), wire::INVALID_REQUEST) << length;
  }
  wire::ShuffleBlock empty;
  empty.set_blockid(3);
  EXPECT_EQ(SendWith(target, 1000, {MakeGroup(0, {good, empty})}), wire::INVALID_REQUEST);
  EXPECT_EQ(SendWith(target, 131, {MakeGroup(0, {good})}), wire::INVALID_REQUEST);
  EXPECT_EQ(SendWith(target, 1000, {MakeGroup(0, {good}), MakeBlocks(1, 5, 1, 10)}),
            wire::NO_REGISTER);
  // Never half a batch: nothing of all that is there.
  EXPECT_TRUE(ReadPages(client(), {.target = target, .filter = {}}).blocks.empty());
  EXPECT_EQ(Metric("dovetail_memory_used_bytes"), 0);
  EXPECT_EQ(Metric("dovetail_memory_promised_bytes"), 0);
  EXPECT_EQ(SendWith(target, 132, {MakeGroup(0, {good})}), wire::SUCCESS);
  // Partition groups without blocks are fine beside others and alone.
  EXPECT_EQ(SendWith(target, 1, {MakeGroup(0, {})}), wire::SUCCESS);
}

TEST_F(StatusTest, RegisteredAndNothingThere) {
  const Target target = Registered(3);
  for (const char* name : {"getShuffleResult", "getShuffleResultForMultiPart",
                           "getMemoryShuffleData", "getLocalShuffleIndex"}) {
    const MethodRule& method = ShuffleMethod(name);
    const RawAnswer answer = client().Raw(method.path, method.make(target, 1));
    EXPECT_EQ(method.status(answer.bytes), wire::SUCCESS) << name;
    EXPECT_EQ(method.rest(answer.bytes),
              name == std::string("getMemoryShuffleData") ? "is_end { value: true }" : "");
  }
  EXPECT_EQ(MultiPart(target, {}).status(), wire::SUCCESS);
  EXPECT_EQ(MultiPart(target, {}).serializedbitmap(), "");
  EXPECT_EQ(MultiPart(target, {0, 1, 2}).status(), wire::SUCCESS);
  EXPECT_EQ(MultiPart(target, {0, 1, 2, 3}).status(), wire::NO_REGISTER);
  EXPECT_EQ(MultiPart(target, {0, -1}).status(), wire::INVALID_REQUEST);
}

TEST_F(StatusTest, FilesThatAreNotThere) {
  const Target target = Registered(1);
  EXPECT_EQ(client().Store(target, {MakeBlocks(0, 0, 3, 100)}), wire::SUCCESS);
  wire::GetLocalShuffleIndexRequest index;
  index.set_appid(target.app);
  const auto response = client().Ask(&Stub::getLocalShuffleIndex, index);
  EXPECT_EQ(response.status(), wire::SUCCESS);
  EXPECT_EQ(response.indexdata(), "");
  EXPECT_EQ(response.datafilelen(), 0);
  EXPECT_EQ(response.storageids_size(), 0);
  for (const auto& [offset, length] : std::vector<std::pair<int64_t, int32_t>>{
           {0, 100}, {0, 0}, {-1, 1}, {0, -1}, {INT64_MAX, INT_MAX}, {INT64_MIN, INT_MIN}}) {
    wire::GetLocalShuffleDataRequest data;
    data.set_appid(target.app);
    data.set_offset(offset);
    data.set_length(length);
    data.set_storageid(-1);
    EXPECT_EQ(client().Ask(&Stub::getLocalShuffleData, data).status(), wire::INVALID_REQUEST);
  }
}

TEST_F(StatusTest, FieldsOfNoMeaning) {
  const Target target = Registered(1);
  for (const int32_t number : {0, -1, 7, INT_MAX}) {
    wire::ReportShuffleResultRequest report;
    report.set_appid(target.app);
    report.set_bitmapnum(number);
    EXPECT_EQ(client().Ask(&Stub::reportShuffleResult, report).status(), wire::SUCCESS);
    wire::SendShuffleDataRequest send =
        MakeSend(target, client().Ticket(target, 1000), {MakeBlocks(0, number & 0xff, 1, 10)});
    send.set_stageattemptnumber(number);
    send.set_timestamp(number);
    EXPECT_EQ(client().Send(send).status(), wire::SUCCESS);
  }
}

TEST_F(StatusTest, BitmapsOfTasks) {
  const Target target = Registered(1);
  EXPECT_EQ(client().Store(target, {MakeBlocks(0, 0, 3, 100, 4)}), wire::SUCCESS);
  const auto read = [&](const std::string& filter) {
    return ReadPage(client(), {.target = target, .filter = filter});
  };
  for (const std::string& bad :
       {std::string("\0", 1), std::string("nonsense"), std::string(5, '\xff'),
        golden::OneWord({golden::Array(0, {4})}) + "x"}) {
    EXPECT_EQ(read(bad).status(), wire::INVALID_REQUEST);
  }
  EXPECT_EQ(read("").shuffledatablocksegments_size(), 3) << "no bytes are no filter";
  EXPECT_EQ(read(golden::OneWord({golden::Array(0, {4})})).shuffledatablocksegments_size(), 3);
  const auto none = read(golden::OneWord({golden::Array(0, {5})}));
  EXPECT_EQ(none.status(), wire::SUCCESS);
  EXPECT_EQ(none.shuffledatablocksegments_size(), 0);
}

}  // namespace
}  // namespace dovetail::e2e
