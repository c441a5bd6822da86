// The files below one data path, by name. Everything goes below one open directory descriptor:
// whatever lies in the folder, no path leads out of it, no link is followed, and a data path that
// is moved or unmounted meanwhile does not turn into another place.
//
// Threads: any. Every call may block in the kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/engine.h"
#include "engine/system_calls.h"

namespace dovetail::engine {

// Two descriptors of one file; the owner closes both.
struct OpenedFile {
  int buffered = -1;
  int direct = -1;               // -1 where the file system refuses O_DIRECT
  int64_t direct_alignment = 1;  // see File::direct_alignment
  int64_t size = 0;
  uint64_t inode = 0;
};

class DataFolder {
 public:
  static Result<std::unique_ptr<DataFolder>> Open(const std::string& path,
                                                  std::shared_ptr<SystemCalls> calls);
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  // Relative, no empty, "." or ".." parts, no NUL, within the system's length limits.
  static bool IsValidPath(std::string_view path);

  // For reading and writing. create: the file must not exist (kBusy, EEXIST); folders above it are
  // made. On failure nothing new is left but folders.
  Result<OpenedFile> OpenFile(const std::string& path, bool create);
  // What is not there is no error.
  Status RemoveFile(const std::string& path);
  // Nor is a folder that is not empty.
  Status RemoveFolder(const std::string& path);

  // Of the file system below.
  Status Space(SpaceInfo& out);

  int descriptor() const { return root_; }

 private:
  DataFolder(int root, std::shared_ptr<SystemCalls> calls)
      : root_(root), calls_(std::move(calls)) {}

  // Each returns a descriptor or a negative errno.
  int OpenBelow(const std::string& path, int flags, int mode);
  int OpenBelowByWalking(const std::string& path, int flags, int mode);
  int OpenParent(const std::string& path);
  int CreateFile(const std::string& path);
  int MakeParents(const std::string& path);

  Status OpenDirect(const std::string& path, int access, OpenedFile& file);
  Status Unlink(const std::string& path, int flags, const char* where);

  const int root_;
  const std::shared_ptr<SystemCalls> calls_;
};

}  // namespace dovetail::engine
