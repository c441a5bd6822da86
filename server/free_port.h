// A free TCP port, for grpc_port = 0: the port is part of what clients are told before it is
// opened.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

namespace dovetail::server {

// The error is a sentence for the operator. Another process may take the port in between; opening
// it then fails as for any port in use.
std::expected<int64_t, std::string> FreePort(const std::string& bind_address);

}  // namespace dovetail::server
