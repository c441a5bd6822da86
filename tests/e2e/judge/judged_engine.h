// The engine below engine_fs: made as its options say, stopped, and what it did in one line.
//
// Threads: one makes, stops and sums up; the calls on files come from any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/arena.h"
#include "engine/engine.h"
#include "tests/e2e/judge/engine_file.h"

namespace dovetail::judge {

struct JudgedOptions {
  std::string engine = "io_uring";  // or "pool"
  std::string writes = "direct";    // or "buffered"
  std::string reads = "direct";     // or "buffered", "pipe", "mixed"
  int64_t descriptors_max = 0;      // 0: no bound
  uint64_t faults_seed = 0;         // of the rings; 0: none
};

class JudgedEngine {
 public:
  JudgedEngine(const std::string& folder, const JudgedOptions& options);
  ~JudgedEngine();
  JudgedEngine(const JudgedEngine&) = delete;
  JudgedEngine& operator=(const JudgedEngine&) = delete;

  // Why not was printed.
  bool started() const { return engine_ != nullptr; }
  // REQUIRES: started.
  FileSystemState& state() { return *state_; }
  bool Stop();
  // key=value, separated by blanks; counters by their names, those of rings added up.
  std::string Summary() const;

 private:
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<FileSystemState> state_;
  bool stopped_ = false;
};

// As FUSE wants them: 0 or a negative errno. folder: the engine's, for the size of what is there.
int OpenFile(FileSystemState& state, const std::string& folder, const std::string& name,
             bool create, std::shared_ptr<EngineFile>& out);
int RemoveFile(FileSystemState& state, const std::string& name);

}  // namespace dovetail::judge
