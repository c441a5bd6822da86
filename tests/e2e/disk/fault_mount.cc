#include "tests/e2e/disk/fault_mount.h"

#include <filesystem>
#include <fstream>
#include <utility>

namespace dovetail::e2e {

std::unique_ptr<FaultMount> FaultMount::Make(const std::string& folder, std::string& why) {
  std::unique_ptr<FaultMount> made(new FaultMount(folder));
  made->mount_ = FuseMount::Make(
      {DOVETAIL_BINARY_DIR "/bin/fault_fs", folder + ".below", folder, folder + ".control"}, folder,
      why);
  return made->mount_ ? std::move(made) : nullptr;
}

FaultMount::FaultMount(std::string folder) : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_ + ".below");
  Heal();
}

FaultMount::~FaultMount() { Heal(); }

// Whole at once: the file system reads it at any moment.
void FaultMount::SetMode(const std::string& mode) {
  const std::string control = folder_ + ".control";
  std::ofstream(control + ".new") << mode << "\n";
  std::filesystem::rename(control + ".new", control);
}

}  // namespace dovetail::e2e
