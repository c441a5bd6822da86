#include "server/file_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace dovetail::server {

std::expected<uint64_t, std::string> RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return std::unexpected(
        fmt::format("cannot read the limit of open files: {}", std::strerror(errno)));
  }
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur < kFileLimitMin) {
    return std::unexpected(fmt::format(
        "only {} open files are allowed, at least {} are needed and one more for each client; "
        "raise the limit (ulimit -n, or LimitNOFILE= in a systemd unit)",
        limit.rlim_cur, kFileLimitMin));
  }
  return limit.rlim_cur;
}

}  // namespace dovetail::server
