#include "config/value_check.h"

#include <string_view>

#include "config/cpu_list.h"
#include "config/host_address.h"

namespace dovetail::config {

std::optional<std::string> CheckStoreType(const std::string& text) {
  if (text == "MEMORY_LOCALFILE") return std::nullopt;
  return "only MEMORY_LOCALFILE is served; without localfile_store.data_paths it keeps all in "
         "memory";
}

std::optional<std::string> CheckBindAddress(const std::string& text) {
  if (IsAddress(text)) return std::nullopt;
  return "not an IPv4 or IPv6 address; host names and ports do not belong here";
}

std::optional<std::string> CheckAdvertiseHost(const std::string& text) {
  if (IsWildcardAddress(text)) return "clients cannot connect to a wildcard address";
  if (IsAddress(text) || IsHostName(text)) return std::nullopt;
  return "neither a host name nor an address; leave out scheme and port";
}

std::optional<std::string> CheckTag(const std::string& text) {
  if (text.empty()) return "a tag is empty";
  if (text.find(',') != std::string::npos) {
    return "a tag holds a comma, which separates tags at the client; write two elements";
  }
  return std::nullopt;
}

std::optional<std::string> CheckDataPath(const std::string& text) {
  if (text.starts_with('/')) return std::nullopt;
  return "not an absolute path; it must start with /";
}

std::optional<std::string> CheckLogLevel(const std::string& text) {
  for (const std::string_view level : {"DEBUG", "INFO", "WARN", "ERROR"}) {
    if (text == level) return std::nullopt;
  }
  return "not a log level";
}

std::optional<std::string> CheckEngine(const std::string& text) {
  for (const std::string_view engine : {"auto", "io_uring", "pool"}) {
    if (text == engine) return std::nullopt;
  }
  return "not an engine";
}

std::optional<std::string> CheckReadMode(const std::string& text) {
  if (text == "auto" || text == "buffered" || text == "direct") return std::nullopt;
  return "not a way of reading";
}

std::optional<std::string> CheckCpus(const std::string& text) {
  const auto cpus = ParseCpuList(text);
  if (cpus) return std::nullopt;
  return cpus.error();
}

}  // namespace dovetail::config
