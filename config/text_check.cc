#include "config/text_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace dovetail::config {
namespace {

// The parser's stack grows with each bracket, in the sanitizer builds by some 30 KiB, and a table
// inside a table is made for each dot of a key. No configuration comes near these.
constexpr ptrdiff_t kBracketsMax = 100;
constexpr ptrdiff_t kDotsOfLineMax = 400;

TomlProblem Refuse(Place place, std::string what) {
  return TomlProblem{place, std::move(what), /*is_syntax=*/false};
}

bool IsContinuation(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80;
}

// Bytes of the UTF-8 character at the front of text; 0 when there is none: a stray or missing byte,
// a longer form than needed, a surrogate, or a number past the end of Unicode.
size_t CharacterBytes(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return 1;
  if (!IsContinuation(text, 1) || lead < 0xc2 || lead > 0xf4) return 0;
  const auto second = static_cast<uint8_t>(text[1]);
  if (lead < 0xe0) return 2;
  if (!IsContinuation(text, 2)) return 0;
  if (lead < 0xf0) {
    const bool too_long = lead == 0xe0 && second < 0xa0;
    const bool surrogate = lead == 0xed && second >= 0xa0;
    return too_long || surrogate ? 0 : 3;
  }
  const bool too_long = lead == 0xf0 && second < 0x90;
  const bool too_large = lead == 0xf4 && second >= 0x90;
  return too_long || too_large || !IsContinuation(text, 3) ? 0 : 4;
}

// TOML has tabs and line ends, and no other control character.
bool IsForbiddenControl(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte == '\r') return at + 1 >= text.size() || text[at + 1] != '\n';
  return (byte < 0x20 && byte != '\t' && byte != '\n') || byte == 0x7f;
}

std::optional<TomlProblem> CheckCharacters(std::string_view text) {
  uint32_t line = 1;
  size_t line_begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterBytes(text.substr(at));
    const Place place{line, static_cast<uint32_t>(at - line_begin + 1)};
    const auto byte = static_cast<uint8_t>(text[at]);
    if (bytes == 0) {
      return Refuse(place,
                    fmt::format("the byte 0x{:02x} is not UTF-8 here; write it as UTF-8", byte));
    }
    if (IsForbiddenControl(text, at)) {
      return Refuse(place,
                    fmt::format("a control character (0x{:02x}) stands here; take it out", byte));
    }
    at += bytes;
    if (byte == '\n') {
      ++line;
      line_begin = at;
    }
  }
  return std::nullopt;
}

std::optional<TomlProblem> CheckNesting(std::string_view text) {
  ptrdiff_t brackets = 0;
  uint32_t line = 1;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view row = text.substr(begin, end - begin);
    brackets += std::ranges::count(row, '[') + std::ranges::count(row, '{');
    if (brackets > kBracketsMax) {
      return Refuse({line, 1}, fmt::format("up to here it has more than {} brackets; take some out",
                                           kBracketsMax));
    }
    if (std::ranges::count(row, '.') > kDotsOfLineMax) {
      return Refuse({line, 1}, fmt::format("the line has more than {} dots; break it into several",
                                           kDotsOfLineMax));
    }
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace

std::optional<TomlProblem> CheckText(std::string_view text) {
  if (text.size() > kTomlBytesMax) {
    return Refuse({}, fmt::format("it has more than {} KiB, which is no configuration; is this the "
                                  "right file?",
                                  kTomlBytesMax >> 10));
  }
  if (auto problem = CheckCharacters(text)) return problem;
  return CheckNesting(text);
}

}  // namespace dovetail::config
