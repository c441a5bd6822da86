#include "tests/config/reference.h"

#include <fmt/format.h>

#include <sstream>

#include "config/key_table.h"

namespace dovetail::config {
namespace {

constexpr const char* kHead =
    "Configuration of dovetaild: every key with its default. A key that is left out has its "
    "default. Times carry their unit in the name. Sizes are whole numbers of bytes, or texts with "
    "K, M, G or T in powers of 1024, such as \"3G\" or \"3GiB\". docs/configuration.md has the "
    "whole story.";

// Text as comment lines of at most 100 columns.
std::string Comment(const std::string& text) {
  std::string lines;
  std::string line = "#";
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > 100) {
      lines += line;
      lines += '\n';
      line.assign(1, '#');
    }
    line += ' ';
    line += word;
  }
  return fmt::format("{}{}\n", lines, line);
}

std::string Capitalised(std::string text) {
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string WhenLeftOut(const Key& key) {
  const bool is_number = std::holds_alternative<IntegerField>(key.field);
  return fmt::format("{} or left out: {}", is_number ? "0" : "empty", key.derived);
}

// What the key takes, in one phrase.
std::string Values(const Key& key) {
  return key.derived.empty() ? ExpectedOf(key)
                             : fmt::format("{}; {}", ExpectedOf(key), WhenLeftOut(key));
}

}  // namespace

std::string ReferenceToml() {
  std::string text = Comment(kHead);
  std::string_view section;
  for (const Key& key : Keys()) {
    if (key.section != section) {
      section = key.section;
      text += fmt::format("\n[{}]\n", section);
    }
    text += fmt::format("\n{}{}", Comment(std::string(key.meaning)),
                        Comment(Capitalised(Values(key)) + "."));
    // What the machine decides stays a comment, so that the shipped file fits every machine.
    text += fmt::format("{}{} = {}\n", key.derived.empty() ? "" : "# ", key.name,
                        ValueText(key, Config()));
  }
  return text;
}

std::string ReferenceTable() {
  std::string text = "| key | default | value | meaning |\n| --- | --- | --- | --- |\n";
  for (const Key& key : Keys()) {
    text += fmt::format("| `{}` | `{}` | {} | {} |\n", PathOf(key), ValueText(key, Config()),
                        Values(key), key.meaning);
  }
  return text;
}

}  // namespace dovetail::config
