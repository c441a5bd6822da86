// A FUSE file system: its server, which is a program of the tests, and its place.
//
// Threads: one, the one of the Subprocess. Who uses the mount must have ended before it goes.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/process/subprocess.h"

namespace dovetail::e2e {

class FuseMount {
 public:
  // server: its arguments; it mounts itself on `folder`, which is made, and stays in the
  // foreground. Null with `why` when it cannot be mounted here.
  static std::unique_ptr<FuseMount> Make(const std::vector<std::string>& server,
                                         const std::string& folder, std::string& why);
  // Unmounts, lazily; a server that does not end soon is killed.
  ~FuseMount();
  FuseMount(const FuseMount&) = delete;
  FuseMount& operator=(const FuseMount&) = delete;

  const std::string& folder() const { return folder_; }

  // Unmounts and waits for the end of the server: its exit code, or minus the signal. Nothing when
  // the mount is in use or the time is up.
  std::optional<int> Unmount(std::chrono::milliseconds timeout);
  // Whoever waits for an answer of it gets an error, and can end.
  void KillServer();
  // What the server has written so far.
  std::string Out() const { return server_.Out(); }
  std::string Err() const { return server_.Err(); }

 private:
  FuseMount(const std::vector<std::string>& server, std::string folder)
      : folder_(std::move(folder)), server_(server) {}

  bool WaitMounted();

  const std::string folder_;
  Subprocess server_;
};

}  // namespace dovetail::e2e
