// Protobuf bytes written field by field, right or wrong: any order, lying lengths, unknown fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/e2e/wire/wire_client.h"

namespace dovetail::e2e {

class RawMessage {
 public:
  RawMessage& Varint(uint32_t field, int64_t value);
  RawMessage& Fixed32(uint32_t field, uint32_t value);
  RawMessage& Fixed64(uint32_t field, uint64_t value);
  RawMessage& Bytes(uint32_t field, std::string_view bytes);
  // Says that `length` bytes follow, whatever does.
  RawMessage& LyingBytes(uint32_t field, uint64_t length, std::string_view bytes);
  // A group (the old nesting of protobuf) around what `inside` holds.
  RawMessage& Group(uint32_t field, std::string_view inside);
  RawMessage& Append(std::string_view bytes);

  const std::string& bytes() const { return bytes_; }

 private:
  void PutVarint(uint64_t value);
  void PutTag(uint32_t field, uint32_t type) { PutVarint(uint64_t{field} << 3 | type); }

  std::string bytes_;
};

// The bytes in pieces of `size` each, the last one shorter.
std::vector<std::string> Cut(const std::string& bytes, size_t size);

}  // namespace dovetail::e2e
