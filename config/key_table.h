// The one table of configuration keys. Loading, --print-config, config/dovetail.toml,
// docs/configuration.md and the tests all go by it. Defaults are not repeated here: they are what a
// fresh Config holds.
//
// Threads: constant data; any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace dovetail::config {

using IntegerField = int64_t& (*)(Config&);
using SwitchField = bool& (*)(Config&);
using RatioField = double& (*)(Config&);  // from 0 to 1
using TextField = std::string& (*)(Config&);
using TextListField = std::vector<std::string>& (*)(Config&);

// Why a text is refused, as a phrase; nothing when it is fine.
using TextCheck = std::optional<std::string> (*)(const std::string&);

struct Key {
  std::string_view section;  // "" at the top level
  std::string_view name;
  std::string_view meaning;  // one sentence or more
  std::variant<IntegerField, SwitchField, RatioField, TextField, TextListField> field;
  // Integers: the range, both ends included, and whether the number is of bytes.
  int64_t min = 0;
  int64_t max = 0;
  bool is_size = false;
  // Texts and each text of a list: what is expected, and the check of it.
  std::string_view expected = {};
  TextCheck check = nullptr;
  // Not empty: how the value is found when it is 0 or empty, which is then allowed and the default.
  std::string_view derived = {};
};

// In the order in which they are printed: the top level first, then section by section.
std::span<const Key> Keys();

const Key* FindKey(std::string_view section, std::string_view name);

// The same by the path, such as "memory_store.capacity".
const Key* FindKey(std::string_view path);

bool IsSection(std::string_view name);

// "memory_store.capacity".
std::string PathOf(const Key& key);

// What a value of the key must be: "a whole number from 0 to 65535".
std::string ExpectedOf(const Key& key);

// The value of a key in a configuration, as TOML.
std::string ValueText(const Key& key, const Config& config);

}  // namespace dovetail::config
