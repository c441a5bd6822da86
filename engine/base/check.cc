#include "engine/base/check.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace dovetail::internal {

// Straight to standard error: the logger may be what broke, or not be set up yet.
void CheckFailed(const char* expression, const char* file, int line) {
  fmt::print(stderr,
             "CHECK failed: {} at {}:{}; this is a bug in dovetail, please report this line\n",
             expression, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace dovetail::internal
