#include "server/grpc/data_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/shuffle.pb.h"

namespace dovetail::server {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using rss::common::GetMemoryShuffleDataResponse;

struct Held {
  std::shared_ptr<const void> memory;
  std::shared_ptr<storage::ReadGrant> grant;
};

grpc::Slice ToGrpcSlice(const Slice& slice, const std::shared_ptr<storage::ReadGrant>& grant) {
  // gRPC takes a mutable pointer but only reads from it.
  return grpc::Slice(
      const_cast<std::byte*>(slice.bytes.data()), slice.bytes.size(),
      [](void* held) { delete static_cast<Held*>(held); }, new Held{slice.owner, grant});
}

int64_t DataBytes(const SliceChain& data) {
  int64_t bytes = 0;
  for (const Slice& slice : data) bytes += static_cast<int64_t>(slice.bytes.size());
  return bytes;
}

// head, then the data as field `data_field`. Fields may come in any order (protobuf's rule), so the
// data goes last.
grpc::ByteBuffer Join(const google::protobuf::MessageLite& head, int data_field,
                      const SliceChain& data, const std::shared_ptr<storage::ReadGrant>& grant) {
  std::string bytes = head.SerializeAsString();
  if (const int64_t data_bytes = DataBytes(data); data_bytes > 0) {
    uint8_t field[16];
    uint8_t* end = CodedOutputStream::WriteTagToArray(
        WireFormatLite::MakeTag(data_field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), field);
    end = CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(data_bytes), end);
    bytes.append(reinterpret_cast<const char*>(field), static_cast<size_t>(end - field));
  }
  std::vector<grpc::Slice> slices;
  slices.reserve(data.size() + 1);
  slices.emplace_back(std::move(bytes));
  for (const Slice& slice : data) slices.push_back(ToGrpcSlice(slice, grant));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace

grpc::ByteBuffer EncodeMemoryReply(Reply<storage::MemoryAnswer> reply) {
  const storage::MemoryPage& page = reply.value.page;
  GetMemoryShuffleDataResponse head;
  head.set_status(static_cast<rss::common::StatusCode>(reply.outcome.code));
  head.set_retmsg(reply.outcome.message);
  if (reply.outcome.ok()) head.mutable_is_end()->set_value(page.is_end);
  head.mutable_shuffledatablocksegments()->Reserve(static_cast<int>(page.blocks.size()));
  for (const storage::PageBlock& block : page.blocks) {
    auto* segment = head.add_shuffledatablocksegments();
    segment->set_blockid(block.meta.block_id);
    segment->set_offset(block.offset);
    segment->set_length(block.meta.length);
    segment->set_uncompresslength(block.meta.uncompress_length);
    segment->set_crc(block.meta.crc);
    segment->set_taskattemptid(block.meta.task_attempt_id);
  }
  return Join(head, GetMemoryShuffleDataResponse::kDataFieldNumber, page.data, reply.value.grant);
}

// One logical file: no storage ids, and a data length that is just what the records cover.
grpc::ByteBuffer EncodeIndexReply(Reply<storage::FileAnswer> reply) {
  rss::common::GetLocalShuffleIndexResponse head;
  head.set_status(static_cast<rss::common::StatusCode>(reply.outcome.code));
  head.set_retmsg(reply.outcome.message);
  head.set_datafilelen(reply.value.data_bytes);
  return Join(head, rss::common::GetLocalShuffleIndexResponse::kIndexDataFieldNumber,
              reply.value.bytes, reply.value.grant);
}

grpc::ByteBuffer EncodeDataReply(Reply<storage::FileAnswer> reply) {
  rss::common::GetLocalShuffleDataResponse head;
  head.set_status(static_cast<rss::common::StatusCode>(reply.outcome.code));
  head.set_retmsg(reply.outcome.message);
  return Join(head, rss::common::GetLocalShuffleDataResponse::kDataFieldNumber, reply.value.bytes,
              reply.value.grant);
}

}  // namespace dovetail::server
