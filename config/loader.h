// The configuration of a daemon, put together from defaults, one TOML file and --set options (the
// later wins), checked as a whole, with the values that depend on the machine worked out.
//
// Threads: any; reads the file, /proc and /sys, keeps nothing.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/key_table.h"

namespace dovetail::config {

// One value in force and where it comes from: "default", "default: <how it was found>",
// "<file>:<line>" or "--set".
struct Setting {
  const Key* key = nullptr;
  std::string text;  // as TOML
  std::string source;
};

struct LoadedConfig {
  // Every value is filled in: capacity_bytes and advertise_host, too.
  Config config;
  // One for each key, in the order of Keys().
  std::vector<Setting> settings;
};

// Sentences for the operator, one a problem, each with its place ("<file>:<line>:<column>: ..." or
// "--set ..."). Never empty.
using Problems = std::vector<std::string>;

// file: the TOML file, or none. sets: "key=value" each, in order. All problems that can be told
// apart are reported.
std::expected<LoadedConfig, Problems> Load(const std::optional<std::string>& file,
                                           const std::vector<std::string>& sets);

// The whole configuration as a TOML file with the source of each value in a comment. Loading it
// gives the same.
std::string Print(const LoadedConfig& loaded);

}  // namespace dovetail::config
