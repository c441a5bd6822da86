#include "server/rpc/request.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <vector>

#include "server/rpc/request_limits.h"
#include "server/rpc/slice_stream.h"

namespace dovetail::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Walks a message as the parser will and counts what will become objects.
class EntryCounter {
 public:
  explicit EntryCounter(CodedInputStream& in) : in_(in) {}

  // False: malformed, or more than the limit.
  bool Message(const Descriptor* type) {
    while (const uint32_t tag = in_.ReadTag()) {
      if (!Field(tag, type)) return false;
    }
    return in_.ConsumedEntireMessage();
  }

  bool too_many() const { return entries_ > kRequestEntriesMax; }

 private:
  static bool IsKnown(const FieldDescriptor* field, WireFormatLite::WireType type) {
    if (field == nullptr) return false;
    const auto field_type = static_cast<WireFormatLite::FieldType>(field->type());
    return type == WireFormatLite::WireTypeForFieldType(field_type) ||
           (field->is_packable() && type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  }

  // type is null inside a group: our schema has none, so all of it is unknown.
  bool Field(uint32_t tag, const Descriptor* type) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByNumber(number);
    const WireFormatLite::WireType wire_type = WireFormatLite::GetTagWireType(tag);
    // What is unknown is kept by the parser too. Numbers in lists grow eightfold at most.
    const bool known = IsKnown(field, wire_type);
    if (!known || (field->is_repeated() && !field->is_packable())) ++entries_;
    if (too_many()) return false;
    if (wire_type == WireFormatLite::WIRETYPE_START_GROUP) return Group(number);
    if (known && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return Nested(field->message_type());
    }
    return WireFormatLite::SkipField(&in_, tag);
  }

  bool Nested(const Descriptor* type) {
    int length = 0;
    if (!in_.ReadVarintSizeAsInt(&length)) return false;
    // A length beyond what is there must fail here, not count as an empty rest.
    const int64_t end = int64_t{in_.CurrentPosition()} + length;
    const CodedInputStream::Limit limit = in_.PushLimit(length);
    if (!Message(type) || in_.CurrentPosition() != end) return false;
    in_.PopLimit(limit);
    return true;
  }

  bool Group(int number) {
    if (!in_.IncrementRecursionDepth()) return false;
    const uint32_t end = WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_END_GROUP);
    while (const uint32_t tag = in_.ReadTag()) {
      if (tag == end) {
        in_.DecrementRecursionDepth();
        return true;
      }
      if (!Field(tag, nullptr)) return false;
    }
    return false;
  }

  CodedInputStream& in_;
  int64_t entries_ = 0;
};

Outcome Malformed() { return Invalid("the request is not a well-formed message"); }

}  // namespace

Outcome ParseRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message& message) {
  if (bytes.Length() > static_cast<size_t>(kRequestBytesMax)) {
    return Invalid(fmt::format("the request has {} bytes; only sends may have more than {}",
                               bytes.Length(), kRequestBytesMax));
  }
  const Result<std::vector<grpc::Slice>> slices = SlicesOf(bytes);
  if (!slices) return Malformed();
  {
    SliceStream stream(*slices);
    CodedInputStream in(&stream);
    EntryCounter counter(in);
    const bool ok = counter.Message(message.GetDescriptor());
    if (counter.too_many()) {
      return Invalid(fmt::format("the request has more than {} entries", kRequestEntriesMax));
    }
    if (!ok) return Malformed();
  }
  SliceStream stream(*slices);
  return message.ParseFromZeroCopyStream(&stream) ? Outcome{} : Malformed();
}

}  // namespace dovetail::server
