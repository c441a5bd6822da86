#include "config/assign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <expected>
#include <variant>
#include <vector>

#include "config/size.h"

namespace dovetail::config {
namespace {

using Refusal = std::optional<std::string>;

std::string Shown(const std::string& text) {
  constexpr size_t kShownMax = 80;
  return QuoteToml(text.size() <= kShownMax ? text : text.substr(0, kShownMax) + "...");
}

std::string NameOf(const TomlValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return "the text " + Shown(*text);
  if (const auto* on = std::get_if<bool>(&value)) return *on ? "true" : "false";
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* other = std::get_if<OtherValue>(&value)) return other->what;
  return "an array";
}

std::string Sentence(const Key& key, const std::string& is, const std::string& why) {
  std::string hint = key.is_size ? "; for example \"3G\"" : "";
  if (!key.derived.empty()) hint += "; or leave it out";
  const std::string reason = why.empty() ? "" : fmt::format(": {}", why);
  return fmt::format("{} is {}{}. Expected {}{}.", PathOf(key), is, reason, ExpectedOf(key), hint);
}

Refusal AssignInteger(const Key& key, const TomlValue& value, int64_t* field) {
  int64_t number = 0;
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    number = *integer;
  } else if (const auto* text = std::get_if<std::string>(&value); text != nullptr && key.is_size) {
    const std::expected<int64_t, std::string> size = ParseSize(*text);
    if (!size) return Sentence(key, Shown(*text), size.error());
    number = *size;
  } else {
    return Sentence(key, NameOf(value), "");
  }
  const bool derives = number == 0 && !key.derived.empty();
  if (!derives && (number < key.min || number > key.max)) return Sentence(key, NameOf(value), "");
  *field = number;
  return std::nullopt;
}

Refusal AssignSwitch(const Key& key, const TomlValue& value, bool* field) {
  const auto* on = std::get_if<bool>(&value);
  if (on == nullptr) return Sentence(key, NameOf(value), "");
  *field = *on;
  return std::nullopt;
}

Refusal AssignRatio(const Key& key, const TomlValue& value, double* field) {
  double ratio = -1;
  if (const auto* number = std::get_if<double>(&value)) ratio = *number;
  // All or nothing may be written without a point.
  if (const auto* whole = std::get_if<int64_t>(&value)) ratio = static_cast<double>(*whole);
  if (!(ratio >= 0.0 && ratio <= 1.0)) return Sentence(key, NameOf(value), "");
  *field = ratio;
  return std::nullopt;
}

Refusal CheckText(const Key& key, const std::string& text) {
  const bool has_control = std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
  if (has_control) return Sentence(key, Shown(text), "it holds a control character");
  if (text.empty() && !key.derived.empty()) return std::nullopt;
  if (const std::optional<std::string> why = key.check(text)) {
    return Sentence(key, Shown(text), *why);
  }
  return std::nullopt;
}

Refusal AssignText(const Key& key, const TomlValue& value, std::string* field) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) {
    const bool is_number = std::holds_alternative<int64_t>(value);
    return Sentence(key, NameOf(value), is_number ? "a text stands in quotes" : "");
  }
  if (Refusal refusal = CheckText(key, *text)) return refusal;
  *field = *text;
  return std::nullopt;
}

Refusal AssignTextList(const Key& key, const TomlValue& value, std::vector<std::string>* field) {
  const auto* texts = std::get_if<std::vector<std::string>>(&value);
  if (texts == nullptr) {
    const bool is_text = std::holds_alternative<std::string>(value);
    return Sentence(key, NameOf(value),
                    is_text ? "an array stands in brackets, such as [\"a\", \"b\"]" : "");
  }
  std::vector<std::string> sorted;
  for (const std::string& text : *texts) {
    if (Refusal refusal = CheckText(key, text)) return refusal;
    sorted.push_back(text);
  }
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) {
    return Sentence(key, "an array", fmt::format("it holds {} twice", Shown(*twice)));
  }
  *field = *texts;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> Assign(const Key& key, const TomlValue& value, Config* config) {
  if (const auto* field = std::get_if<IntegerField>(&key.field)) {
    return AssignInteger(key, value, &(*field)(*config));
  }
  if (const auto* field = std::get_if<SwitchField>(&key.field)) {
    return AssignSwitch(key, value, &(*field)(*config));
  }
  if (const auto* field = std::get_if<RatioField>(&key.field)) {
    return AssignRatio(key, value, &(*field)(*config));
  }
  if (const auto* field = std::get_if<TextField>(&key.field)) {
    return AssignText(key, value, &(*field)(*config));
  }
  return AssignTextList(key, value, &std::get<TextListField>(key.field)(*config));
}

}  // namespace dovetail::config
