// What a text must be before the TOML library may read it. The library recurses on nesting, and on
// bytes that are not UTF-8 it walks out of its own buffers.
//
// Threads: pure function.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "config/toml_text.h"

namespace dovetail::config {

// Largest text that is read. A configuration with every key and its explanation has about 6 KiB.
inline constexpr size_t kTomlBytesMax = 128 << 10;

// The first reason not to read text; nothing when it can be read.
std::optional<TomlProblem> CheckText(std::string_view text);

}  // namespace dovetail::config
