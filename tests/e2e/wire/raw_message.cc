#include "tests/e2e/wire/raw_message.h"

namespace dovetail::e2e {
namespace {

constexpr uint32_t kVarintType = 0;
constexpr uint32_t kFixed64Type = 1;
constexpr uint32_t kBytesType = 2;
constexpr uint32_t kGroupBeginType = 3;
constexpr uint32_t kGroupEndType = 4;
constexpr uint32_t kFixed32Type = 5;

std::string Little(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

}  // namespace

void RawMessage::PutVarint(uint64_t value) {
  while (value >= 0x80) {
    bytes_.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  bytes_.push_back(static_cast<char>(value));
}

RawMessage& RawMessage::Varint(uint32_t field, int64_t value) {
  PutTag(field, kVarintType);
  PutVarint(static_cast<uint64_t>(value));
  return *this;
}

RawMessage& RawMessage::Fixed32(uint32_t field, uint32_t value) {
  PutTag(field, kFixed32Type);
  return Append(Little(value, 4));
}

RawMessage& RawMessage::Fixed64(uint32_t field, uint64_t value) {
  PutTag(field, kFixed64Type);
  return Append(Little(value, 8));
}

RawMessage& RawMessage::Bytes(uint32_t field, std::string_view bytes) {
  return LyingBytes(field, bytes.size(), bytes);
}

RawMessage& RawMessage::LyingBytes(uint32_t field, uint64_t length, std::string_view bytes) {
  PutTag(field, kBytesType);
  PutVarint(length);
  return Append(bytes);
}

RawMessage& RawMessage::Group(uint32_t field, std::string_view inside) {
  PutTag(field, kGroupBeginType);
  Append(inside);
  PutTag(field, kGroupEndType);
  return *this;
}

RawMessage& RawMessage::Append(std::string_view bytes) {
  bytes_.append(bytes);
  return *this;
}

std::vector<std::string> Cut(const std::string& bytes, size_t size) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < bytes.size(); at += size) pieces.push_back(bytes.substr(at, size));
  return pieces;
}

}  // namespace dovetail::e2e
