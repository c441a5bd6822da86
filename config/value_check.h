// What texts of the configuration must be, key by key: why one is refused, as a phrase; nothing
// when it is fine.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>

namespace dovetail::config {

std::optional<std::string> CheckStoreType(const std::string& text);
std::optional<std::string> CheckBindAddress(const std::string& text);
std::optional<std::string> CheckAdvertiseHost(const std::string& text);
std::optional<std::string> CheckTag(const std::string& text);
std::optional<std::string> CheckDataPath(const std::string& text);
std::optional<std::string> CheckLogLevel(const std::string& text);
std::optional<std::string> CheckEngine(const std::string& text);
std::optional<std::string> CheckReadMode(const std::string& text);
std::optional<std::string> CheckCpus(const std::string& text);

}  // namespace dovetail::config
