// A data path on fault_fs, the file system that is late, hangs or fails on demand.
//
// Threads: one. The daemons that use it must have ended, or be killed, before it goes.
#pragma once

#include <memory>
#include <string>

#include "tests/e2e/disk/fuse_mount.h"

namespace dovetail::e2e {

class FaultMount {
 public:
  // Mounts it on `folder`, which is made. Null with `why` when it cannot be mounted here.
  static std::unique_ptr<FaultMount> Make(const std::string& folder, std::string& why);
  // Lets everything go on, and unmounts.
  ~FaultMount();
  FaultMount(const FaultMount&) = delete;
  FaultMount& operator=(const FaultMount&) = delete;

  const std::string& folder() const { return folder_; }

  // From now on; see fault_fs.cc.
  void Heal() { SetMode("ok"); }
  void Delay(int milliseconds) { SetMode("delay " + std::to_string(milliseconds)); }
  void Hang() { SetMode("hang"); }
  void FailReads(int os_error) { SetMode("fail_read " + std::to_string(os_error)); }
  void FailWrites(int os_error) { SetMode("fail_write " + std::to_string(os_error)); }

 private:
  explicit FaultMount(std::string folder);

  void SetMode(const std::string& mode);

  const std::string folder_;
  std::unique_ptr<FuseMount> mount_;
};

}  // namespace dovetail::e2e
