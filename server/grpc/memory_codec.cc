#include "server/grpc/memory_codec.h"

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

// Everything but the data, then the data field's tag and length. Fields may come in any order
// (protobuf's rule), so the data goes last.
std::string EncodeHead(const Outcome& outcome, const storage::MemoryPage& page) {
  GetMemoryShuffleDataResponse head;
  head.set_status(static_cast<rss::common::StatusCode>(outcome.code));
  head.set_retmsg(outcome.message);
  if (outcome.ok()) head.mutable_is_end()->set_value(page.is_end);
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
  std::string bytes = head.SerializeAsString();
  if (page.data_bytes > 0) {
    uint8_t field[16];
    uint8_t* end = CodedOutputStream::WriteTagToArray(
        WireFormatLite::MakeTag(GetMemoryShuffleDataResponse::kDataFieldNumber,
                                WireFormatLite::WIRETYPE_LENGTH_DELIMITED),
        field);
    end = CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(page.data_bytes), end);
    bytes.append(reinterpret_cast<const char*>(field), static_cast<size_t>(end - field));
  }
  return bytes;
}

}  // namespace

grpc::ByteBuffer EncodeMemoryReply(Reply<storage::MemoryAnswer> reply) {
  const storage::MemoryPage& page = reply.value.page;
  std::vector<grpc::Slice> slices;
  slices.reserve(page.data.size() + 1);
  slices.emplace_back(EncodeHead(reply.outcome, page));
  for (const Slice& slice : page.data) slices.push_back(ToGrpcSlice(slice, reply.value.grant));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace dovetail::server
