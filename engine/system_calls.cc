#include "engine/system_calls.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace dovetail::engine {
namespace {

template <class T>
T OrErrno(T result) {
  return result < 0 ? static_cast<T>(-errno) : result;
}

}  // namespace

int64_t SystemCalls::Preadv(int fd, std::span<const iovec> parts, int64_t offset) {
  return OrErrno<int64_t>(preadv(fd, parts.data(), static_cast<int>(parts.size()), offset));
}

int64_t SystemCalls::Pwritev(int fd, std::span<const iovec> parts, int64_t offset) {
  return OrErrno<int64_t>(pwritev(fd, parts.data(), static_cast<int>(parts.size()), offset));
}

int64_t SystemCalls::Splice(int fd, int64_t offset, int pipe, int64_t length) {
  off64_t at = offset;
  return OrErrno<int64_t>(
      splice(fd, &at, pipe, nullptr, static_cast<size_t>(length), SPLICE_F_MOVE));
}

int64_t SystemCalls::WritePipe(int pipe, std::span<const std::byte> bytes) {
  return OrErrno<int64_t>(write(pipe, bytes.data(), bytes.size()));
}

int SystemCalls::Fallocate(int fd, int64_t offset, int64_t length) {
  return OrErrno(fallocate(fd, 0, offset, length));
}

int SystemCalls::Ftruncate(int fd, int64_t size) { return OrErrno(ftruncate(fd, size)); }

int SystemCalls::OpenBelow(int folder, const char* path, int flags, int mode) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags);
  how.mode = static_cast<uint64_t>(mode);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  return static_cast<int>(OrErrno(syscall(SYS_openat2, folder, path, &how, sizeof(how))));
}

int SystemCalls::OpenAt(int folder, const char* name, int flags, int mode) {
  return OrErrno(openat(folder, name, flags, mode));
}

int SystemCalls::MakeFolderAt(int folder, const char* name, int mode) {
  return OrErrno(mkdirat(folder, name, static_cast<mode_t>(mode)));
}

int SystemCalls::UnlinkAt(int folder, const char* name, int flags) {
  return OrErrno(unlinkat(folder, name, flags));
}

int SystemCalls::Close(int fd) { return OrErrno(close(fd)); }

int SystemCalls::Stat(int fd, struct statx* out) {
  return OrErrno(
      statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_SIZE | STATX_INO | STATX_DIOALIGN, out));
}

int64_t SystemCalls::KnownSize(int fd) {
  struct statx facts {};
  const int result = statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE, &facts);
  return OrErrno<int64_t>(result < 0 ? result : static_cast<int64_t>(facts.stx_size));
}

int SystemCalls::StatFileSystem(int fd, struct statfs* out) { return OrErrno(fstatfs(fd, out)); }

}  // namespace dovetail::engine
