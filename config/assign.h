// A value as it was written -> the field of its key in the configuration, checked.
//
// Threads: pure function.
#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "config/key_table.h"
#include "config/toml_text.h"

namespace dovetail::config {

// Sets the field of key. When the value is of the wrong type or out of range the field keeps what
// it had, and the answer is a sentence for the operator without the place: what it is, why that is
// refused, what is expected.
std::optional<std::string> Assign(const Key& key, const TomlValue& value, Config* config);

}  // namespace dovetail::config
