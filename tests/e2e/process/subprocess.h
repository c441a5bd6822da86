// A child process for tests: started with chosen arguments, its two outputs kept in memory files
// that can be read at any time, killed at the latest when the object or the test program ends.
//
// Threads: one. The thread that makes it must outlive it (the child dies with that thread).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace dovetail::e2e {

struct SubprocessOptions {
  // Soft and hard limit of open file descriptors; 0 leaves them as they are.
  unsigned long nofile = 0;
  // Soft and hard limit of the bytes of a file; 0 leaves both as they are.
  unsigned long file_bytes_soft = 0;
  unsigned long file_bytes_hard = 0;
  // As in a container: the calls of io_uring fail with EPERM.
  bool forbid_rings = false;
  // Soft and hard limit of locked memory, without the privilege to pass it.
  std::optional<unsigned long> locked_bytes = {};
  // "NAME=VALUE", over the environment of the test.
  std::vector<std::string> environment = {};
};

class Subprocess {
 public:
  // argv[0] is the path of the program. A program that cannot be run ends with 127.
  explicit Subprocess(const std::vector<std::string>& argv, const SubprocessOptions& options = {});
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  bool Running();
  void Signal(int number);
  // The exit code, or minus the signal that ended it; nothing when the time is up.
  std::optional<int> Wait(std::chrono::milliseconds timeout);

  // Everything written so far.
  std::string Out() const;
  std::string Err() const;

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  std::optional<int> exit_code_;
};

struct Finished {
  int exit_code = 0;
  std::string out;
  std::string err;
};

// Runs a program to its end. One that does not end within half a minute counts as a failed test.
Finished RunToEnd(const std::vector<std::string>& argv, const SubprocessOptions& options = {});

}  // namespace dovetail::e2e
