// The known key that an unknown one was probably meant to be.
//
// Threads: pure functions.
#pragma once

#include <string_view>

#include "config/key_table.h"

namespace dovetail::config {

// A key of the same name in another section, else the one that takes the fewest edits (a letter put
// in, taken out or changed, or two neighbours swapped). nullptr when none is near enough to be
// worth a hint.
const Key* NearestKey(std::string_view section, std::string_view name);

}  // namespace dovetail::config
