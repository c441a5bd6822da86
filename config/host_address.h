// What kind of address or host name a text is. Only looks at the text: no look-up in the network.
//
// Threads: pure functions.
#pragma once

#include <string>

namespace dovetail::config {

// An IPv4 or IPv6 address in digits, without brackets, port or zone.
bool IsAddress(const std::string& text);

// 0.0.0.0 or ::, which stand for every address of the machine.
bool IsWildcardAddress(const std::string& text);

// An address that only this machine can reach: 127.x.x.x or ::1.
bool IsLoopbackAddress(const std::string& text);

// A host name: labels of letters, digits, '-' and '_' with dots between, at most 253 characters.
bool IsHostName(const std::string& text);

}  // namespace dovetail::config
