#include "server/free_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dovetail::server {
namespace {

std::unexpected<std::string> Failed(const std::string& bind_address) {
  return std::unexpected(
      fmt::format("cannot get a free port on {}: {}; set grpc_port or bind_address", bind_address,
                  std::strerror(errno)));
}

}  // namespace

std::expected<int64_t, std::string> FreePort(const std::string& bind_address) {
  sockaddr_storage address{};
  socklen_t size = 0;
  auto* four = reinterpret_cast<sockaddr_in*>(&address);
  auto* six = reinterpret_cast<sockaddr_in6*>(&address);
  if (inet_pton(AF_INET, bind_address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    size = sizeof(*four);
  } else if (inet_pton(AF_INET6, bind_address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    size = sizeof(*six);
  } else {
    errno = EINVAL;
    return Failed(bind_address);
  }
  const int socket_fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return Failed(bind_address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound =
      bind(socket_fd, generic, size) == 0 && getsockname(socket_fd, generic, &size) == 0;
  const int error = errno;
  close(socket_fd);
  errno = error;
  if (!bound) return Failed(bind_address);
  return ntohs(address.ss_family == AF_INET ? four->sin_port : six->sin6_port);
}

}  // namespace dovetail::server
