#include "storage/block_bitmap.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/check.h"

namespace dovetail::storage {
namespace {

// What the allocator adds to each piece, and rounds up, on average.
constexpr int64_t kAllocationBytes = 16;
// A node of words_: links and color, key and bitmap.
constexpr int64_t kNodeBytes =
    4 * sizeof(void*) + sizeof(std::pair<const uint32_t, Roaring>) + kAllocationBytes;
// One slot in a bitmap's table of containers: pointer, key, type.
constexpr int64_t kSlotBytes = sizeof(void*) + sizeof(uint16_t) + sizeof(uint8_t);
constexpr int64_t kBitsetBytes = 8192;

// A copy to look for runs is worth its cost above this size (a few values cannot get much smaller),
// and must not double the memory of a giant: beyond it, bytes go out as they are.
constexpr size_t kRunsBytesMin = 64;
constexpr size_t kRunsBytesMax = 16 << 20;

uint32_t HighWord(uint64_t id) { return static_cast<uint32_t>(id >> 32); }
uint32_t LowWord(uint64_t id) { return static_cast<uint32_t>(id); }

struct Usage {
  int64_t values = 0;
  int64_t bytes = 0;
};

Usage OfContainer(const void* container, uint8_t type) {
  switch (type) {
    case ARRAY_CONTAINER_TYPE_CODE: {
      const auto* array = static_cast<const array_container_t*>(container);
      return {array->cardinality,
              static_cast<int64_t>(sizeof(*array) + sizeof(uint16_t) * array->capacity) +
                  2 * kAllocationBytes};
    }
    case BITSET_CONTAINER_TYPE_CODE: {
      const auto* bitset = static_cast<const bitset_container_t*>(container);
      return {bitset->cardinality,
              static_cast<int64_t>(sizeof(*bitset)) + kBitsetBytes + 2 * kAllocationBytes};
    }
    case RUN_CONTAINER_TYPE_CODE: {
      // Nobody asks for runs here, but a union that fills a container comes out as one.
      const auto* runs = static_cast<const run_container_t*>(container);
      Usage usage{0, static_cast<int64_t>(sizeof(*runs) + sizeof(rle16_t) * runs->capacity) +
                         2 * kAllocationBytes};
      for (int32_t i = 0; i < runs->n_runs; ++i) usage.values += runs->runs[i].length + 1;
      return usage;
    }
    default:
      DOVETAIL_CHECK(!"a block bitmap has no shared containers: copy-on-write is off");
      return {};
  }
}

// The table alone, without the containers.
int64_t TableBytes(const roaring_array_t& table) {
  return table.allocation_size * kSlotBytes + kAllocationBytes;
}

// The container that holds the values with these upper 16 bits; nothing when there is none.
Usage OfKey(const roaring_array_t& table, uint16_t key) {
  const int32_t i = ra_get_index(&table, key);
  if (i < 0) return {};
  return OfContainer(table.containers[i], table.typecodes[i]);
}

// A whole word: bitmap and node.
Usage OfWord(const roaring_array_t& table) {
  Usage sum{0, kNodeBytes + TableBytes(table)};
  for (int32_t i = 0; i < table.size; ++i) {
    const Usage container = OfContainer(table.containers[i], table.typecodes[i]);
    sum.values += container.values;
    sum.bytes += container.bytes;
  }
  return sum;
}

void AppendBig32(uint32_t value, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

void AppendPortable(const Roaring& bitmap, size_t bytes, std::string& out) {
  const size_t position = out.size();
  out.resize(position + bytes);
  DOVETAIL_CHECK(bitmap.write(out.data() + position) == bytes);
}

void AppendWord(uint32_t high, const Roaring& bitmap, std::string& out) {
  AppendBig32(high, out);
  const size_t bytes = bitmap.getSizeInBytes();
  if (bytes >= kRunsBytesMin && bytes <= kRunsBytesMax) {
    Roaring copy = bitmap;
    if (copy.runOptimize()) {
      AppendPortable(copy, copy.getSizeInBytes(), out);
      return;
    }
  }
  AppendPortable(bitmap, bytes, out);
}

}  // namespace

BlockBitmap& BlockBitmap::operator=(BlockBitmap&& other) noexcept {
  BlockBitmap taken(std::move(other));
  Swap(taken);
  return *this;
}

void BlockBitmap::Swap(BlockBitmap& other) noexcept {
  words_.swap(other.words_);
  std::swap(cardinality_, other.cardinality_);
  std::swap(memory_bytes_, other.memory_bytes_);
}

int64_t BlockBitmap::Add(std::span<const int64_t> block_ids) {
  // In unsigned order, so that ids of one container stand together and each container is looked up
  // once.
  std::vector<uint64_t> ids(block_ids.begin(), block_ids.end());
  if (!std::ranges::is_sorted(ids)) std::ranges::sort(ids);

  const int64_t before = cardinality_;
  std::vector<uint32_t> low_words;
  auto word = words_.end();
  for (size_t i = 0; i < ids.size();) {
    const uint32_t high = HighWord(ids[i]);
    const auto key = static_cast<uint16_t>(LowWord(ids[i]) >> 16);
    low_words.clear();
    for (const uint64_t group = ids[i] >> 16; i < ids.size() && ids[i] >> 16 == group; ++i) {
      low_words.push_back(LowWord(ids[i]));
    }
    if (word == words_.end() || word->first != high) {
      bool is_new = false;
      std::tie(word, is_new) = words_.try_emplace(high);
      if (is_new) memory_bytes_ += kNodeBytes + TableBytes(word->second.roaring.high_low_container);
    }
    const roaring_array_t& table = word->second.roaring.high_low_container;
    const Usage old = OfKey(table, key);
    memory_bytes_ -= old.bytes + TableBytes(table);
    word->second.addMany(low_words.size(), low_words.data());
    const Usage now = OfKey(table, key);
    memory_bytes_ += now.bytes + TableBytes(table);
    cardinality_ += now.values - old.values;
  }
  return cardinality_ - before;
}

void BlockBitmap::Union(const BlockBitmap& other) {
  for (const auto& [high, bitmap] : other.words_) {
    const auto [word, is_new] = words_.try_emplace(high);
    const roaring_array_t& table = word->second.roaring.high_low_container;
    const Usage old = is_new ? Usage{} : OfWord(table);
    word->second |= bitmap;
    const Usage now = OfWord(table);
    memory_bytes_ += now.bytes - old.bytes;
    cardinality_ += now.values - old.values;
  }
}

bool BlockBitmap::Contains(int64_t block_id) const {
  const auto id = static_cast<uint64_t>(block_id);
  const auto word = words_.find(HighWord(id));
  return word != words_.end() && word->second.contains(LowWord(id));
}

std::string BlockBitmap::Serialize() const {
  std::string out;
  if (Empty()) return out;
  out.push_back(0);  // high words in unsigned order
  AppendBig32(static_cast<uint32_t>(words_.size()), out);
  for (const auto& [high, bitmap] : words_) AppendWord(high, bitmap, out);
  return out;
}

}  // namespace dovetail::storage
