// Makes the calling process one that may do less, for good: for children of tests. Both may be
// called between fork and exec.
#pragma once

#include <sys/resource.h>

namespace dovetail::fakes {

// The three calls of io_uring fail with EPERM from now on, as the seccomp filters of containers
// have it. Also for the program that the process becomes.
bool ForbidRings();
// Only the call that uses a ring; one can be made.
bool ForbidEnteringRings();

// Locked memory, without the privilege to pass the limit; a program that the process becomes does
// not get it back.
bool LimitLockedMemory(rlim_t bytes);

}  // namespace dovetail::fakes
