// Byte sizes as an operator writes them: whole numbers with a unit, "3G", "3GiB" or "3GB", all
// powers of 1024.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace dovetail::config {

// Bytes that text means: digits, then optionally K, M, G or T, then optionally B or iB (B alone:
// bytes). Upper and lower case are the same; blanks between number and unit are allowed. The error
// is a phrase for the operator.
std::expected<int64_t, std::string> ParseSize(std::string_view text);

// The shortest exact form: "1G" where a unit divides it, else digits. ParseSize reads it back.
std::string FormatSize(int64_t bytes);

}  // namespace dovetail::config
