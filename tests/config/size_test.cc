#include "config/size.h"

#include <gtest/gtest.h>

#include <limits>

namespace dovetail::config {
namespace {

TEST(Size, UnitsArePowersOf1024WithAnySpelling) {
  constexpr int64_t kThreeG = 3LL << 30;
  for (const char* text : {"3G", "3GB", "3GiB", "3g", "3gib", " 3 G ", "3145728K", "3072M"}) {
    EXPECT_EQ(ParseSize(text).value_or(-1), kThreeG) << text;
  }
  EXPECT_EQ(ParseSize("2T").value_or(-1), 2LL << 40);
  EXPECT_EQ(ParseSize("17").value_or(-1), 17);
  EXPECT_EQ(ParseSize("17B").value_or(-1), 17);
  EXPECT_EQ(ParseSize("0").value_or(-1), 0);
}

TEST(Size, RefusesWhatIsNone) {
  for (const char* text : {"", "G", "3Q", "3Gi", "3GG", "G3", "3G3", "-", "0x10", "+3G", "3iB"}) {
    EXPECT_FALSE(ParseSize(text).has_value()) << text;
  }
  EXPECT_FALSE(ParseSize("-1G").has_value());
}

TEST(Size, RefusesAFractionAndSaysHowToWriteIt) {
  const auto size = ParseSize("1.5G");
  ASSERT_FALSE(size.has_value());
  EXPECT_NE(size.error().find("1536M"), std::string::npos) << size.error();
}

TEST(Size, RefusesOverflowAndTakesTheLargest) {
  for (const char* text :
       {"8388608T", "9999999999G", "9223372036854775808", "99999999999999999999G"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size.has_value()) << text;
    EXPECT_NE(size.error().find("too large"), std::string::npos) << size.error();
  }
  EXPECT_EQ(ParseSize("8388607T").value_or(-1), 8388607LL << 40);
  EXPECT_EQ(ParseSize("9223372036854775807").value_or(-1), std::numeric_limits<int64_t>::max());
}

TEST(Size, FormatsExactlyInTheLargestUnit) {
  EXPECT_EQ(FormatSize(0), "0");
  EXPECT_EQ(FormatSize(1023), "1023");
  EXPECT_EQ(FormatSize(1024), "1K");
  EXPECT_EQ(FormatSize(1536LL << 20), "1536M");
  EXPECT_EQ(FormatSize(1LL << 50), "1024T");
  for (const int64_t bytes : {1LL, 4096LL, 123456789LL, 5LL << 30, (5LL << 30) + 1}) {
    EXPECT_EQ(ParseSize(FormatSize(bytes)).value_or(-1), bytes);
  }
}

}  // namespace
}  // namespace dovetail::config
