#include "config/size.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <system_error>

namespace dovetail::config {
namespace {

struct Unit {
  char letter;
  int shift;
};

constexpr std::array<Unit, 4> kUnits{{{'T', 40}, {'G', 30}, {'M', 20}, {'K', 10}}};

char Upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The shift of a unit such as "", "B", "g", "GB" or "GiB"; -1 when it is none.
int UnitShift(std::string_view unit) {
  std::string upper;
  for (const char c : unit) upper.push_back(Upper(c));
  if (upper.empty() || upper == "B") return 0;
  for (const Unit& known : kUnits) {
    if (upper[0] != known.letter) continue;
    const std::string_view rest = std::string_view(upper).substr(1);
    if (rest.empty() || rest == "B" || rest == "IB") return known.shift;
  }
  return -1;
}

}  // namespace

std::expected<int64_t, std::string> ParseSize(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  int64_t number = 0;
  const char* const end = trimmed.data() + trimmed.size();
  const auto [stop, error] = std::from_chars(trimmed.data(), end, number);
  const std::string_view rest(stop, static_cast<size_t>(end - stop));
  if (error == std::errc::result_out_of_range) {
    return std::unexpected(std::string("the size is too large for 64 bits"));
  }
  if (!rest.empty() && (rest[0] == '.' || rest[0] == ',')) {
    return std::unexpected(
        std::string("a size has no fraction; write it in the next smaller unit, 1536M for 1.5G"));
  }
  const int shift = error == std::errc() ? UnitShift(Trim(rest)) : -1;
  if (shift < 0) {
    return std::unexpected(std::string(
        "a size is a whole number of bytes or a number with K, M, G or T, such as \"3G\""));
  }
  if (number < 0) return std::unexpected(std::string("a size cannot be negative"));
  if (number > std::numeric_limits<int64_t>::max() >> shift) {
    return std::unexpected(std::string("the size is too large for 64 bits"));
  }
  return number << shift;
}

std::string FormatSize(int64_t bytes) {
  for (const Unit& unit : kUnits) {
    const int64_t scale = int64_t{1} << unit.shift;
    if (bytes >= scale && bytes % scale == 0)
      return fmt::format("{}{}", bytes / scale, unit.letter);
  }
  return fmt::format("{}", bytes);
}

}  // namespace dovetail::config
