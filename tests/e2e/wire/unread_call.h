// gRPC clients that ask and do not read, stuck at one place only: in the flow control of HTTP/2,
// while the connection itself is good (kNoWindow), or in the connection, while HTTP/2 lets
// everything through (kNoRead), so that the server cannot even say that it gives up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/server/http/raw_client.h"

namespace dovetail::e2e {

class UnreadCall {
 public:
  enum class Stuck { kNoWindow, kNoRead };

  UnreadCall(Stuck stuck, int port, std::string_view path, const std::string& message)
      : client_(port, stuck == Stuck::kNoRead ? kSmallBufferBytes : 0) {
    const uint64_t window = stuck == Stuck::kNoRead ? INT32_MAX : kFirstWindow;
    const std::string head = Header(":method", "POST") + Header(":scheme", "http") +
                             Header(":path", path) + Header(":authority", "127.0.0.1") +
                             Header("content-type", "application/grpc") + Header("te", "trailers");
    // SETTINGS_INITIAL_WINDOW_SIZE, then the window of the connection.
    sent_ = client_.connected() &&
            client_.Send(
                "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
                Frame(kSettings, 0, 0, Big(4, 2) + Big(window, 4)) +
                Frame(kWindowUpdate, 0, 0, Big(std::max<uint64_t>(window - kFirstWindow, 1), 4)) +
                Frame(kHeaders, kEndHeaders, 1, head) +
                Frame(kData, kEndStream, 1, Big(0, 1) + Big(message.size(), 4) + message));
  }

  bool sent() const { return sent_; }

 private:
  static constexpr int kSmallBufferBytes = 4096;
  static constexpr uint64_t kFirstWindow = 65'535;
  static constexpr int kData = 0;
  static constexpr int kHeaders = 1;
  static constexpr int kSettings = 4;
  static constexpr int kWindowUpdate = 8;
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
