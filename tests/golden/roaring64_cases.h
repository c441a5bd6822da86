// Reads tests/golden/roaring64_legacy.txt: what the Java client's own classes made of known sets of
// ids (see GoldenBitmaps.java), and the ids themselves, made anew from the recipe of each case.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::golden {

struct BitmapCase {
  std::string name;
  std::string flags;  // "-", "runs", "signed" or "runs,signed"
  std::string recipe;
  int64_t cardinality = 0;
  size_t size = 0;    // of the bytes
  uint64_t hash = 0;  // of the bytes
  std::string bytes;  // empty when the case gives only size and hash

  bool Runs() const { return flags.starts_with("runs"); }
  bool Signed() const { return flags.ends_with("signed"); }
};

inline uint64_t Fnv1a64(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return hash;
}

inline std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

inline std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// Throws std::exception on a recipe that it does not know (a broken file fails the test).
inline std::vector<int64_t> IdsOf(const std::string& recipe) {
  std::vector<int64_t> ids;
  for (const std::string& part : Split(recipe, '+')) {
    const std::vector<std::string> words = Split(part, ' ');
    if (words.at(0) == "list") {
      for (size_t i = 1; i < words.size(); ++i) {
        for (const std::string& id : Split(words[i], ',')) ids.push_back(std::stoll(id));
      }
    } else if (words.at(0) == "range") {
      const int64_t first = std::stoll(words.at(1));
      const int64_t step = std::stoll(words.at(3));
      for (int64_t i = 0; i < std::stoll(words.at(2)); ++i) ids.push_back(first + i * step);
    } else if (words.at(0) == "spark") {
      const std::vector<std::string> bits = Split(words.at(1), '/');
      const int64_t partition_shift = std::stoll(bits.at(2));
      const int64_t sequence_shift = partition_shift + std::stoll(bits.at(1));
      const int64_t partition = std::stoll(words.at(2));
      const int64_t sequences = std::stoll(words.at(3));
      for (int64_t task = 0; task < std::stoll(words.at(4)); ++task) {
        for (int64_t sequence = 0; sequence < sequences; ++sequence) {
          ids.push_back(sequence << sequence_shift | partition << partition_shift |
                        task * std::stoll(words.at(5)));
        }
      }
    } else {
      throw std::invalid_argument("no such recipe: " + recipe);
    }
  }
  return ids;
}

// All cases of the file; none when it cannot be read. source_root: the checkout.
inline std::vector<BitmapCase> ReadBitmapCases(const std::filesystem::path& source_root) {
  std::vector<BitmapCase> cases;
  std::ifstream in(source_root / "tests/golden/roaring64_legacy.txt");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    const std::vector<std::string> fields = Split(line, '|');
    BitmapCase one{.name = fields.at(0),
                   .flags = fields.at(1),
                   .recipe = fields.at(2),
                   .cardinality = std::stoll(fields.at(3)),
                   .size = std::stoul(fields.at(4)),
                   .hash = std::stoull(fields.at(5), nullptr, 16),
                   .bytes = {}};
    if (fields.at(6) != "-") one.bytes = FromHex(fields.at(6));
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace dovetail::golden
