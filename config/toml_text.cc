#include "config/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <toml.hpp>
#include <utility>

#include "config/text_check.h"

namespace dovetail::config {
namespace {

// The library looks at back() of an array that may be empty (`a = []` followed by `[a.b]`). Here
// that throws, like its other complaints, and does not read what is not there.
template <class T>
class CheckedVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  T& front() { return this->at(0); }
  const T& front() const { return this->at(0); }
  T& back() { return this->at(this->size() - 1); }
  const T& back() const { return this->at(this->size() - 1); }
};

using Value = toml::basic_value<toml::discard_comments, std::map, CheckedVector>;

Place PlaceOf(const toml::source_location& location) {
  return Place{location.line(), location.column()};
}

// The library's message is a headline, then excerpts " 3 | text" each with a line below that points
// at the spot and explains it. The last excerpt is the spot that matters; the exception's own
// location is often only its line.
struct Pointer {
  Place place;
  std::string comment;
};

std::optional<Pointer> LastPointer(const std::string& message) {
  std::optional<Pointer> found;
  std::istringstream lines(message);
  uint32_t line_number = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t bar = line.find(" | ");
    if (bar == std::string::npos) continue;
    const size_t digit = line.find_first_not_of(' ');
    if (digit < bar) {
      std::from_chars(line.data() + digit, line.data() + bar, line_number);
      continue;
    }
    const size_t mark = line.find_first_not_of(' ', bar + 3);
    if (mark == std::string::npos || line_number == 0) continue;
    const size_t end = line[mark] == '^' ? mark + 4 : line.find_first_not_of('~', mark);
    const auto column = static_cast<uint32_t>(mark - (bar + 3) + 1);
    std::string comment = end < line.size() ? line.substr(line.find_first_not_of(' ', end)) : "";
    found = Pointer{{line_number, column}, std::move(comment)};
    line_number = 0;
  }
  return found;
}

std::string Headline(const std::string& message) {
  std::string line = message.substr(0, message.find('\n'));
  for (const std::string_view prefix : {"[error] ", "bad format: "}) {
    if (line.starts_with(prefix)) line.erase(0, prefix.size());
  }
  if (line.starts_with("toml::")) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) line.erase(0, colon + 2);
  }
  while (!line.empty() && (line.back() == '.' || line.back() == ' ')) line.pop_back();
  return line;
}

TomlProblem Describe(const toml::exception& error) {
  const std::string message = error.what();
  TomlProblem problem{PlaceOf(error.location()), Headline(message)};
  const std::optional<Pointer> pointer = LastPointer(message);
  if (!pointer) return problem;
  problem.place = pointer->place;
  std::string comment = pointer->comment;
  while (!comment.empty() && comment.back() == '.') comment.pop_back();
  if (!comment.empty() && comment != "here") problem.what += ": " + comment;
  return problem;
}

// The library makes the largest number of one that does not fit, so the digits are read again.
bool FitsInteger(const Value& value) {
  const toml::source_location location = value.location();
  if (location.column() > location.line_str().size()) return true;
  std::string digits = location.line_str().substr(location.column() - 1, location.region());
  std::erase(digits, '_');
  if (digits.starts_with('+')) digits.erase(0, 1);
  int base = 10;
  if (digits.starts_with("0x")) base = 16;
  if (digits.starts_with("0o")) base = 8;
  if (digits.starts_with("0b")) base = 2;
  if (base != 10) digits.erase(0, 2);
  int64_t number = 0;
  const auto [stop, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  return error == std::errc();
}

std::string NameOfType(const Value& value) {
  switch (value.type()) {
    case toml::value_t::boolean:
      return "a boolean";
    case toml::value_t::integer:
      return "a whole number";
    case toml::value_t::floating:
      return "a number with a fraction";
    case toml::value_t::string:
      return "a text";
    case toml::value_t::array:
      return "an array";
    case toml::value_t::table:
      return "a table";
    default:
      return "a date or time";
  }
}

TomlValue Convert(const Value& value) {
  if (value.is_integer()) {
    if (FitsInteger(value)) return value.as_integer();
    return OtherValue{"a number that does not fit 64 bits"};
  }
  if (value.is_boolean()) return value.as_boolean();
  if (value.is_floating()) return value.as_floating();
  if (value.is_string()) return value.as_string().str;
  if (!value.is_array()) return OtherValue{NameOfType(value)};
  std::vector<std::string> texts;
  for (const Value& element : value.as_array()) {
    if (!element.is_string()) {
      return OtherValue{"an array whose element " + std::to_string(texts.size() + 1) + " is " +
                        NameOfType(element)};
    }
    texts.push_back(element.as_string().str);
  }
  return texts;
}

TomlEntry MakeEntry(const std::string& section, const std::string& name, const Value& value) {
  const toml::source_location location = value.location();
  TomlEntry entry{section, name, Convert(value), PlaceOf(location), PlaceOf(location)};
  // The key stands left of its value on the same line; the library keeps only the place of the
  // value.
  const std::string& line = location.line_str();
  if (location.column() > name.size()) {
    const size_t at = line.rfind(name, location.column() - 1 - name.size());
    if (at != std::string::npos) entry.name_place.column = static_cast<uint32_t>(at + 1);
  }
  return entry;
}

Place PlaceOfHeader(const std::string& name, const Value& table) {
  const toml::source_location location = table.location();
  Place place = PlaceOf(location);
  const size_t at = location.line_str().find(name, location.column() - 1);
  if (at != std::string::npos) place.column = static_cast<uint32_t>(at + 1);
  return place;
}

// As deep as the text is nested, which CheckText has bounded.
void Flatten(const std::string& section, const Value& table, TomlDocument& document) {
  for (const auto& [name, value] : table.as_table()) {
    if (!value.is_table()) {
      document.entries.push_back(MakeEntry(section, name, value));
      continue;
    }
    const std::string inner = section.empty() ? name : section + "." + name;
    document.sections.push_back(TomlSection{inner, PlaceOfHeader(name, value)});
    Flatten(inner, value, document);
  }
}

}  // namespace

std::expected<TomlDocument, TomlProblem> ParseToml(std::string_view text) {
  if (auto problem = CheckText(text)) return std::unexpected(std::move(*problem));
  try {
    std::istringstream stream{std::string(text)};
    TomlDocument document;
    Flatten("", toml::parse<toml::discard_comments, std::map, CheckedVector>(stream, "text"),
            document);
    return document;
  } catch (const toml::exception& error) {
    return std::unexpected(Describe(error));
  } catch (const std::exception&) {
    // Without a place: what the library does not complain about itself, such as a table below an
    // empty array.
    return std::unexpected(TomlProblem{{},
                                       "a key or section is used in two ways that exclude each "
                                       "other, or a number is out of bounds"});
  }
}

std::expected<TomlValue, TomlProblem> ParseTomlValue(std::string_view text) {
  if (text.find_first_of("\r\n") != std::string_view::npos) {
    return std::unexpected(TomlProblem{{}, "the value has more than one line"});
  }
  auto document = ParseToml("value = " + std::string(text));
  if (!document) return std::unexpected(std::move(document.error()));
  if (document->entries.size() != 1 || !document->entries[0].section.empty()) {
    return OtherValue{"a table"};
  }
  return std::move(document->entries[0].value);
}

std::string QuoteToml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04X}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace dovetail::config
