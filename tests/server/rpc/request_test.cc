// Requests are counted before they become objects.
#include "server/rpc/request.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/coordinator.pb.h"
#include "proto/shuffle.pb.h"
#include "server/rpc/request_limits.h"

namespace dovetail::server {
namespace {

namespace wire = rss::common;

grpc::ByteBuffer Buffer(const std::string& bytes, size_t piece = std::string::npos) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += std::min(piece, bytes.size() - at)) {
    slices.emplace_back(bytes.substr(at, piece));
    slices.emplace_back(std::string());
  }
  return {slices.data(), slices.size()};
}

template <class Message>
Outcome Parse(const std::string& bytes) {
  Message message;
  return ParseRequest(Buffer(bytes), message);
}

std::string Times(int64_t count, const std::string& bytes) {
  std::string all;
  all.reserve(static_cast<size_t>(count) * bytes.size());
  for (int64_t i = 0; i < count; ++i) all += bytes;
  return all;
}

std::string Inside(char tag, const std::string& bytes) {
  std::string all(1, tag);
  size_t size = bytes.size();
  for (; size >= 0x80; size >>= 7) all.push_back(static_cast<char>(size | 0x80));
  all.push_back(static_cast<char>(size));
  return all + bytes;
}

TEST(RequestTest, WholeHoweverItIsCut) {
  wire::ShuffleRegisterRequest sent;
  sent.set_appid("app");
  sent.add_partitionranges()->set_end(7);
  (*sent.mutable_properties())["spark.rss.a"] = "b";
  sent.mutable_mergecontext()->set_keyclass("k");
  const std::string bytes = sent.SerializeAsString();
  for (const size_t piece : {size_t{1}, size_t{3}, bytes.size()}) {
    wire::ShuffleRegisterRequest message;
    ASSERT_TRUE(ParseRequest(Buffer(bytes, piece), message).ok());
    EXPECT_EQ(message.SerializeAsString(), bytes);
  }
  EXPECT_TRUE(Parse<wire::ShuffleRegisterRequest>("").ok());
}

// One entry more than the limit, of every kind that costs an object, at any depth.
TEST(RequestTest, Entries) {
  using Register = wire::ShuffleRegisterRequest;
  using Report = wire::ReportShuffleResultRequest;
  using Heartbeat = wire::ShuffleServerHeartBeatRequest;
  const auto bound = [](auto parse, const std::string& entry) {
    EXPECT_TRUE(parse(Times(kRequestEntriesMax, entry)).ok()) << entry.size();
    const Outcome refused = parse(Times(kRequestEntriesMax + 1, entry));
    EXPECT_EQ(refused.code, StatusCode::kInvalidRequest) << entry.size();
    EXPECT_NE(refused.message.find("entries"), std::string::npos) << refused.message;
  };
  bound(Parse<Register>, std::string("\x1a\x00", 2));       // messages
  bound(Parse<Register>, std::string("\x4a\x00", 2));       // map entries
  bound(Parse<Heartbeat>, std::string("\x32\x00", 2));      // strings
  bound(Parse<Heartbeat>, std::string("\xaa\x01\x00", 3));  // a map of messages
  bound(Parse<Register>, std::string("\x7a\x00", 2));       // unknown text
  bound(Parse<Register>, std::string("\x7b\x7c", 2));       // unknown groups
  bound(Parse<Register>, std::string("\x78\x01", 2));       // unknown numbers
  bound(Parse<Register>, std::string("\x08\x01", 2));       // of another type
  const auto nested = [](const std::string& entries) {
    return Parse<Report>(Inside('\x32', entries.substr(0, entries.size() - 2)));
  };
  bound(nested, std::string("\x12\x00", 2));  // lists within lists: the outer one counts too
  // One group of many fields.
  EXPECT_FALSE(Parse<Register>("\x7b" + Times(kRequestEntriesMax, "\x08\x01") + "\x7c").ok());
}

// A task with many blocks: numbers stay small as objects.
TEST(RequestTest, NumbersAreNotEntries) {
  wire::ReportShuffleResultRequest sent;
  auto* ids = sent.add_partitiontoblockids()->mutable_blockids();
  ids->Resize(static_cast<int>(kRequestEntriesMax * 3), 5);
  EXPECT_TRUE(Parse<wire::ReportShuffleResultRequest>(sent.SerializeAsString()).ok());
  const std::string unpacked = Times(kRequestEntriesMax * 2, "\x10\x05");
  EXPECT_TRUE(Parse<wire::ReportShuffleResultRequest>(Inside('\x2a', unpacked)).ok());
}

TEST(RequestTest, Bytes) {
  wire::ShuffleRegisterRequest sent;
  sent.set_user(std::string(static_cast<size_t>(kRequestBytesMax) - 5, 'u'));
  EXPECT_EQ(static_cast<int64_t>(sent.ByteSizeLong()), kRequestBytesMax);
  EXPECT_TRUE(Parse<wire::ShuffleRegisterRequest>(sent.SerializeAsString()).ok());
  sent.mutable_user()->push_back('u');
  const Outcome refused = Parse<wire::ShuffleRegisterRequest>(sent.SerializeAsString());
  EXPECT_EQ(refused.code, StatusCode::kInvalidRequest);
  EXPECT_NE(refused.message.find("33554432"), std::string::npos) << refused.message;
}

TEST(RequestTest, Malformed) {
  const std::string cases[] = {
      "\xff",  // no tag
      "\x0a\x05"
      "ab",                                     // a length beyond the end
      "\x0a\x01\xff",                           // text that is not UTF-8
      "\x1a\x02\x08",                           // the same in an entry
      "\x7b",                                   // a group without end
      "\x7c",                                   // and one without begin
      Times(200, "\x7b") + Times(200, "\x7c"),  // deeper than anything
      std::string("\x00", 1),                   // field 0
  };
  for (const std::string& bytes : cases) {
    const Outcome outcome = Parse<wire::ShuffleRegisterRequest>(bytes);
    EXPECT_EQ(outcome.code, StatusCode::kInvalidRequest) << testing::PrintToString(bytes);
    EXPECT_NE(outcome.message.find("well-formed"), std::string::npos) << outcome.message;
  }
}

}  // namespace
}  // namespace dovetail::server
