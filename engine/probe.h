// What a data path can do, found out by doing it: the facts behind `dovetaild --probe` and behind
// the choice of defaults.
//
// Threads: any. The call blocks on the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/result.h"
#include "engine/system_calls.h"

namespace dovetail::engine {

struct EngineFacts {
  std::string file_system;       // its name, or its magic number in hexadecimal
  bool direct_io = false;        // 1 MiB was written and read back with O_DIRECT
  int64_t direct_alignment = 1;  // 1 without direct I/O
  bool reserve = false;          // fallocate works
  int64_t free_bytes = 0;        // for a process without privileges
  int64_t total_bytes = 0;
};

// Makes one file of its own in the folder, which must exist, and removes it again. An error says
// that the folder cannot be used at all: not there, not writable, full.
Result<EngineFacts> Probe(const std::string& path,
                          std::shared_ptr<SystemCalls> calls = std::make_shared<SystemCalls>());

}  // namespace dovetail::engine
