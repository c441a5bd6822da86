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

std::expected<void, std::string> RaiseFileSizeLimit(const storage::LocalFileStoreOptions& options) {
  if (options.data_paths.empty()) return {};
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) {
    return std::unexpected(
        fmt::format("cannot read the limit of file sizes: {}", std::strerror(errno)));
  }
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_FSIZE, &raised) == 0) limit = raised;
  }
  // A segment is closed by the group that reaches segment_bytes_max.
  const auto needed =
      static_cast<uint64_t>(options.segment_bytes_max + options.flush_group_bytes_max);
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) return {};
  return std::unexpected(fmt::format(
      "files may have {} bytes at most, but a segment may take {} "
      "(localfile_store.segment_bytes_max + flush_group_bytes_max); raise the limit (ulimit -f, or "
      "LimitFSIZE= in a systemd unit) or lower segment_bytes_max",
      limit.rlim_cur, needed));
}

}  // namespace dovetail::server
