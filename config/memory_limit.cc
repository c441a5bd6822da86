#include "config/memory_limit.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace dovetail::config {
namespace {

// Where one hierarchy is mounted, and which of its cgroups stands at the mount point (not "/" in a
// container that was given only its own part of the tree).
struct CgroupMount {
  std::string directory;
  std::string shown_cgroup;
};

std::vector<std::string> ReadLines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool ListContains(const std::string& comma_list, std::string_view wanted) {
  for (const std::string& part : Split(comma_list, ',')) {
    if (part == wanted) return true;
  }
  return false;
}

// A mountinfo line: id parent device root mount_point options [tags...] - type source
// super_options.
std::optional<CgroupMount> FindMount(const std::string& root, bool unified) {
  for (const std::string& line : ReadLines(root + "/proc/self/mountinfo")) {
    const std::vector<std::string> fields = Split(line, ' ');
    size_t dash = 6;
    while (dash < fields.size() && fields[dash] != "-") ++dash;
    if (dash + 3 >= fields.size()) continue;
    const std::string& type = fields[dash + 1];
    const bool match =
        unified ? type == "cgroup2" : type == "cgroup" && ListContains(fields[dash + 3], "memory");
    if (match) return CgroupMount{fields[4], fields[3]};
  }
  return std::nullopt;
}

// The cgroup of this process. A line is hierarchy:controllers:path; v2 is the one with hierarchy 0
// and no controllers.
std::optional<std::string> OwnCgroup(const std::string& root, bool unified) {
  for (const std::string& line : ReadLines(root + "/proc/self/cgroup")) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool match = unified ? controllers.empty() && line.substr(0, first) == "0"
                               : ListContains(controllers, "memory");
    if (match) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The part of cgroup that lies below the mount point, "" or "/a/b". What is not below it cannot be
// looked at; then the mount point itself is the nearest cgroup that can.
std::string BelowMount(const std::string& cgroup, const std::string& shown_cgroup) {
  std::string shown = shown_cgroup == "/" ? "" : shown_cgroup;
  if (cgroup.compare(0, shown.size(), shown) != 0) return "";
  std::string below = cgroup.substr(shown.size());
  if (below.empty() || below == "/" || below[0] != '/') return "";
  if (below.find("/..") != std::string::npos) return "";
  while (below.back() == '/') below.pop_back();
  return below;
}

// A file that holds one number; "max" and anything else is no limit.
std::optional<int64_t> ReadNumber(const std::string& text) {
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size() || number <= 0) return std::nullopt;
  return number;
}

void Lower(MemoryLimit* limit, std::optional<int64_t> bytes, const std::string& file) {
  if (bytes && *bytes < limit->bytes) *limit = MemoryLimit{*bytes, "the limit in " + file};
}

void LowerByFile(MemoryLimit* limit, const std::string& root, const std::string& file) {
  const std::vector<std::string> lines = ReadLines(root + file);
  if (lines.size() == 1) Lower(limit, ReadNumber(lines[0]), file);
}

// v1 counts the parents that a container cannot see into one figure of its own memory.stat.
void LowerByStat(MemoryLimit* limit, const std::string& root, const std::string& file) {
  constexpr std::string_view kName = "hierarchical_memory_limit ";
  for (const std::string& line : ReadLines(root + file)) {
    if (line.starts_with(kName)) Lower(limit, ReadNumber(line.substr(kName.size())), file);
  }
}

void LowerByHierarchy(MemoryLimit* limit, const std::string& root, bool unified) {
  const std::optional<CgroupMount> mount = FindMount(root, unified);
  const std::optional<std::string> cgroup = OwnCgroup(root, unified);
  if (!mount || !cgroup) return;
  std::string below = BelowMount(*cgroup, mount->shown_cgroup);
  if (!unified) LowerByStat(limit, root, mount->directory + below + "/memory.stat");
  while (true) {
    const std::string directory = mount->directory + below;
    if (unified) {
      LowerByFile(limit, root, directory + "/memory.max");
      LowerByFile(limit, root, directory + "/memory.high");  // above it the kernel slows us down
    } else {
      LowerByFile(limit, root, directory + "/memory.limit_in_bytes");
    }
    if (below.empty()) return;
    below.erase(below.rfind('/'));
  }
}

}  // namespace

int64_t MachineMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

MemoryLimit FindMemoryLimit(const std::string& root, int64_t machine_bytes) {
  MemoryLimit limit{machine_bytes, "the machine's memory"};
  LowerByHierarchy(&limit, root, /*unified=*/true);
  LowerByHierarchy(&limit, root, /*unified=*/false);
  return limit;
}

}  // namespace dovetail::config
