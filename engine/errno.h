// The one table from errno to what a caller can do about it. Nobody else compares errno values to
// tell full from broken.
//
// Threads: pure functions.
#pragma once

#include "engine/base/result.h"

namespace dovetail::engine {

// REQUIRES: os_error > 0. What is not in the table is kIo: a device that says something new is not
// trusted.
ErrorCode CodeOfErrno(int os_error);

// An error of that code which keeps the errno. where: a string literal.
std::unexpected<Error> FailErrno(const char* where, int os_error);

}  // namespace dovetail::engine
