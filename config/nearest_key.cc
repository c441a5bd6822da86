#include "config/nearest_key.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace dovetail::config {
namespace {

// Longer than every key by far; beyond it nothing is near, and the work stays small for hostile
// names.
constexpr size_t kNameBytesMax = 100;

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({change, last[j] + 1, row[j - 1] + 1});
    }
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

const Key* NearestKey(std::string_view section, std::string_view name) {
  if (section.size() + name.size() > kNameBytesMax) return nullptr;
  const std::string path =
      section.empty() ? std::string(name) : std::string(section) + "." + std::string(name);
  const Key* nearest = nullptr;
  size_t fewest = std::max<size_t>(2, path.size() / 3) + 1;
  for (const Key& key : Keys()) {
    // A name without its section is compared with names, too: `--set capcity=3G`.
    size_t edits = EditDistance(path, PathOf(key));
    if (section != key.section) edits = std::min(edits, EditDistance(name, key.name) + 1);
    if (edits < fewest) {
      nearest = &key;
      fewest = edits;
    }
  }
  return nearest;
}

}  // namespace dovetail::config
