// Configuration text is read before anything else and may be any bytes: each is answered with a
// problem or a document, never with a crash, an exception or a hang. The sanitizer builds give
// these tests their teeth.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "config/text_check.h"
#include "config/toml_text.h"
#include "tests/config/scratch_folder.h"

namespace dovetail::config {
namespace {

using namespace std::string_literals;

std::string Shipped() { return ReadText(DOVETAIL_SOURCE_DIR "/config/dovetail.toml"); }

// begin, then part again and again.
std::string Repeat(std::string begin, std::string_view part, size_t times) {
  std::string text = std::move(begin);
  for (size_t i = 0; i < times; ++i) text += part;
  return text;
}

TEST(HostileText, TooLargeIsRefusedUnread) {
  const auto document = ParseToml(std::string(kTomlBytesMax + 1, '\n'));
  ASSERT_FALSE(document.has_value());
  EXPECT_FALSE(document.error().is_syntax);
  EXPECT_TRUE(ParseToml(std::string(kTomlBytesMax, '\n')).has_value());
}

TEST(HostileText, DeepNestingIsRefusedBeforeTheParserRecurses) {
  for (const char* part : {"[", "{a=", "[[", "[{a=[", "[\n", "[ \"]\", "}) {
    const auto document = ParseToml(Repeat("a = ", part, 20'000));
    ASSERT_FALSE(document.has_value()) << part;
    EXPECT_FALSE(document.error().is_syntax) << part;
  }
  const auto dots = ParseToml(Repeat("a", ".a", 60'000) + " = 1");
  ASSERT_FALSE(dots.has_value());
  EXPECT_FALSE(dots.error().is_syntax);
}

TEST(HostileText, BytesThatAreNotUtf8AreRefusedWithTheirPlace) {
  for (const std::string& bytes :
       {"\x80"s, "\xc1\x81"s, "\xe0\x81\x81"s, "\xed\xa0\x80"s, "\xf0\x81\x81\x81"s,
        "\xf4\x90\x80\x80"s, "\xf5\x81\x81\x81"s, "\xc3"s, "\xe2\x82"s, "\xf0\x9f\x98"s, "\xff"s}) {
    const std::string line = "'" + bytes + "' = 1";
    const auto document = ParseToml("a = 1\n " + line);
    ASSERT_FALSE(document.has_value());
    EXPECT_FALSE(document.error().is_syntax);
    EXPECT_EQ(document.error().place.line, 2u);
    EXPECT_EQ(document.error().place.column, 3u);
  }
  const auto document =
      ParseToml("a = 'caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80' # \xed\x9f\xbf\n");
  ASSERT_TRUE(document.has_value()) << document.error().what;
}

TEST(HostileText, ControlCharactersAreRefusedWithTheirPlace) {
  for (const std::string& byte : {"\0"s, "\x01"s, "\x1b"s, "\x7f"s, "\r"s}) {
    const auto document = ParseToml("a = 1 # \t\r\n#" + byte + "x\n");
    ASSERT_FALSE(document.has_value());
    EXPECT_FALSE(document.error().is_syntax);
    EXPECT_EQ(document.error().place.line, 2u);
    EXPECT_EQ(document.error().place.column, 2u);
  }
}

TEST(HostileText, NestingUpToTheLimitIsAnswered) {
  EXPECT_TRUE(ParseToml(Repeat(Repeat("a = ", "[", 100), "]", 100)).has_value());
  EXPECT_TRUE(ParseToml(Repeat(Repeat("a = ", "{a=", 100) + "1", "}", 100)).has_value());
  EXPECT_TRUE(ParseToml(Repeat("a", ".a", 399) + " = 1").has_value());
  EXPECT_TRUE(ParseToml(Repeat(Repeat("[a", ".a", 399) + "]\nb", ".b", 399) + " = 1").has_value());
}

TEST(HostileText, KeysBelowAnEmptyArrayAreAProblem) {
  EXPECT_FALSE(ParseToml("tags = []\n[tags.x]\ny = 1\n").has_value());
  EXPECT_FALSE(ParseToml("tags = []\ntags.x = 1\n").has_value());
  EXPECT_FALSE(ParseToml("[a]\ntags = []\n[[a.tags]]\n").has_value());
}

TEST(HostileText, EveryPrefixOfTheShippedFileIsAnswered) {
  const std::string text = Shipped();
  for (size_t length = 0; length < text.size(); length += 37) {
    const auto document = ParseToml(text.substr(0, length));
    if (!document) {
      EXPECT_FALSE(document.error().what.empty()) << length;
    }
  }
}

// What means something in TOML, so that most damage gets past CheckText and to the parser.
constexpr std::string_view kTomlMarks = "\n\"\"''[]{}==..,,#\\_-+0xobeEinft:TZuU9\t a";

TEST(HostileText, DamagedFilesAreAnswered) {
  const std::string text = Shipped();
  std::mt19937 random(20010);
  for (int round = 0; round < 1500; ++round) {
    // A piece of the file, so that the damage is a large part of what is read.
    const size_t begin = random() % text.size();
    std::string damaged = text.substr(begin, 1 + random() % 300);
    for (int hits = 1 + static_cast<int>(random() % 8); hits > 0; --hits) {
      damaged[random() % damaged.size()] = kTomlMarks[random() % kTomlMarks.size()];
    }
    const auto document = ParseToml(damaged);
    if (!document) {
      EXPECT_FALSE(document.error().what.empty()) << damaged;
    }
  }
}

TEST(HostileText, ArbitraryLinesAndValuesAreAnswered) {
  std::mt19937 random(19999);
  for (int round = 0; round < 1500; ++round) {
    std::string text(random() % 24, '\0');
    for (char& c : text) c = kTomlMarks[random() % kTomlMarks.size()];
    const auto value = ParseTomlValue(text);
    if (!value) {
      EXPECT_FALSE(value.error().what.empty()) << text;
    }
    const auto document = ParseToml(text);
    if (!document) {
      EXPECT_FALSE(document.error().what.empty()) << text;
    }
  }
}

TEST(HostileText, ArbitraryBytesAreAnswered) {
  std::mt19937 random(20000);
  for (int round = 0; round < 1500; ++round) {
    std::string text(random() % 24, '\0');
    for (char& c : text) c = static_cast<char>(random());
    const auto document = ParseToml(text);
    if (!document) {
      EXPECT_FALSE(document.error().what.empty());
    }
  }
}

TEST(HostileText, AValueCannotBringKeysOfItsOwn) {
  EXPECT_FALSE(ParseTomlValue("1\ngrpc_port = 2").has_value());
  EXPECT_FALSE(ParseTomlValue("1\r\n[log]").has_value());
  EXPECT_FALSE(ParseTomlValue("").has_value());
}

TEST(HostileText, QuotedTextReadsBackAsItself) {
  for (const std::string& text : {std::string("plain"), std::string("a\"b\\c\td\ne"),
                                  std::string("\x01\x7f", 2), std::string()}) {
    const auto value = ParseTomlValue(QuoteToml(text));
    ASSERT_TRUE(value.has_value()) << QuoteToml(text);
    EXPECT_EQ(std::get<std::string>(*value), text);
  }
}

}  // namespace
}  // namespace dovetail::config
