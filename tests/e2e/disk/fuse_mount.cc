#include "tests/e2e/disk/fuse_mount.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

namespace dovetail::e2e {
namespace {

constexpr int64_t kFuseMagic = 0x65735546;
constexpr std::chrono::seconds kMountTimeout{10};
constexpr std::chrono::seconds kEndTimeout{5};
constexpr std::chrono::milliseconds kPoll{10};

}  // namespace

std::unique_ptr<FuseMount> FuseMount::Make(const std::vector<std::string>& server,
                                           const std::string& folder, std::string& why) {
  if (access("/dev/fuse", R_OK | W_OK) != 0) {
    why = "there is no /dev/fuse to use here";
    return nullptr;
  }
  std::filesystem::create_directories(folder);
  std::unique_ptr<FuseMount> made(new FuseMount(server, folder));
  if (made->WaitMounted()) return made;
  why = "FUSE cannot be mounted here: " + made->Err();
  return nullptr;
}

FuseMount::~FuseMount() {
  // Of a server that crashed, too.
  umount2(folder_.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH);
  if (!server_.Wait(kEndTimeout)) server_.Signal(SIGKILL);
}

bool FuseMount::WaitMounted() {
  const auto deadline = std::chrono::steady_clock::now() + kMountTimeout;
  while (server_.Running() && std::chrono::steady_clock::now() < deadline) {
    struct statfs facts {};
    if (statfs(folder_.c_str(), &facts) == 0 && facts.f_type == kFuseMagic) return true;
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

std::optional<int> FuseMount::Unmount(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  // Who has just closed a file of it may still be counted for a moment.
  while (umount2(folder_.c_str(), UMOUNT_NOFOLLOW) != 0) {
    if (!server_.Running()) break;
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(kPoll);
  }
  return server_.Wait(timeout);
}

void FuseMount::KillServer() { server_.Signal(SIGKILL); }

}  // namespace dovetail::e2e
