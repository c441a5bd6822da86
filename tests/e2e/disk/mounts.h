// Real file systems for one test program, in a mount namespace of its own: nothing is seen outside,
// and nothing of it outlives the processes in it, however they end. Daemons started afterwards
// inherit it.
//
// Threads: the main one only (a namespace belongs to a thread and what it starts).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace dovetail::e2e {

// Enters the namespace, once per process. Empty when mounts can be made from now on, else why not,
// for GTEST_SKIP.
std::string EnterOwnMounts();

// A mounted file system; unmounted, if need be lazily, at the end of the object. Null with `why`
// when it could not be mounted.
class Mount {
 public:
  // folder: is made. bytes: the size of the file system.
  static std::unique_ptr<Mount> Tmpfs(const std::string& folder, int64_t bytes, std::string& why);
  // On a loop device over the sparse file <folder>.image. An error of the file system makes it
  // read-only, as on most systems.
  static std::unique_ptr<Mount> Ext4(const std::string& folder, int64_t bytes, std::string& why);
  // One more name of what is there: a file or a folder.
  static std::unique_ptr<Mount> Bind(const std::string& from, const std::string& over,
                                     std::string& why);
  ~Mount();
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  const std::string& folder() const { return folder_; }
  // False when the kernel refuses: a file is open for writing.
  bool MakeReadOnly(bool read_only);
  // Of an ext4: makes it find an error in itself. False when this kernel has no means for that.
  bool TripError();

 private:
  explicit Mount(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
};

// Whether an ext4 lets nobody, root included, change the folder and all that is in it. False when
// that could not be set.
bool MakeImmutable(const std::string& folder, bool immutable);

// Of the file system that the path is on, for a process without privileges.
int64_t FreeBytes(const std::string& path);

// A file of that many bytes that really takes the space, as a stranger's would.
void WriteBallast(const std::string& path, int64_t bytes);

}  // namespace dovetail::e2e
