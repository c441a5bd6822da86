// A second decoder of the Java client's 64-bit Roaring bitmaps, written apart from the first to
// check it: slow, plain, and it expands every id.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dovetail::golden {

// An independent decoder, slow and plain: it expands every id. Nothing when the bytes are not
// valid.
class SlowDecoder {
 public:
  // All ids in unsigned order; nothing when the bytes are not valid.
  static std::optional<std::vector<uint64_t>> Decode(const std::string& bytes) {
    SlowDecoder decoder(bytes);
    if (!decoder.All() || decoder.position_ != bytes.size()) return std::nullopt;
    std::ranges::sort(decoder.ids_);
    return decoder.ids_;
  }

 private:
  explicit SlowDecoder(const std::string& bytes) : bytes_(bytes) {}

  bool Take(int count, bool big_endian, uint64_t& value) {
    value = 0;
    if (bytes_.size() - position_ < static_cast<size_t>(count)) return false;
    for (int i = 0; i < count; ++i) {
      const uint64_t byte = static_cast<uint8_t>(bytes_[position_++]);
      value |= byte << (8 * (big_endian ? count - 1 - i : i));
    }
    return true;
  }

  bool All() {
    uint64_t flag = 0;
    uint64_t count = 0;
    if (!Take(1, true, flag) || flag > 1 || !Take(4, true, count)) return false;
    std::optional<int64_t> previous;
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t high = 0;
      if (!Take(4, true, high)) return false;
      const int64_t ordered =
          flag == 1 ? int64_t{static_cast<int32_t>(high)} : static_cast<int64_t>(high);
      if (previous && ordered <= *previous) return false;
      previous = ordered;
      if (!Word(high << 32)) return false;
    }
    return true;
  }

  bool Word(uint64_t high) {
    const size_t start = position_;
    uint64_t cookie = 0;
    uint64_t count = 0;
    if (!Take(4, false, cookie)) return false;
    std::vector<uint64_t> run_flags;
    if (cookie % 65536 == 12347) {
      count = cookie / 65536 + 1;
      run_flags.resize((count + 7) / 8);
      for (uint64_t& flags : run_flags) {
        if (!Take(1, false, flags)) return false;
      }
    } else if (cookie != 12346 || !Take(4, false, count) || count > 65536) {
      return false;
    }
    std::vector<std::pair<uint64_t, uint64_t>> keys(count);
    for (auto& [key, cardinality] : keys) {
      if (!Take(2, false, key) || !Take(2, false, cardinality)) return false;
    }
    std::vector<uint64_t> offsets(run_flags.empty() || count >= 4 ? count : 0);
    for (uint64_t& offset : offsets) {
      if (!Take(4, false, offset)) return false;
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (i > 0 && keys[i].first <= keys[i - 1].first) return false;
      if (!offsets.empty() && offsets[i] != position_ - start) return false;
      const bool run = !run_flags.empty() && (run_flags[i / 8] >> (i % 8) & 1) != 0;
      if (!Values(high | keys[i].first << 16, keys[i].second + 1, run)) return false;
    }
    return true;
  }

  // The ids of one container must ascend and be as many as was said.
  bool Values(uint64_t upper, uint64_t cardinality, bool run) {
    std::vector<uint64_t> values;
    if (run) {
      uint64_t runs = 0;
      if (!Take(2, false, runs)) return false;
      for (uint64_t i = 0; i < runs; ++i) {
        uint64_t start = 0;
        uint64_t more = 0;
        if (!Take(2, false, start) || !Take(2, false, more) || start + more > 65535) return false;
        for (uint64_t value = start; value <= start + more; ++value) values.push_back(value);
      }
    } else if (cardinality <= 4096) {
      values.resize(cardinality);
      for (uint64_t& value : values) {
        if (!Take(2, false, value)) return false;
      }
    } else {
      for (uint64_t i = 0; i < 8192; ++i) {
        uint64_t bits = 0;
        if (!Take(1, false, bits)) return false;
        for (uint64_t bit = 0; bit < 8; ++bit) {
          if ((bits >> bit & 1) != 0) values.push_back(8 * i + bit);
        }
      }
    }
    if (values.size() != cardinality) return false;
    for (size_t i = 1; i < values.size(); ++i) {
      if (values[i] <= values[i - 1]) return false;
    }
    for (const uint64_t value : values) ids_.push_back(upper | value);
    return true;
  }

  const std::string& bytes_;
  size_t position_ = 0;
  std::vector<uint64_t> ids_;
};

}  // namespace dovetail::golden
