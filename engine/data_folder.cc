#include "engine/data_folder.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>

#include "engine/errno.h"

namespace dovetail::engine {
namespace {

constexpr int kFileMode = 0640;
constexpr int kFolderMode = 0750;
constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
// openat2 answers EAGAIN when something below is renamed while it looks; making a file meets a
// removal of the folder above it. Both pass.
constexpr int kAttemptsMax = 16;
constexpr int64_t kAlignmentDefault = 4096;
constexpr int64_t kAlignmentMax = 256 << 10;

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

Result<std::unique_ptr<DataFolder>> DataFolder::Open(const std::string& path,
                                                     std::shared_ptr<SystemCalls> calls) {
  const int root = calls->OpenAt(AT_FDCWD, path.c_str(), kFolderFlags & ~O_PATH, 0);
  if (root < 0) return FailErrno("open data path", -root);
  return std::unique_ptr<DataFolder>(new DataFolder(root, std::move(calls)));
}

DataFolder::~DataFolder() { calls_->Close(root_); }

bool DataFolder::IsValidPath(std::string_view path) {
  if (path.empty() || path.size() >= PATH_MAX || path.find('\0') != std::string_view::npos) {
    return false;
  }
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > NAME_MAX) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

int DataFolder::OpenBelow(const std::string& path, int flags, int mode) {
  for (int attempt = 1;; ++attempt) {
    const int result = calls_->OpenBelow(root_, path.c_str(), flags, mode);
    if (result == -ENOSYS) return OpenBelowByWalking(path, flags, mode);
    const bool passing = result == -EAGAIN || result == -EINTR;
    if (!passing || attempt == kAttemptsMax) return result;
  }
}

// One part after the other, none of them a link: what openat2 does in one call.
int DataFolder::OpenBelowByWalking(const std::string& path, int flags, int mode) {
  int folder = root_;
  size_t begin = 0;
  while (true) {
    const size_t slash = path.find('/', begin);
    const bool last = slash == std::string::npos;
    const std::string part = path.substr(begin, last ? slash : slash - begin);
    const int next = calls_->OpenAt(folder, part.c_str(),
                                    (last ? flags : kFolderFlags) | O_NOFOLLOW, last ? mode : 0);
    if (folder != root_) calls_->Close(folder);
    if (last || next < 0) return next;
    folder = next;
    begin = slash + 1;
  }
}

int DataFolder::OpenParent(const std::string& path) {
  const std::string parent = ParentOf(path);
  return parent.empty() ? calls_->OpenAt(root_, ".", kFolderFlags, 0)
                        : OpenBelow(parent, kFolderFlags, 0);
}

int DataFolder::MakeParents(const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    const int above = OpenParent(folder);
    if (above < 0) return above;
    const int made = calls_->MakeFolderAt(above, std::string(NameOf(folder)).c_str(), kFolderMode);
    calls_->Close(above);
    if (made < 0 && made != -EEXIST) return made;
  }
  return 0;
}

int DataFolder::CreateFile(const std::string& path) {
  for (int attempt = 1;; ++attempt) {
    const int fd = OpenBelow(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
    if (fd != -ENOENT || attempt == kAttemptsMax) return fd;
    const int made = MakeParents(path);
    // A folder just made may be removed again, as an empty one, before the file is in it.
    if (made < 0 && made != -ENOENT) return made;
  }
}

Result<OpenedFile> DataFolder::OpenFile(const std::string& path, bool create) {
  if (!IsValidPath(path)) return Fail(ErrorCode::kInvalid, "open: path");
  // What may not be written any more can still be read.
  int access = O_RDWR;
  int fd = create ? CreateFile(path) : OpenBelow(path, access | O_CLOEXEC | O_NONBLOCK, 0);
  if (!create && (fd == -EROFS || fd == -EACCES || fd == -EPERM)) {
    access = O_RDONLY;
    fd = OpenBelow(path, access | O_CLOEXEC | O_NONBLOCK, 0);
  }
  if (fd < 0) return FailErrno("open", -fd);

  OpenedFile file;
  file.buffered = fd;
  struct statx facts {};
  Status status;
  if (const int result = calls_->Stat(fd, &facts); result < 0) {
    status = FailErrno("open: stat", -result);
  } else if (!S_ISREG(facts.stx_mode)) {
    status = Fail(ErrorCode::kInvalid, "open: not a file");
  } else {
    file.size = static_cast<int64_t>(facts.stx_size);
    file.inode = facts.stx_ino;
    status = OpenDirect(path, access, file);
  }
  if (!status) {
    calls_->Close(fd);
    // Otherwise the next attempt to create it would find it there.
    if (create) static_cast<void>(Unlink(path, 0, "open: undo"));
    return std::unexpected(status.error());
  }
  return file;
}

Status DataFolder::OpenDirect(const std::string& path, int access, OpenedFile& file) {
  const int fd = OpenBelow(path, access | O_DIRECT | O_CLOEXEC, 0);
  if (fd == -EINVAL || fd == -EOPNOTSUPP) return {};  // refused: buffered only
  if (fd < 0) return FailErrno("open direct", -fd);

  struct statx facts {};
  struct statfs file_system {};
  int64_t alignment = 0;
  bool offered = true;
  if (calls_->Stat(fd, &facts) == 0 && (facts.stx_mask & STATX_DIOALIGN) != 0) {
    offered = facts.stx_dio_offset_align != 0;
    alignment = std::max<int64_t>(facts.stx_dio_offset_align, facts.stx_dio_mem_align);
  }
  if (calls_->StatFileSystem(fd, &file_system) == 0) {
    alignment = std::max<int64_t>(alignment, file_system.f_bsize);
  }
  if (alignment <= 0) alignment = kAlignmentDefault;
  if (!offered || !std::has_single_bit(static_cast<uint64_t>(alignment)) ||
      alignment > kAlignmentMax) {
    calls_->Close(fd);
    return {};
  }
  file.direct = fd;
  file.direct_alignment = alignment;
  return {};
}

Status DataFolder::Unlink(const std::string& path, int flags, const char* where) {
  if (!IsValidPath(path)) return Fail(ErrorCode::kInvalid, where);
  const int parent = OpenParent(path);
  if (parent < 0) return FailErrno(where, -parent);
  const int result = calls_->UnlinkAt(parent, std::string(NameOf(path)).c_str(), flags);
  calls_->Close(parent);
  if (result < 0) return FailErrno(where, -result);
  return {};
}

Status DataFolder::RemoveFile(const std::string& path) {
  Status status = Unlink(path, 0, "remove");
  if (!status && status.error().os_error == ENOENT) return {};
  return status;
}

Status DataFolder::RemoveFolder(const std::string& path) {
  Status status = Unlink(path, AT_REMOVEDIR, "remove folder");
  if (status) return status;
  const int os_error = status.error().os_error;
  if (os_error == ENOENT || os_error == ENOTEMPTY || os_error == EEXIST) return {};
  return status;
}

Status DataFolder::Space(SpaceInfo& out) {
  struct statfs space {};
  if (const int result = calls_->StatFileSystem(root_, &space); result < 0) {
    return FailErrno("space", -result);
  }
  const auto block_bytes =
      static_cast<int64_t>(space.f_frsize > 0 ? space.f_frsize : space.f_bsize);
  out = {.total_bytes = static_cast<int64_t>(space.f_blocks) * block_bytes,
         .free_bytes = static_cast<int64_t>(space.f_bavail) * block_bytes,
         // 0 files in all: a file system that does not count them.
         .files_left = space.f_files == 0 || space.f_ffree > 0};
  return {};
}

}  // namespace dovetail::engine
