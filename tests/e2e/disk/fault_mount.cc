#include "tests/e2e/disk/fault_mount.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

namespace dovetail::e2e {
namespace {

constexpr int64_t kFuseMagic = 0x65735546;
constexpr std::chrono::seconds kMountTimeout{10};
constexpr std::chrono::milliseconds kPoll{10};

}  // namespace

std::unique_ptr<FaultMount> FaultMount::Make(const std::string& folder, std::string& why) {
  if (access("/dev/fuse", R_OK | W_OK) != 0) {
    why = "there is no /dev/fuse to use here";
    return nullptr;
  }
  std::unique_ptr<FaultMount> made(new FaultMount(folder));
  if (made->WaitMounted()) return made;
  why = "FUSE cannot be mounted here: " + made->server_->Err();
  return nullptr;
}

FaultMount::FaultMount(std::string folder) : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
  std::filesystem::create_directories(folder_ + ".below");
  Heal();
  server_ = std::make_unique<Subprocess>(std::vector<std::string>{
      DOVETAIL_BINARY_DIR "/bin/fault_fs", folder_ + ".below", folder_, folder_ + ".control"});
}

FaultMount::~FaultMount() {
  Heal();
  umount2(folder_.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH);
  if (!server_->Wait(std::chrono::seconds(5))) server_->Signal(SIGKILL);
}

bool FaultMount::WaitMounted() {
  const auto deadline = std::chrono::steady_clock::now() + kMountTimeout;
  while (server_->Running() && std::chrono::steady_clock::now() < deadline) {
    struct statfs facts {};
    if (statfs(folder_.c_str(), &facts) == 0 && facts.f_type == kFuseMagic) return true;
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

// Whole at once: the file system reads it at any moment.
void FaultMount::SetMode(const std::string& mode) {
  const std::string control = folder_ + ".control";
  std::ofstream(control + ".new") << mode << "\n";
  std::filesystem::rename(control + ".new", control);
}

}  // namespace dovetail::e2e
