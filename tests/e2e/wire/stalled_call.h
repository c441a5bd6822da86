// A gRPC client that asks and then goes quiet: plain HTTP/2 frames on a socket, which grants the
// server no more than the first window of 64 KiB and reads nothing of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/server/http/raw_client.h"

namespace dovetail::e2e {

class StalledCall {
 public:
  // Sends the head of a call to that method and then the first `sent_bytes` bytes of the message
  // (all of it by default). Close() or the end of the object breaks the connection off.
  StalledCall(int port, std::string_view path, const std::string& message,
              size_t sent_bytes = SIZE_MAX)
      : client_(port, kReceiveBufferBytes) {
    std::string wanted = Big(0, 1) + Big(message.size(), 4) + message;
    const bool whole = sent_bytes >= message.size();
    const std::string head = Header(":method", "POST") + Header(":scheme", "http") +
                             Header(":path", path) + Header(":authority", "127.0.0.1") +
                             Header("content-type", "application/grpc") + Header("te", "trailers");
    std::string out = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    out += Frame(kSettings, 0, 0, "") + Frame(kHeaders, kEndHeaders, 1, head);
    if (!whole) wanted.resize(sent_bytes + 5);
    out += Frame(kData, whole ? kEndStream : 0, 1, wanted);
    sent_ = client_.connected() && client_.Send(out);
  }

  bool sent() const { return sent_; }
  void Close() { client_.Close(); }

 private:
  static constexpr int kReceiveBufferBytes = 4096;
  static constexpr int kData = 0;
  static constexpr int kHeaders = 1;
  static constexpr int kSettings = 4;
  static constexpr int kEndStream = 1;
  static constexpr int kEndHeaders = 4;

  static std::string Big(uint64_t value, int bytes) {
    std::string out;
    for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
    return out;
  }
  static std::string Frame(int type, int flags, uint32_t stream, const std::string& payload) {
    return Big(payload.size(), 3) + Big(static_cast<uint64_t>(type), 1) +
           Big(static_cast<uint64_t>(flags), 1) + Big(stream, 4) + payload;
  }
  // A literal without indexing; names and values are shorter than 127 bytes.
  static std::string Header(std::string_view name, std::string_view value) {
    return Big(0, 1) + Big(name.size(), 1) + std::string(name) + Big(value.size(), 1) +
           std::string(value);
  }

  server::RawClient client_;
  bool sent_ = false;
};

}  // namespace dovetail::e2e
