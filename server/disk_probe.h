// `dovetaild --probe`: what each data path can do and whether a start would take it, found out
// without changing anything but one test file that is removed again.
//
// Threads: main, instead of a daemon. Every call may block on the disks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/options.h"
#include "engine/probe.h"
#include "storage/options.h"

namespace dovetail::server {

struct DiskProbe {
  std::string path;  // as it was given
  std::string mount_point;
  std::string mount_source;                  // the device, or what stands for it
  std::optional<engine::EngineFacts> facts;  // nothing where no test file could be written
  std::string engine;         // "io_uring" or "pool", with facts and where a start would have one
  std::string engine_reason;  // why that one
  bool direct_appends = false;
  std::string append_mode;         // how appends would go, with the reason
  std::vector<std::string> notes;  // what is worth knowing and no reason to refuse
  std::string refusal;             // why a start would not take the path; empty: it would
};

struct ProbeReport {
  std::vector<DiskProbe> disks;
  uint64_t open_files_max = 0;  // as a start would raise it
  std::string open_files_refusal;
  std::string file_size_refusal;

  bool usable() const;
};

// Of options.data_paths.
ProbeReport ProbeDisks(const storage::LocalFileStoreOptions& options,
                       const engine::EngineOptions& engine_options);

// For people; the last line is a summary.
std::string ProbeText(const ProbeReport& report);
// One object, for machines. Keys: docs/operations.md.
std::string ProbeJson(const ProbeReport& report);

// What a failed test file means, as a sentence for the operator.
std::string ProbeFailure(const std::string& data_path, const Error& error);
// How appends go to a path with these facts, with the reason where it is not as configured.
std::string AppendMode(const engine::EngineFacts& facts, bool direct_wanted);

}  // namespace dovetail::server
