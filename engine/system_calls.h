// The system calls of the engines that block, behind one seam, so that a test can make any of them
// short, fail or hang. The base class makes the real calls.
//
// Every call returns what the kernel's own returns: a count or 0, or a negative errno. None repeats
// or continues anything; that is the callers' business. Threads: any; no state.
#pragma once

#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace dovetail::engine {

class SystemCalls {
 public:
  virtual ~SystemCalls() = default;

  virtual int64_t Preadv(int fd, std::span<const iovec> parts, int64_t offset);
  virtual int64_t Pwritev(int fd, std::span<const iovec> parts, int64_t offset);
  // From a file to the write end of a pipe.
  virtual int64_t Splice(int fd, int64_t offset, int pipe, int64_t length);
  virtual int64_t WritePipe(int pipe, std::span<const std::byte> bytes);
  // Mode 0: the file's size grows.
  virtual int Fallocate(int fd, int64_t offset, int64_t length);
  virtual int Ftruncate(int fd, int64_t size);

  // openat2 that stays below the folder and follows no link (RESOLVE_BENEATH,
  // RESOLVE_NO_SYMLINKS). -ENOSYS before Linux 5.6.
  virtual int OpenBelow(int folder, const char* path, int flags, int mode);
  virtual int OpenAt(int folder, const char* name, int flags, int mode);
  virtual int MakeFolderAt(int folder, const char* name, int mode);
  virtual int UnlinkAt(int folder, const char* name, int flags);
  virtual int Close(int fd);

  // Of an open descriptor; asks for size, type and the alignment of direct I/O.
  virtual int Stat(int fd, struct statx* out);
  // The length of an open file as this system knows it. Asks no device and no server, so that it
  // does not block.
  virtual int64_t KnownSize(int fd);
  virtual int StatFileSystem(int fd, struct statfs* out);
};

}  // namespace dovetail::engine
