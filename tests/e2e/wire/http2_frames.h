// The few frames of HTTP/2 that a gRPC request is made of, as bytes (RFC 9113), for clients that
// are stuck or break off where a library would not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail::e2e::http2 {

inline constexpr int kData = 0;
inline constexpr int kHeaders = 1;
inline constexpr int kSettings = 4;
inline constexpr int kWindowUpdate = 8;
inline constexpr int kEndStream = 1;
inline constexpr int kEndHeaders = 4;

inline std::string Big(uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

inline std::string Frame(int type, int flags, uint32_t stream, const std::string& payload) {
  return Big(payload.size(), 3) + Big(static_cast<uint64_t>(type), 1) +
         Big(static_cast<uint64_t>(flags), 1) + Big(stream, 4) + payload;
}

// A literal without indexing; names and values are shorter than 127 bytes.
inline std::string Header(std::string_view name, std::string_view value) {
  return Big(0, 1) + Big(name.size(), 1) + std::string(name) + Big(value.size(), 1) +
         std::string(value);
}

// The headers of a call to that method.
inline std::string CallHeaders(std::string_view path) {
  return Header(":method", "POST") + Header(":scheme", "http") + Header(":path", path) +
         Header(":authority", "127.0.0.1") + Header("content-type", "application/grpc") +
         Header("te", "trailers");
}

// A message as gRPC frames it: not compressed, its length, its bytes.
inline std::string Message(const std::string& bytes) {
  return Big(0, 1) + Big(bytes.size(), 4) + bytes;
}

inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

}  // namespace dovetail::e2e::http2
