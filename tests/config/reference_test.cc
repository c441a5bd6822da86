// config/dovetail.toml and the table of docs/configuration.md say what the code does.
#include "tests/config/reference.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "config/loader.h"
#include "tests/config/scratch_folder.h"

namespace dovetail::config {
namespace {

constexpr const char* kShippedFile = DOVETAIL_SOURCE_DIR "/config/dovetail.toml";
constexpr const char* kDocument = DOVETAIL_SOURCE_DIR "/docs/configuration.md";
constexpr std::string_view kTableHead = "| key | default | value | meaning |\n";

bool Updates() { return std::getenv("DOVETAIL_UPDATE_REFERENCE") != nullptr; }

// Where the table of keys stands in the document: from its head to the first line that is no row.
struct Range {
  size_t begin = std::string::npos;
  size_t end = std::string::npos;
};

Range TableIn(const std::string& document) {
  const size_t begin = document.find(kTableHead);
  if (begin == std::string::npos) return {};
  size_t end = begin;
  while (end < document.size() && document[end] == '|') end = document.find('\n', end) + 1;
  return {begin, end};
}

TEST(Reference, ShippedFileIsWhatTheTableOfKeysSays) {
  if (Updates()) std::ofstream(kShippedFile) << ReferenceToml();
  EXPECT_EQ(ReadText(kShippedFile), ReferenceToml());
}

TEST(Reference, TableOfTheDocumentIsWhatTheTableOfKeysSays) {
  std::string document = ReadText(kDocument);
  const Range range = TableIn(document);
  ASSERT_NE(range.begin, std::string::npos);
  if (Updates()) {
    document.replace(range.begin, range.end - range.begin, ReferenceTable());
    std::ofstream(kDocument) << document;
  }
  const Range now = TableIn(document);
  EXPECT_EQ(document.substr(now.begin, now.end - now.begin), ReferenceTable());
}

TEST(Reference, ShippedFileLoadsAndSetsEveryDefault) {
  const auto shipped = Load(kShippedFile, {});
  ASSERT_TRUE(shipped.has_value()) << shipped.error()[0];
  const auto nothing = Load({}, {});
  ASSERT_TRUE(nothing.has_value()) << nothing.error()[0];
  for (size_t i = 0; i < Keys().size(); ++i) {
    const Key& key = Keys()[i];
    EXPECT_EQ(ValueText(key, shipped->config), ValueText(key, nothing->config)) << PathOf(key);
    const bool set_by_file =
        shipped->settings[i].source.find("dovetail.toml:") != std::string::npos;
    EXPECT_EQ(set_by_file, key.derived.empty()) << PathOf(key);
  }
}

TEST(Reference, CommentedOutKeysOfTheShippedFileCanBeTakenIn) {
  std::istringstream lines(ReadText(kShippedFile));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    for (const Key& key : Keys()) {
      if (line.starts_with("# " + std::string(key.name) + " = ")) line.erase(0, 2);
    }
    text += line + "\n";
  }
  const ScratchFolder folder;
  const auto loaded = Load(folder.Write("all.toml", text), {});
  ASSERT_TRUE(loaded.has_value()) << loaded.error()[0];
  EXPECT_GE(loaded->config.store.memory.capacity_bytes, 1 << 20);
}

TEST(Reference, DocumentNamesEveryExitCode) {
  const std::string document = ReadText(kDocument);
  for (const char* row : {"| 0 |", "| 1 |", "| 2 |", "| 3 |", "| 4 |", "| 5 |"}) {
    EXPECT_NE(document.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace dovetail::config
