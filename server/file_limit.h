// The limit of open file descriptors. Each client connection takes one, and the libraries below do
// not survive it when there are too few, so there is a least number.
//
// Called once at start, by the composition root.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

namespace dovetail::server {

inline constexpr uint64_t kFileLimitMin = 64;

// Raises the soft limit to the hard one and returns it. The error is a sentence for the operator.
std::expected<uint64_t, std::string> RaiseFileLimit();

}  // namespace dovetail::server
