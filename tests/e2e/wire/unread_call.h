// gRPC clients that ask and do not read, stuck at one place only: in the flow control of HTTP/2,
// while the connection itself is good (kNoWindow), or in the connection, while HTTP/2 lets
// everything through (kNoRead), so that the server cannot even say that it gives up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/e2e/wire/http2_frames.h"
#include "tests/server/http/raw_client.h"

namespace dovetail::e2e {

class UnreadCall {
 public:
  enum class Stuck { kNoWindow, kNoRead };

  UnreadCall(Stuck stuck, int port, std::string_view path, const std::string& message)
      : client_(port, stuck == Stuck::kNoRead ? kSmallBufferBytes : 0) {
    const uint64_t window = stuck == Stuck::kNoRead ? INT32_MAX : kFirstWindow;
    // SETTINGS_INITIAL_WINDOW_SIZE, then the window of the connection.
    const std::string settings = http2::Big(4, 2) + http2::Big(window, 4);
    const std::string more = http2::Big(std::max<uint64_t>(window - kFirstWindow, 1), 4);
    std::string out(http2::kPreface);
    out += http2::Frame(http2::kSettings, 0, 0, settings);
    out += http2::Frame(http2::kWindowUpdate, 0, 0, more);
    out += http2::Frame(http2::kHeaders, http2::kEndHeaders, 1, http2::CallHeaders(path));
    out += http2::Frame(http2::kData, http2::kEndStream, 1, http2::Message(message));
    sent_ = client_.connected() && client_.Send(out);
  }

  bool sent() const { return sent_; }

 private:
  static constexpr int kSmallBufferBytes = 4096;
  static constexpr uint64_t kFirstWindow = 65'535;

  server::RawClient client_;
  bool sent_ = false;
};

}  // namespace dovetail::e2e
