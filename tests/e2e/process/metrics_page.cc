#include "tests/e2e/process/metrics_page.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace dovetail::e2e {
namespace {

constexpr std::array kGaugesOfUse = {"dovetail_memory_used_bytes",
                                     "dovetail_memory_promised_bytes",
                                     "dovetail_tickets",
                                     "dovetail_require_waiting",
                                     "dovetail_read_bytes_in_flight",
                                     "dovetail_read_waiting",
                                     "dovetail_apps",
                                     "dovetail_shuffles",
                                     "dovetail_partitions",
                                     "dovetail_report_bytes",
                                     "dovetail_arena_used_bytes",
                                     "dovetail_flushing_bytes",
                                     "dovetail_extents",
                                     "dovetail_removals_pending",
                                     "dovetail_index_cache_bytes"};

// The same for each data path; a daemon without data paths has none of them.
constexpr std::array kDiskGaugesOfUse = {"dovetail_disk_flush_bytes_in_flight",
                                         "dovetail_disk_removals_pending",
                                         "dovetail_disk_segments",
                                         "dovetail_disk_reserved_bytes",
                                         "dovetail_disk_open_descriptors",
                                         "dovetail_disk_operations_in_flight"};

bool Includes(const LabelValues& all, const LabelValues& some) {
  return std::ranges::all_of(some, [&](const auto& label) {
    const auto found = all.find(label.first);
    return found != all.end() && found->second == label.second;
  });
}

// text begins after "{"; returns what follows "}".
std::string_view ParseLabels(std::string_view text, LabelValues& labels) {
  while (!text.empty() && text.front() != '}') {
    const size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    text.remove_prefix(equals + 2);
    std::string value;
    while (!text.empty() && text.front() != '"') {
      if (text.front() == '\\') text.remove_prefix(1);
      value.push_back(text.front());
      text.remove_prefix(1);
    }
    text.remove_prefix(1);
    if (!text.empty() && text.front() == ',') text.remove_prefix(1);
    labels[name] = value;
  }
  if (!text.empty()) text.remove_prefix(1);
  return text;
}

}  // namespace

MetricsPage::MetricsPage(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    ParseLine(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void MetricsPage::ParseLine(std::string_view line) {
  constexpr std::string_view kType = "# TYPE ";
  if (line.starts_with(kType)) {
    line.remove_prefix(kType.size());
    const size_t space = line.find(' ');
    types_[std::string(line.substr(0, space))] = line.substr(space + 1);
    return;
  }
  if (line.empty() || line.front() == '#') return;
  Series series;
  const size_t name_end = line.find_first_of("{ ");
  series.name = line.substr(0, name_end);
  line.remove_prefix(name_end);
  if (line.front() == '{') line = ParseLabels(line.substr(1), series.labels);
  series.value = std::strtod(std::string(line).c_str(), nullptr);
  series_.push_back(std::move(series));
}

std::optional<double> MetricsPage::Find(std::string_view name, const LabelValues& labels) const {
  std::optional<double> sum;
  for (const Series& series : series_) {
    if (series.name != name || !Includes(series.labels, labels)) continue;
    sum = sum.value_or(0) + series.value;
  }
  return sum;
}

double MetricsPage::Value(std::string_view name, const LabelValues& labels) const {
  return Find(name, labels).value_or(0);
}

std::vector<std::string> MetricsPage::InUse() const {
  std::vector<std::string> found;
  const auto check = [&](const std::string& name, const LabelValues& labels) {
    const std::optional<double> value = Find(name, labels);
    if (value == 0.0) return;
    const std::string path = labels.empty() ? "" : "{" + labels.at("path") + "}";
    found.push_back(name + path + " " + (value ? std::to_string(*value) : "is missing"));
  };
  for (const char* name : kGaugesOfUse) check(name, {});
  for (const Series& series : series_) {
    const bool of_ring = series.name == "dovetail_uring_operations_in_flight" ||
                         series.name == "dovetail_uring_requests_in_kernel";
    if (of_ring && series.value != 0) {
      found.push_back(series.name + " " + std::to_string(series.value));
    }
    if (series.name != "dovetail_disk_usable") continue;
    for (const char* name : kDiskGaugesOfUse) check(name, {{"path", series.labels.at("path")}});
  }
  return found;
}

}  // namespace dovetail::e2e
