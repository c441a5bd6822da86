// A list of processors as the kernel and its tools write it: "0-3,8".
//
// Threads: pure function.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::config {

// In the order of the text; none for "". The error is a phrase that says what is wrong with it.
std::expected<std::vector<int>, std::string> ParseCpuList(std::string_view text);

}  // namespace dovetail::config
