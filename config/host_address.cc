#include "config/host_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <optional>

namespace dovetail::config {
namespace {

// inet_pton stops at a NUL, so a text that holds one would be taken for its beginning.
bool HasNul(const std::string& text) { return text.find('\0') != std::string::npos; }

std::optional<in_addr> Parse4(const std::string& text) {
  in_addr address{};
  if (HasNul(text) || inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return address;
}

std::optional<in6_addr> Parse6(const std::string& text) {
  in6_addr address{};
  if (HasNul(text) || inet_pton(AF_INET6, text.c_str(), &address) != 1) return std::nullopt;
  return address;
}

bool IsLabelCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

}  // namespace

bool IsAddress(const std::string& text) {
  return Parse4(text).has_value() || Parse6(text).has_value();
}

bool IsWildcardAddress(const std::string& text) {
  if (const auto address = Parse4(text)) return address->s_addr == htonl(INADDR_ANY);
  if (const auto address = Parse6(text)) return IN6_IS_ADDR_UNSPECIFIED(&*address);
  return false;
}

bool IsLoopbackAddress(const std::string& text) {
  if (const auto address = Parse4(text)) return (ntohl(address->s_addr) >> 24) == 127;
  if (const auto address = Parse6(text)) return IN6_IS_ADDR_LOOPBACK(&*address);
  return false;
}

bool IsHostName(const std::string& text) {
  if (text.empty() || text.size() > 253) return false;
  char before = '.';
  bool only_digits_and_dots = true;
  for (const char c : text) {
    if (c == '.' ? before == '.' : !IsLabelCharacter(c)) return false;
    only_digits_and_dots = only_digits_and_dots && (c == '.' || (c >= '0' && c <= '9'));
    before = c;
  }
  // 10.0.0.300 or 10.0.0 is a mistyped address, never a name.
  return before != '.' && !only_digits_and_dots;
}

}  // namespace dovetail::config
