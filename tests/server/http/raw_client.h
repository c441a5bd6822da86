// A TCP client on loopback for tests, which says exactly the bytes that it is given.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail::server {

class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer_bytes = 0) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer_bytes > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                 sizeof(receive_buffer_bytes));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    connected_ =
        connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }

  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Everything until the server closes; ends_at_close says whether it did so in time.
  std::string ReadAll(bool* ends_at_close = nullptr) {
    std::string all;
    char piece[4096];
    pollfd readable{socket_, POLLIN, 0};
    if (ends_at_close != nullptr) *ends_at_close = false;
    while (poll(&readable, 1, 30'000) == 1) {
      const ssize_t got = recv(socket_, piece, sizeof(piece), 0);
      if (got > 0) {
        all.append(piece, static_cast<size_t>(got));
        continue;
      }
      if (ends_at_close != nullptr) *ends_at_close = got == 0 || errno == ECONNRESET;
      break;
    }
    return all;
  }

  void Close() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

 private:
  int socket_ = -1;
  bool connected_ = false;
};

}  // namespace dovetail::server
