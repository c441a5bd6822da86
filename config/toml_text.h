// TOML text -> sections and entries with their places, in the few shapes that the configuration
// has. The only part of the program that sees the TOML library; its exceptions end here. The text
// may be hostile: text_check.h looks at it before the library gets it.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dovetail::config {

// Line and column, both from 1; line 0 when the place is not known.
struct Place {
  uint32_t line = 0;
  uint32_t column = 0;
};

// A value of a type that no key has; what names it for the operator, such as "a date".
struct OtherValue {
  std::string what;
};

using TomlValue =
    std::variant<int64_t, bool, double, std::string, std::vector<std::string>, OtherValue>;

struct TomlEntry {
  std::string section;  // "" at the top level
  std::string name;
  TomlValue value;
  Place name_place;
  Place value_place;
};

struct TomlSection {
  std::string name;
  Place place;
};

struct TomlDocument {
  std::vector<TomlSection> sections;
  std::vector<TomlEntry> entries;
};

struct TomlProblem {
  Place place;
  std::string what;       // a phrase without the place
  bool is_syntax = true;  // false: refused by CheckText, so never parsed
};

std::expected<TomlDocument, TomlProblem> ParseToml(std::string_view text);

// One value alone, as it stands right of a '='. Text that is no TOML value is a problem, not a
// string.
std::expected<TomlValue, TomlProblem> ParseTomlValue(std::string_view text);

// Text as a TOML string, quoted and escaped.
std::string QuoteToml(std::string_view text);

}  // namespace dovetail::config
