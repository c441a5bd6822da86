#include "tests/e2e/disk/mounts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/process/subprocess.h"

namespace dovetail::e2e {
namespace {

constexpr int kUnmountAttempts = 50;
constexpr std::chrono::milliseconds kUnmountPause{20};

std::string TryToEnter() {
  if (geteuid() != 0) return "mounting needs root";
  if (unshare(CLONE_NEWNS) != 0) {
    return std::string("no mount namespace can be made here: ") + std::strerror(errno);
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return std::string("mounts cannot be made private here: ") + std::strerror(errno);
  }
  return {};
}

// The first of these programs that is there; the last when none is.
std::string Program(const std::string& name) {
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/"}) {
    if (access((folder + name).c_str(), X_OK) == 0) return folder + name;
  }
  return "/bin/" + name;
}

bool Run(const std::vector<std::string>& argv, std::string& why) {
  const Finished finished = RunToEnd(argv);
  if (finished.exit_code == 0) return true;
  why = argv[0] + " ended with " + std::to_string(finished.exit_code) + ": " + finished.err;
  return false;
}

}  // namespace

std::string EnterOwnMounts() {
  static const std::string why_not = TryToEnter();
  return why_not;
}

std::unique_ptr<Mount> Mount::Tmpfs(const std::string& folder, int64_t bytes, std::string& why) {
  std::filesystem::create_directories(folder);
  const std::string options = "size=" + std::to_string(bytes);
  if (mount("tmpfs", folder.c_str(), "tmpfs", 0, options.c_str()) == 0) {
    return std::unique_ptr<Mount>(new Mount(folder));
  }
  why = std::string("a tmpfs cannot be mounted here: ") + std::strerror(errno);
  return nullptr;
}

std::unique_ptr<Mount> Mount::Ext4(const std::string& folder, int64_t bytes, std::string& why) {
  std::filesystem::create_directories(folder);
  const std::string image = folder + ".image";
  const int file = open(image.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool sized = file >= 0 && ftruncate(file, bytes) == 0;
  if (file >= 0) close(file);
  if (!sized) {
    why = "no room for " + image;
    return nullptr;
  }
  // Everything is made at once, or the kernel would go on with it beside the test; no blocks are
  // kept back for root, as which the daemon may run here.
  if (!Run({Program("mkfs.ext4"), "-q", "-m", "0", "-e", "remount-ro", "-E",
            "lazy_itable_init=0,lazy_journal_init=0", image},
           why)) {
    return nullptr;
  }
  if (!Run({Program("mount"), "-o", "loop", image, folder}, why)) return nullptr;
  return std::unique_ptr<Mount>(new Mount(folder));
}

std::unique_ptr<Mount> Mount::Bind(const std::string& from, const std::string& over,
                                   std::string& why) {
  if (mount(from.c_str(), over.c_str(), nullptr, MS_BIND, nullptr) == 0) {
    return std::unique_ptr<Mount>(new Mount(over));
  }
  why = "no bind mount over " + over + " can be made here: " + std::strerror(errno);
  return nullptr;
}

Mount::~Mount() {
  for (int attempt = 0; attempt < kUnmountAttempts; ++attempt) {
    if (umount2(folder_.c_str(), UMOUNT_NOFOLLOW) == 0) return;
    std::this_thread::sleep_for(kUnmountPause);
  }
  ADD_FAILURE() << folder_ << " is still in use and is unmounted lazily";
  umount2(folder_.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH);
}

bool Mount::MakeReadOnly(bool read_only) {
  const unsigned long flags = MS_REMOUNT | (read_only ? MS_RDONLY : 0);
  return mount("none", folder_.c_str(), nullptr, flags, nullptr) == 0;
}

bool Mount::TripError() {
  struct stat info {};
  if (stat(folder_.c_str(), &info) != 0) return false;
  std::error_code error;
  const std::filesystem::path device =
      std::filesystem::canonical("/sys/dev/block/" + std::to_string(major(info.st_dev)) + ":" +
                                     std::to_string(minor(info.st_dev)),
                                 error);
  if (error) return false;
  std::ofstream trigger("/sys/fs/ext4/" + device.filename().string() + "/trigger_fs_error");
  trigger << "1" << std::flush;
  return trigger.good();
}

bool MakeImmutable(const std::string& folder, bool immutable) {
  return RunToEnd({Program("chattr"), "-R", immutable ? "+i" : "-i", folder}).exit_code == 0;
}

int64_t FreeBytes(const std::string& path) {
  return static_cast<int64_t>(std::filesystem::space(path).available);
}

void WriteBallast(const std::string& path, int64_t bytes) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0) << path;
  const std::string piece(1 << 20, 'b');
  for (int64_t left = bytes; left > 0;) {
    const ssize_t wrote =
        write(file, piece.data(), std::min(piece.size(), static_cast<size_t>(left)));
    if (wrote <= 0) {
      ADD_FAILURE() << path << ": " << std::strerror(errno);
      break;
    }
    left -= wrote;
  }
  close(file);
}

}  // namespace dovetail::e2e
