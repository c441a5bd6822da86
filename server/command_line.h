// The command line of dovetaild: which configuration to load, or what to print instead of running.
//
// Threads: main, before any other thread exists.
#pragma once

#include <expected>

#include "config/loader.h"

namespace dovetail::server {

// Exit codes that are decided here; docs/configuration.md lists them all.
inline constexpr int kExitClean = 0;
inline constexpr int kExitCommandLine = 2;
inline constexpr int kExitConfiguration = 3;

// The configuration to run with; or the code to exit with at once, after everything there is to say
// was printed: to standard output what was asked for (--help, --version, --print-config,
// --check-config), to standard error problems.
std::expected<config::LoadedConfig, int> ParseCommandLine(int argc, const char* const* argv);

}  // namespace dovetail::server
