// The set of map tasks whose blocks a reader wants (serializedExpectedTaskIdsBitmap): a
// Roaring64NavigableMap in Java's legacy form (docs/protocol.md, "Bitmaps") that came from the wire
// and is therefore hostile until proven otherwise.
//
// Parse checks everything (lengths, key order, cardinalities, array order, run order and bounds,
// bit counts, offsets, no bytes left over) and Contains then answers from the very bytes: nothing
// is expanded, so memory stays within twice the size of the input, whatever it claims.
//
// Threads: immutable after Parse; any thread may ask.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/result.h"

namespace dovetail::storage {

class TaskFilter {
 public:
  // Takes the bytes over. kInvalid when they are not exactly one such bitmap. Zero bytes are the
  // caller's case (no filter at all), and kInvalid here; a bitmap without ids is valid and contains
  // nothing.
  static Result<TaskFilter> Parse(std::string bytes);

  bool Contains(int64_t task_attempt_id) const;

 private:
  // One 32-bit bitmap inside bytes_, checked by Parse.
  struct Word {
    uint32_t high;      // the upper 32 bits of its ids
    uint32_t position;  // of its first byte
  };

  std::string bytes_;
  std::vector<Word> words_;  // ascending by high, each once
};

}  // namespace dovetail::storage
