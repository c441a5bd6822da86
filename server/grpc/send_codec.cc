#include "server/grpc/send_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <string>
#include <utility>

#include "proto/shuffle.pb.h"
#include "server/rpc/request_limits.h"
#include "server/rpc/slice_stream.h"
#include "storage/memory_budget.h"

namespace dovetail::server {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using rss::common::SendShuffleDataRequest;
using rss::common::ShuffleBlock;
using rss::common::ShuffleData;

// Turns ranges of the message, asked for in ascending order, into pieces of its slices.
class PieceFinder {
 public:
  explicit PieceFinder(const std::vector<grpc::Slice>& slices) : slices_(slices) {}

  void Append(int64_t position, int64_t size, std::vector<ConstBytes>& pieces) {
    while (size > 0) {
      while (position >= slice_start_ + static_cast<int64_t>(slices_[slice_].size())) {
        slice_start_ += static_cast<int64_t>(slices_[slice_++].size());
      }
      const grpc::Slice& slice = slices_[slice_];
      const auto offset = static_cast<size_t>(position - slice_start_);
      const size_t bytes = std::min(slice.size() - offset, static_cast<size_t>(size));
      pieces.emplace_back(reinterpret_cast<const std::byte*>(slice.begin()) + offset, bytes);
      position += static_cast<int64_t>(bytes);
      size -= static_cast<int64_t>(bytes);
    }
  }

 private:
  const std::vector<grpc::Slice>& slices_;
  size_t slice_ = 0;
  int64_t slice_start_ = 0;
};

bool ReadInt32(CodedInputStream& in, int32_t& value) {
  return WireFormatLite::ReadPrimitive<int32_t, WireFormatLite::TYPE_INT32>(&in, &value);
}

bool ReadInt64(CodedInputStream& in, int64_t& value) {
  return WireFormatLite::ReadPrimitive<int64_t, WireFormatLite::TYPE_INT64>(&in, &value);
}

bool ReadApp(CodedInputStream& in, std::string& app) {
  int length = 0;
  return in.ReadVarintSizeAsInt(&length) && length <= kSendAppBytesMax &&
         in.ReadString(&app, length) &&
         WireFormatLite::VerifyUtf8String(app.data(), length, WireFormatLite::PARSE, "");
}

constexpr uint32_t Tag(int field, WireFormatLite::WireType type) {
  return WireFormatLite::MakeTag(field, type);
}
constexpr auto kVarint = WireFormatLite::WIRETYPE_VARINT;
constexpr auto kBytes = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;

// Reads the fields of one message of known length, each by on_field(tag), which returns false when
// malformed.
template <class OnField>
bool ReadFields(CodedInputStream& in, const OnField& on_field) {
  while (const uint32_t tag = in.ReadTag()) {
    if (!on_field(tag)) return false;
  }
  return in.ConsumedEntireMessage();
}

template <class OnField>
bool ReadNested(CodedInputStream& in, const OnField& on_field) {
  int length = 0;
  if (!in.ReadVarintSizeAsInt(&length)) return false;
  // A length beyond what is there must fail here, not count as an empty rest.
  const int64_t end = int64_t{in.CurrentPosition()} + length;
  const CodedInputStream::Limit limit = in.PushLimit(length);
  if (!ReadFields(in, on_field) || in.CurrentPosition() != end) return false;
  in.PopLimit(limit);
  return true;
}

class BlocksParser {
 public:
  BlocksParser(const SendMessage& message, int64_t ticket_bytes)
      : finder_(message.slices), ticket_bytes_(ticket_bytes) {}

  bool Group(CodedInputStream& in) {
    if (batch_.groups.size() >= static_cast<size_t>(kRequestEntriesMax)) return false;
    storage::IncomingGroup group;
    group.first_block = static_cast<uint32_t>(batch_.blocks.size());
    const bool ok = ReadNested(in, [&](uint32_t tag) {
      switch (tag) {
        case Tag(ShuffleData::kPartitionIdFieldNumber, kVarint):
          return ReadInt32(in, group.partition);
        case Tag(ShuffleData::kBlockFieldNumber, kBytes):
          return Block(in);
        default:
          return WireFormatLite::SkipField(&in, tag);
      }
    });
    group.block_count = static_cast<uint32_t>(batch_.blocks.size()) - group.first_block;
    batch_.groups.push_back(group);
    return ok;
  }

