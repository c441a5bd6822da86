#include "storage/task_filter.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <expected>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace dovetail::storage {
namespace {

constexpr uint32_t kCookieNoRuns = 12346;
constexpr uint32_t kCookieRuns = 12347;  // in the low 16 bits; the container count - 1 is above
constexpr uint32_t kContainerValues = 1U << 16;  // one for each value of a 16-bit key
constexpr uint32_t kNoOffsetsBelow = 4;  // with runs, fewer containers than this have no offsets
constexpr uint32_t kArrayCardinalityMax = 4096;  // more values than this are written as a bitset
constexpr size_t kBitsetBytes = 8192;
constexpr size_t kRunBytes = 4;
constexpr size_t kBitmapBytesMin = 8;                  // cookie and count
constexpr size_t kWordBytesMin = 4 + kBitmapBytesMin;  // with the high word before it

// Unaligned; the caller has checked that the bytes are there.
uint16_t LoadLittle16(std::string_view bytes, size_t position) {
  uint16_t value;
  std::memcpy(&value, bytes.data() + position, sizeof(value));
  return value;
}

uint32_t LoadLittle32(std::string_view bytes, size_t position) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + position, sizeof(value));
  return value;
}

uint32_t LoadBig32(std::string_view bytes, size_t position) {
  return __builtin_bswap32(LoadLittle32(bytes, position));
}

static_assert(std::endian::native == std::endian::little);

// Where the parts of one 32-bit bitmap are; positions count from its first byte.
struct Header {
  uint32_t containers = 0;
  bool has_runs = false;
  size_t run_flags = 0;  // one bit per container; only with has_runs
  size_t keys = 0;       // 16-bit key, 16-bit cardinality - 1, per container
  size_t offsets = 0;    // 32-bit position per container, when has_offsets
  bool has_offsets = false;
  size_t data = 0;  // the first container

  bool IsRun(std::string_view bitmap, uint32_t i) const {
    return has_runs && (static_cast<uint8_t>(bitmap[run_flags + i / 8]) >> (i % 8) & 1) != 0;
  }
  uint16_t Key(std::string_view bitmap, uint32_t i) const {
    return LoadLittle16(bitmap, keys + 4 * size_t{i});
  }
  uint32_t Cardinality(std::string_view bitmap, uint32_t i) const {
    return uint32_t{LoadLittle16(bitmap, keys + 4 * size_t{i} + 2)} + 1;
  }
};

// bitmap has at least kBitmapBytesMin bytes. Nothing when it is too short for what those claim.
std::optional<Header> ReadHeader(std::string_view bitmap) {
  const uint32_t cookie = LoadLittle32(bitmap, 0);
  Header header;
  size_t position = 4;
  if ((cookie & 0xFFFF) == kCookieRuns) {
    header.has_runs = true;
    header.containers = (cookie >> 16) + 1;
    header.run_flags = position;
    position += (header.containers + 7) / 8;
  } else if (cookie == kCookieNoRuns) {
    header.containers = LoadLittle32(bitmap, 4);
    position += 4;
  } else {
    return std::nullopt;
  }
  header.keys = position;
  position += 4 * size_t{header.containers};
  header.has_offsets = !header.has_runs || header.containers >= kNoOffsetsBelow;
  header.offsets = position;
  if (header.has_offsets) position += 4 * size_t{header.containers};
  header.data = position;
  if (position > bitmap.size()) return std::nullopt;
  return header;
}

// Each of the next three checks the container at the front of rest and returns its size in bytes.
std::optional<size_t> CheckRuns(std::string_view rest, uint32_t cardinality) {
  if (rest.size() < 2) return std::nullopt;
  const size_t runs = LoadLittle16(rest, 0);
  const size_t bytes = 2 + runs * kRunBytes;
  if (bytes > rest.size()) return std::nullopt;
  uint32_t free_from = 0;  // the lowest value that the next run may start with
  uint32_t values = 0;
  for (size_t i = 0; i < runs; ++i) {
    const uint32_t start = LoadLittle16(rest, 2 + i * kRunBytes);
    const uint32_t length = uint32_t{LoadLittle16(rest, 4 + i * kRunBytes)} + 1;
    // Runs that touch are not what a writer makes, but their meaning is clear and Java takes them.
    if (start < free_from || start + length > kContainerValues) return std::nullopt;
    free_from = start + length;
    values += length;
  }
  if (values != cardinality) return std::nullopt;
  return bytes;
}

std::optional<size_t> CheckArray(std::string_view rest, uint32_t cardinality) {
  const size_t bytes = size_t{cardinality} * 2;
  if (bytes > rest.size()) return std::nullopt;
  for (size_t i = 2; i < bytes; i += 2) {
    if (LoadLittle16(rest, i) <= LoadLittle16(rest, i - 2)) return std::nullopt;
  }
  return bytes;
}

std::optional<size_t> CheckBitset(std::string_view rest, uint32_t cardinality) {
  if (kBitsetBytes > rest.size()) return std::nullopt;
  uint32_t values = 0;
  for (size_t i = 0; i < kBitsetBytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, rest.data() + i, sizeof(word));
    values += static_cast<uint32_t>(std::popcount(word));
  }
  if (values != cardinality) return std::nullopt;
  return kBitsetBytes;
}

