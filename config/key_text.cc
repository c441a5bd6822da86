// How keys and their values are written.
#include <fmt/format.h>

#include "config/key_table.h"
#include "config/size.h"
#include "config/toml_text.h"

namespace dovetail::config {
namespace {

std::string ListText(const std::vector<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) {
    if (list.size() > 1) list += ", ";
    list += QuoteToml(text);
  }
  return list + "]";
}

}  // namespace

std::string ExpectedOf(const Key& key) {
  if (std::holds_alternative<SwitchField>(key.field)) return "true or false";
  if (std::holds_alternative<RatioField>(key.field)) return "a share from 0.0 to 1.0";
  if (!std::holds_alternative<IntegerField>(key.field)) return std::string(key.expected);
  if (!key.is_size) return fmt::format("a whole number from {} to {}", key.min, key.max);
  return fmt::format("a size from {} to {}", FormatSize(key.min), FormatSize(key.max));
}

std::string ValueText(const Key& key, const Config& config) {
  Config copy = config;  // the fields of the table are for writing too
  if (const auto* integer = std::get_if<IntegerField>(&key.field)) {
    const std::string text = key.is_size ? FormatSize((*integer)(copy)) : "";
    const bool has_unit = !text.empty() && text.find_first_not_of("0123456789") != text.npos;
    return has_unit ? QuoteToml(text) : std::to_string((*integer)(copy));
  }
  if (const auto* on = std::get_if<SwitchField>(&key.field)) return (*on)(copy) ? "true" : "false";
  if (const auto* ratio = std::get_if<RatioField>(&key.field)) {
    // TOML tells 1.0, a share, from 1, a whole number.
    const std::string shown = fmt::format("{}", (*ratio)(copy));
    return shown.find_first_of(".e") == shown.npos ? shown + ".0" : shown;
  }
  if (const auto* text = std::get_if<TextField>(&key.field)) return QuoteToml((*text)(copy));
  return ListText(std::get<TextListField>(key.field)(copy));
}

}  // namespace dovetail::config
