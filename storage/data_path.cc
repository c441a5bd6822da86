#include "storage/data_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <mntent.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

namespace dovetail::storage {
namespace {

namespace fs = std::filesystem;

constexpr char kMarkerText[] =
    "dovetail data path, format 1\n"
    "Everything in this folder belongs to dovetaild and is removed when it starts.\n";

using Refusal = std::unexpected<std::string>;

Refusal Refused(const std::string& path, const char* what, int error, const char* advice) {
  return Refusal(
      fmt::format("data path {}: {} ({}); {}", path, what, std::strerror(error), advice));
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
  return {};
}

std::expected<int, std::string> TakeLock(const std::string& folder) {
  const std::string path = folder + "/lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return Refused(path, "cannot be opened", errno, "check the folder's permissions");
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int error = errno;
  close(fd);
  if (error == EWOULDBLOCK) {
    return Refusal(
        fmt::format("data path {} is in use by another dovetaild; give each its own "
                    "localfile_store.data_paths",
                    folder));
  }
  return Refused(path, "cannot be locked", error, "use a file system that has locks");
}

// A marker that is there must be ours; one that is not may be written only into an empty folder.
std::expected<void, std::string> CheckMarker(const std::string& folder) {
  const std::string path = folder + "/marker";
  std::error_code error;
  if (fs::exists(path, error)) {
    std::ifstream in(path, std::ios::binary);
    std::string text(sizeof(kMarkerText), '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(in.gcount()));
    if (text == kMarkerText) return {};
    return Refusal(
        fmt::format("{} is not the marker of this version of dovetaild; if nothing else "
                    "uses {}, remove that folder",
                    path, folder));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename() == "lock") continue;
    return Refusal(
        fmt::format("{} has files but no marker of dovetaild; remove that folder if "
                    "nothing else uses it, or choose another data path",
                    folder));
  }
  std::ofstream out(path, std::ios::binary);
  out << kMarkerText << std::flush;
  if (!out) {
    return Refused(path, "cannot be written", errno, "check permissions and free space");
  }
  return {};
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
    struct stat here {};
    struct stat above {};
    if (stat(mount.c_str(), &here) != 0 || stat((mount / "..").c_str(), &above) != 0) continue;
    if (here.st_dev != above.st_dev) continue;
    return fmt::format(
        "data path {}: {} of {} is not mounted, so the data would go to another disk; "
        "mount it first",
        data_path, mount.string(), table);
  }
  return {};
}

std::expected<std::unique_ptr<DataPathClaim>, std::string> DataPathClaim::Take(
    const std::string& data_path) {
  if (auto checked = CheckFolder(data_path); !checked) return Refusal(checked.error());
  const std::string folder = data_path + "/dovetail";
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return Refused(folder, "cannot be created", errno, "check permissions and free space");
  }
  std::expected<int, std::string> lock = TakeLock(folder);
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
