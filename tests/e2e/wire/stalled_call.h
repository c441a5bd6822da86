// A gRPC client that asks and then goes quiet: plain HTTP/2 frames on a socket, which grants the
// server no more than the first window of 64 KiB and reads nothing of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/e2e/wire/http2_frames.h"
#include "tests/server/http/raw_client.h"

namespace dovetail::e2e {

class StalledCall {
 public:
  // Sends the head of a call to that method and then the first `sent_bytes` bytes of the message
  // (all of it by default). Close() or the end of the object breaks the connection off.
  StalledCall(int port, std::string_view path, const std::string& message,
              size_t sent_bytes = SIZE_MAX)
      : client_(port, kReceiveBufferBytes) {
    std::string wanted = http2::Message(message);
    const bool whole = sent_bytes >= message.size();
    if (!whole) wanted.resize(sent_bytes + wanted.size() - message.size());
    std::string out(http2::kPreface);
    out += http2::Frame(http2::kSettings, 0, 0, "");
    out += http2::Frame(http2::kHeaders, http2::kEndHeaders, 1, http2::CallHeaders(path));
    out += http2::Frame(http2::kData, whole ? http2::kEndStream : 0, 1, wanted);
    sent_ = client_.connected() && client_.Send(out);
  }

  bool sent() const { return sent_; }
  void Close() { client_.Close(); }

 private:
  static constexpr int kReceiveBufferBytes = 4096;

  server::RawClient client_;
  bool sent_ = false;
};

}  // namespace dovetail::e2e
