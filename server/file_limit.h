// The limits of the process on files. Each client connection takes a descriptor, and the libraries
// below do not survive it when there are too few, so there is a least number. A segment that cannot
// grow to its size is a disk that fails.
//
// Called once at start, by the composition root.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "storage/options.h"

namespace dovetail::server {

inline constexpr uint64_t kFileLimitMin = 64;

// Raises the soft limit to the hard one and returns it. The error is a sentence for the operator.
std::expected<uint64_t, std::string> RaiseFileLimit();

// Raises the soft limit of file sizes to the hard one. The error is a sentence for the operator:
// segments of these options would not fit. Without data paths there is none.
std::expected<void, std::string> RaiseFileSizeLimit(const storage::LocalFileStoreOptions& options);

}  // namespace dovetail::server
