// Writes 64-bit Roaring bitmaps in the Java client's legacy form part by part, right or wrong, for
// tests of whoever must read them. Every function is pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dovetail::golden {

inline void AppendLittle(uint64_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

inline void AppendBig(uint64_t value, int bytes, std::string& out) {
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// One container as it will be written, right or wrong.
struct Part {
  uint16_t key = 0;
  uint32_t cardinality = 0;
  bool run = false;
  std::string data;
};

inline Part Array(uint16_t key, const std::vector<uint16_t>& values) {
  Part part{key, static_cast<uint32_t>(values.size()), false, {}};
  for (const uint16_t value : values) AppendLittle(value, 2, part.data);
  return part;
}

// Runs as {first, last}.
inline Part Runs(uint16_t key, const std::vector<std::pair<int, int>>& runs) {
  Part part{key, 0, true, {}};
  AppendLittle(runs.size(), 2, part.data);
  for (const auto& [first, last] : runs) {
    AppendLittle(static_cast<uint64_t>(first), 2, part.data);
    AppendLittle(static_cast<uint64_t>(last - first), 2, part.data);
    part.cardinality += static_cast<uint32_t>(last - first + 1);
  }
  return part;
}

inline Part Bitset(uint16_t key, const std::vector<uint16_t>& values) {
  Part part{key, static_cast<uint32_t>(values.size()), false, std::string(8192, '\0')};
  for (const uint16_t value : values) {
    part.data[value / 8] = static_cast<char>(part.data[value / 8] | 1 << (value % 8));
  }
  return part;
}

inline std::vector<uint16_t> Every(int step, int count) {
  std::vector<uint16_t> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<uint16_t>(i * step));
  return values;
}

// A 32-bit bitmap of these containers, with the run cookie when one of them is a run or when asked
// to.
inline std::string Bitmap32(const std::vector<Part>& parts, bool run_cookie = false) {
  for (const Part& part : parts) run_cookie |= part.run;
  std::string out;
  if (run_cookie) {
    AppendLittle(12347 | (parts.size() - 1) << 16, 4, out);
    std::string flags((parts.size() + 7) / 8, '\0');
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].run) flags[i / 8] = static_cast<char>(flags[i / 8] | 1 << (i % 8));
    }
    out += flags;
  } else {
    AppendLittle(12346, 4, out);
    AppendLittle(parts.size(), 4, out);
  }
  for (const Part& part : parts) {
    AppendLittle(part.key, 2, out);
    AppendLittle(part.cardinality - 1, 2, out);
  }
  if (!run_cookie || parts.size() >= 4) {
    size_t position = out.size() + 4 * parts.size();
    for (const Part& part : parts) {
      AppendLittle(position, 4, out);
      position += part.data.size();
    }
  }
  for (const Part& part : parts) out += part.data;
  return out;
}

inline std::string Bitmap64(const std::vector<std::pair<uint32_t, std::string>>& words,
                            char flag = 0) {
  std::string out(1, flag);
  AppendBig(words.size(), 4, out);
  for (const auto& [high, bitmap] : words) {
    AppendBig(high, 4, out);
    out += bitmap;
  }
  return out;
}

inline std::string OneWord(const std::vector<Part>& parts) {
  return Bitmap64({{0, Bitmap32(parts)}});
}

}  // namespace dovetail::golden