  storage::IncomingBatch Take() { return std::move(batch_); }

 private:
  bool Block(CodedInputStream& in) {
    storage::IncomingBlock block;
    storage::BlockMeta& meta = block.meta;
    int64_t data_position = 0;
    int data_bytes = 0;
    const bool ok = ReadNested(in, [&](uint32_t tag) {
      switch (tag) {
        case Tag(ShuffleBlock::kBlockIdFieldNumber, kVarint):
          return ReadInt64(in, meta.block_id);
        case Tag(ShuffleBlock::kLengthFieldNumber, kVarint):
          return ReadInt32(in, meta.length);
        case Tag(ShuffleBlock::kUncompressLengthFieldNumber, kVarint):
          return ReadInt32(in, meta.uncompress_length);
        case Tag(ShuffleBlock::kCrcFieldNumber, kVarint):
          return ReadInt64(in, meta.crc);
        case Tag(ShuffleBlock::kTaskAttemptIdFieldNumber, kVarint):
          return ReadInt64(in, meta.task_attempt_id);
        case Tag(ShuffleBlock::kDataFieldNumber, kBytes):
          if (!in.ReadVarintSizeAsInt(&data_bytes)) return false;
          data_position = in.CurrentPosition();
          return in.Skip(data_bytes);
        default:
          return WireFormatLite::SkipField(&in, tag);
      }
    });
    if (!ok || meta.length <= 0 || meta.length != data_bytes) return false;
    bytes_ += meta.length + storage::kTicketOverheadBytes;
    if (bytes_ > ticket_bytes_) return false;
    block.first_piece = static_cast<uint32_t>(batch_.pieces.size());
    finder_.Append(data_position, meta.length, batch_.pieces);
    block.piece_count = static_cast<uint32_t>(batch_.pieces.size()) - block.first_piece;
    batch_.blocks.push_back(block);
    return true;
  }

  PieceFinder finder_;
  const int64_t ticket_bytes_;
  int64_t bytes_ = 0;
  storage::IncomingBatch batch_;
};

}  // namespace

Result<SendMessage> TakeSlices(const grpc::ByteBuffer& buffer) {
  Result<std::vector<grpc::Slice>> slices = SlicesOf(buffer);
  if (!slices) return std::unexpected(slices.error());
  return SendMessage{std::move(*slices)};
}

Result<SendHeadFields> ParseSendHead(const SendMessage& message) {
  SliceStream stream(message.slices);
  CodedInputStream in(&stream);
  SendHeadFields head;
  const bool ok = ReadFields(in, [&](uint32_t tag) {
    switch (tag) {
      case Tag(SendShuffleDataRequest::kAppIdFieldNumber, kBytes):
        return ReadApp(in, head.app);
      case Tag(SendShuffleDataRequest::kShuffleIdFieldNumber, kVarint):
        return ReadInt32(in, head.shuffle);
      case Tag(SendShuffleDataRequest::kRequireBufferIdFieldNumber, kVarint):
        return ReadInt64(in, head.ticket_id);
      default:
        return WireFormatLite::SkipField(&in, tag);
    }
  });
  if (!ok) return Fail(ErrorCode::kInvalid, "message");
  return head;
}

Result<storage::IncomingBatch> ParseSendBlocks(const SendMessage& message, int64_t ticket_bytes) {
  SliceStream stream(message.slices);
  CodedInputStream in(&stream);
  BlocksParser parser(message, ticket_bytes);
  const bool ok = ReadFields(in, [&](uint32_t tag) {
    if (tag == Tag(SendShuffleDataRequest::kShuffleDataFieldNumber, kBytes))
      return parser.Group(in);
    return WireFormatLite::SkipField(&in, tag);
  });
  if (!ok) return Fail(ErrorCode::kInvalid, "message");
  return parser.Take();
}

}  // namespace dovetail::server
