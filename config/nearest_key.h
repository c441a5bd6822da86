// The known key that an unknown one was probably meant to be.
//
// Threads: pure functions.
#pragma once

#include <string_view>

#include "config/key_table.h"

namespace dovetail::config {

// The key that takes the fewest edits, each a letter put in, taken out or changed. A name that is
// right but in the wrong section counts as one edit. nullptr when none is near enough to be worth a
// hint.
const Key* NearestKey(std::string_view section, std::string_view name);

}  // namespace dovetail::config
