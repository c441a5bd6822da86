#include "storage/data_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <mntent.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <thread>

namespace dovetail::storage {
namespace {

namespace fs = std::filesystem;

constexpr char kMarkerText[] =
    "dovetail data path, format 1\n"
    "Everything in this folder belongs to dovetaild and is removed when it starts.\n";

constexpr char kFolder[] = "dovetail";
constexpr char kMarker[] = "marker";
constexpr char kUnfinishedMarker[] = "marker.new";
constexpr char kLock[] = "lock";

// A look at the path holds its lock for a moment.
constexpr int kLockAttempts = 50;
constexpr std::chrono::milliseconds kLockPause{10};

using Refusal = std::unexpected<std::string>;

Refusal Refused(const std::string& path, const char* what, int error, const char* advice) {
  return Refusal(
      fmt::format("data path {}: {} ({}); {}", path, what, std::strerror(error), advice));
}

Refusal CannotMake(const std::string& folder, int error) {
  return Refused(folder, "cannot be created", error, "check permissions and free space");
}

std::string Inside(const std::string& data_path, const fs::path& folder) {
  return fmt::format(
      "data path {} lies in {}, which belongs to another data path and is emptied when that one is "
      "taken; choose a folder outside of it",
      data_path, folder.string());
}

// Also that of another process, or of one that is not running now.
std::string InsideMarkedFolder(const std::string& data_path) {
  std::error_code error;
  const fs::path real = fs::canonical(data_path, error);
  if (error) return {};
  for (fs::path above = real; above.has_relative_path(); above = above.parent_path()) {
    if (above.filename() != kFolder) continue;
    struct stat info {};
    if (lstat((above / kMarker).c_str(), &info) == 0) return Inside(data_path, above);
  }
  return {};
}

std::expected<void, std::string> CheckFolder(const std::string& data_path) {
  struct stat info {};
  if (stat(data_path.c_str(), &info) != 0) {
    return Refused(data_path, "cannot be looked at", errno,
                   "create the folder or correct localfile_store.data_paths");
  }
  if (!S_ISDIR(info.st_mode)) {
    return Refusal(
        fmt::format("data path {} is not a folder; correct localfile_store.data_paths", data_path));
  }
  if (std::string missing = MissingMount(data_path, "/etc/fstab"); !missing.empty()) {
    return Refusal(std::move(missing));
  }
  if (std::string inside = InsideMarkedFolder(data_path); !inside.empty()) {
    return Refusal(std::move(inside));
  }
  return {};
}

// False: it is not there. What is there must be a folder itself: behind a link it may be on another
// disk, or another data path's.
std::expected<bool, std::string> FindFolder(const std::string& folder) {
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) {
    if (errno == ENOENT) return false;
    return CannotMake(folder, errno);
  }
  if (S_ISLNK(info.st_mode)) {
    return Refusal(
        fmt::format("{} is a symbolic link, which is not followed; remove it, or name what it "
                    "points to in localfile_store.data_paths",
                    folder));
  }
  if (!S_ISDIR(info.st_mode)) {
    return Refusal(
        fmt::format("{} is not a folder; remove it, or choose another data path", folder));
  }
  return true;
}

// Gives the descriptor, or -1 when only looking and there is no lock file.
std::expected<int, std::string> TakeLock(const std::string& folder, bool only_look) {
  const std::string path = folder + "/" + kLock;
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (only_look ? 0 : O_CREAT);
  const int fd = open(path.c_str(), flags, 0600);
  if (fd < 0 && only_look && errno == ENOENT) return fd;
  if (fd < 0) return Refused(path, "cannot be opened", errno, "check the folder's permissions");
  int error = 0;
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    if (flock(fd, (only_look ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) return fd;
    error = errno;
    if (error != EWOULDBLOCK || only_look) break;
    std::this_thread::sleep_for(kLockPause);
  }
  close(fd);
  if (error == EWOULDBLOCK) {
    return Refusal(fmt::format(
        "data path {} is in use by another dovetaild, or named twice; give each its own "
        "localfile_store.data_paths",
        folder));
  }
  return Refused(path, "cannot be locked", error, "use a file system that has locks");
}

// A marker that is there must be ours. One that is not there (false) may be written only into an
// empty folder.
std::expected<bool, std::string> FindMarker(const std::string& folder) {
  const std::string path = folder + "/" + kMarker;
  std::error_code error;
  if (fs::exists(path, error)) {
    std::ifstream in(path, std::ios::binary);
    std::string text(sizeof(kMarkerText), '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(in.gcount()));
    if (text == kMarkerText) return true;
    return Refusal(
        fmt::format("{} is not the marker of this version of dovetaild; if nothing else "
                    "uses {}, remove that folder",
                    path, folder));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    // What a claim that was cut short may have left.
    const fs::path name = entry.path().filename();
    if (name == kLock || name == kUnfinishedMarker) continue;
    return Refusal(
        fmt::format("{} has files but no marker of dovetaild; remove that folder if "
                    "nothing else uses it, or choose another data path",
                    folder));
  }
  return false;
}

// Whole or not at all: half a marker would be taken for a stranger's at every later start.
std::expected<void, std::string> WriteMarker(const std::string& folder) {
  const std::string unfinished = folder + "/" + kUnfinishedMarker;
  const std::string marker = folder + "/" + kMarker;
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  const int fd = open(unfinished.c_str(), flags, 0600);
  bool written = fd >= 0;
  if (written) {
    constexpr size_t kBytes = sizeof(kMarkerText) - 1;
    const ssize_t wrote = write(fd, kMarkerText, kBytes);
    if (wrote >= 0 && wrote < static_cast<ssize_t>(kBytes)) errno = ENOSPC;
    written = wrote == static_cast<ssize_t>(kBytes) && fsync(fd) == 0;
  }
  written = written && rename(unfinished.c_str(), marker.c_str()) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (written) return {};
  unlink(unfinished.c_str());
  return Refused(marker, "cannot be written", error, "check permissions and free space");
}

std::expected<void, std::string> CheckMarker(const std::string& folder) {
  const std::expected<bool, std::string> found = FindMarker(folder);
  if (!found) return Refusal(found.error());
  if (*found) return {};
  return WriteMarker(folder);
}

// Whether the folder is the root of a mount. A bind mount may have the device of what is above it.
bool IsMounted(const fs::path& folder) {
  struct statx facts {};
  if (statx(AT_FDCWD, folder.c_str(), 0, STATX_BASIC_STATS, &facts) == 0 &&
      (facts.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) {
    return (facts.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  }
  struct stat here {};
  struct stat above {};
  // What cannot be looked at is not accused.
  if (stat(folder.c_str(), &here) != 0 || stat((folder / "..").c_str(), &above) != 0) return true;
  return here.st_dev != above.st_dev;
}

}  // namespace

std::string MissingMount(const std::string& data_path, const std::string& table) {
  std::error_code error;
  const fs::path real = fs::canonical(data_path, error);
  if (error) return {};
  const std::unique_ptr<FILE, int (*)(FILE*)> file(setmntent(table.c_str(), "r"), endmntent);
  if (!file) return {};
  while (const mntent* entry = getmntent(file.get())) {
    const fs::path mount = fs::path(entry->mnt_dir).lexically_normal();
    if (!mount.is_absolute() || mount == "/") continue;
    const fs::path relative = real.lexically_relative(mount);
    if (relative.empty() || *relative.begin() == "..") continue;
    if (IsMounted(mount)) continue;
    return fmt::format(
        "data path {}: {} of {} is not mounted, so the data would go to another disk; "
        "mount it first",
        data_path, mount.string(), table);
  }
  return {};
}

std::string NestedDataPath(const std::string& data_path, const std::vector<std::string>& others) {
  std::error_code error;
  const fs::path real = fs::canonical(data_path, error);
  if (error) return {};
  for (const std::string& other : others) {
    const fs::path folder = fs::canonical(other, error) / kFolder;
    if (error) continue;
    const fs::path relative = real.lexically_relative(folder);
    if (relative.empty() || *relative.begin() == "..") continue;
    return Inside(data_path, folder);
  }
  return {};
}

DataPathLook DataPathClaim::Look(const std::string& data_path) {
  if (auto checked = CheckFolder(data_path); !checked) return {.refusal = checked.error()};
  const std::string folder = data_path + "/" + kFolder;
  const std::expected<bool, std::string> found = FindFolder(folder);
  if (!found) return {.refusal = found.error()};
  if (!*found) {
    if (access(data_path.c_str(), W_OK | X_OK) == 0) return {.probe_folder = data_path};
    return {.refusal = CannotMake(folder, errno).error()};
  }
  if (auto marker = FindMarker(folder); !marker) return {.refusal = marker.error()};
  const std::expected<int, std::string> lock = TakeLock(folder, /*only_look=*/true);
  if (!lock) return {.refusal = lock.error(), .probe_folder = folder};
  if (*lock >= 0) close(*lock);
  std::error_code ignored;
  return {.probe_folder = folder, .has_old_files = fs::exists(folder + "/apps", ignored)};
}

std::expected<std::unique_ptr<DataPathClaim>, std::string> DataPathClaim::Take(
    const std::string& data_path) {
  if (auto checked = CheckFolder(data_path); !checked) return Refusal(checked.error());
  const std::string folder = data_path + "/" + kFolder;
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return CannotMake(folder, errno);
  if (const auto found = FindFolder(folder); !found) return Refusal(found.error());
  // Before anything is made in it: not even a lock goes into a stranger's folder.
  if (auto marker = FindMarker(folder); !marker) return Refusal(marker.error());
  std::expected<int, std::string> lock = TakeLock(folder, /*only_look=*/false);
  if (!lock) return Refusal(lock.error());
  std::unique_ptr<DataPathClaim> claim(new DataPathClaim(folder, *lock));
  if (auto marked = CheckMarker(folder); !marked) return Refusal(marked.error());
  std::error_code error;
  const auto removed = fs::remove_all(folder + "/apps", error);
  if (error) {
    return Refusal(
        fmt::format("data path {}: what a former process left cannot be removed ({}); "
                    "remove {}/apps",
                    data_path, error.message(), folder));
  }
  if (removed > 0)
    spdlog::info("data path {}: removed {} old files and folders", data_path, removed);
  return claim;
}

DataPathClaim::~DataPathClaim() { close(lock_); }

}  // namespace dovetail::storage
