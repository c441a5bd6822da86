// The command line of dovetaild: which configuration to load, or what to print instead of running.
//
// Threads: main, before any other thread exists.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "config/loader.h"

namespace dovetail::server {

// Exit codes that are decided here; docs/configuration.md lists them all.
inline constexpr int kExitClean = 0;
inline constexpr int kExitCommandLine = 2;
inline constexpr int kExitConfiguration = 3;

struct ProbeArguments {
  std::vector<std::string> paths;  // empty: those of the configuration
  bool json = false;
};

struct Invocation {
  config::Config config;
  std::optional<ProbeArguments> probe = std::nullopt;  // look at the data paths instead of running
};

// What to run; or the code to exit with at once, after everything there is to say
// was printed: to standard output what was asked for (--help, --version, --print-config,
// --check-config), to standard error problems.
std::expected<Invocation, int> ParseCommandLine(int argc, const char* const* argv);

}  // namespace dovetail::server
