// DOVETAIL_CHECK: a promise inside the program that must hold, in every build. A broken one is
// logged with its place and ends the process by abort(): going on with wrong accounting or offsets
// would lose somebody's data quietly.
#pragma once

namespace dovetail::internal {
[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);
}  // namespace dovetail::internal

#define DOVETAIL_CHECK(expression) \
  (static_cast<bool>(expression)   \
       ? static_cast<void>(0)      \
       : ::dovetail::internal::CheckFailed(#expression, __FILE__, __LINE__))