// Checks the 32-bit bitmap at the front of bitmap (at least kBitmapBytesMin bytes) and returns its
// size in bytes.
std::optional<size_t> CheckBitmap(std::string_view bitmap) {
  const std::optional<Header> header = ReadHeader(bitmap);
  if (!header) return std::nullopt;
  size_t position = header->data;
  for (uint32_t i = 0; i < header->containers; ++i) {
    if (i > 0 && header->Key(bitmap, i) <= header->Key(bitmap, i - 1)) return std::nullopt;
    // Contains trusts the offsets, so each must be where the container really is.
    if (header->has_offsets && LoadLittle32(bitmap, header->offsets + 4 * size_t{i}) != position) {
      return std::nullopt;
    }
    const std::string_view rest = bitmap.substr(position);
    const uint32_t cardinality = header->Cardinality(bitmap, i);
    std::optional<size_t> bytes;
    if (header->IsRun(bitmap, i)) {
      bytes = CheckRuns(rest, cardinality);
    } else if (cardinality <= kArrayCardinalityMax) {
      bytes = CheckArray(rest, cardinality);
    } else {
      bytes = CheckBitset(rest, cardinality);
    }
    if (!bytes) return std::nullopt;
    position += *bytes;
  }
  return position;
}

// Everything below reads what CheckBitmap has accepted.

// The number of elements that are at most value, among count 16-bit ones that are stride bytes
// apart, ascending.
uint32_t UpperBound(std::string_view bytes, size_t position, uint32_t count, size_t stride,
                    uint16_t value) {
  uint32_t low = 0;
  uint32_t high = count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (LoadLittle16(bytes, position + stride * middle) <= value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

size_t ContainerPosition(std::string_view bitmap, const Header& header, uint32_t container) {
  if (header.has_offsets) return LoadLittle32(bitmap, header.offsets + 4 * size_t{container});
  size_t position = header.data;  // at most kNoOffsetsBelow steps
  for (uint32_t i = 0; i < container; ++i) {
    const uint32_t cardinality = header.Cardinality(bitmap, i);
    if (header.IsRun(bitmap, i)) {
      position += 2 + LoadLittle16(bitmap, position) * kRunBytes;
    } else {
      position += cardinality <= kArrayCardinalityMax ? size_t{cardinality} * 2 : kBitsetBytes;
    }
  }
  return position;
}

bool BitmapContains(std::string_view bitmap, uint32_t low_word) {
  const Header header = *ReadHeader(bitmap);
  const auto key = static_cast<uint16_t>(low_word >> 16);
  const auto value = static_cast<uint16_t>(low_word);
  uint32_t container = UpperBound(bitmap, header.keys, header.containers, 4, key);
  if (container == 0 || header.Key(bitmap, --container) != key) return false;

  const size_t position = ContainerPosition(bitmap, header, container);
  if (header.IsRun(bitmap, container)) {
    const uint32_t run =
        UpperBound(bitmap, position + 2, LoadLittle16(bitmap, position), kRunBytes, value);
    if (run == 0) return false;
    const size_t at = position + 2 + (run - 1) * kRunBytes;
    return value - LoadLittle16(bitmap, at) <= LoadLittle16(bitmap, at + 2);
  }
  const uint32_t cardinality = header.Cardinality(bitmap, container);
  if (cardinality <= kArrayCardinalityMax) {
    const uint32_t end = UpperBound(bitmap, position, cardinality, 2, value);
    return end > 0 && LoadLittle16(bitmap, position + size_t{end - 1} * 2) == value;
  }
  return (static_cast<uint8_t>(bitmap[position + value / 8]) >> (value % 8) & 1) != 0;
}

}  // namespace

Result<TaskFilter> TaskFilter::Parse(std::string bytes) {
  const auto invalid = Fail(ErrorCode::kInvalid, "TaskFilter::Parse");
  const std::string_view all = bytes;
  if (all.size() < 5 || all.size() > std::numeric_limits<uint32_t>::max()) return invalid;
  const auto signed_order = static_cast<uint8_t>(all[0]);
  if (signed_order > 1) return invalid;
  const uint32_t count = LoadBig32(all, 1);
  size_t position = 5;
  if (count > (all.size() - position) / kWordBytesMin) return invalid;

  // What turns the order that the flag names into the order of unsigned numbers.
  const uint32_t flip = signed_order == 1 ? 1U << 31 : 0;
  TaskFilter filter;
  filter.words_.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (all.size() - position < kWordBytesMin) return invalid;
    const uint32_t high = LoadBig32(all, position);
    position += 4;
    if (i > 0 && (high ^ flip) <= (filter.words_.back().high ^ flip)) return invalid;
    filter.words_.push_back({high, static_cast<uint32_t>(position)});
    const std::optional<size_t> size = CheckBitmap(all.substr(position));
    if (!size) return invalid;
    position += *size;
  }
  if (position != all.size()) return invalid;
  if (signed_order == 1) std::ranges::sort(filter.words_, {}, &Word::high);
  filter.bytes_ = std::move(bytes);
  return filter;
}

bool TaskFilter::Contains(int64_t task_attempt_id) const {
  const auto id = static_cast<uint64_t>(task_attempt_id);
  const auto high = static_cast<uint32_t>(id >> 32);
  const auto word = std::ranges::lower_bound(words_, high, {}, &Word::high);
  if (word == words_.end() || word->high != high) return false;
  return BitmapContains(std::string_view(bytes_).substr(word->position), static_cast<uint32_t>(id));
}

}  // namespace dovetail::storage
