// The Prometheus text of /metrics, taken apart for tests.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::e2e {

using LabelValues = std::map<std::string, std::string>;

struct Series {
  std::string name;
  LabelValues labels;
  double value = 0;
};

class MetricsPage {
 public:
  explicit MetricsPage(std::string_view text);

  const std::vector<Series>& series() const { return series_; }
  // By metric: "counter", "gauge", "histogram".
  const std::map<std::string, std::string>& types() const { return types_; }

  // The sum over all series of that name whose labels include these; nothing when there is none.
  std::optional<double> Find(std::string_view name, const LabelValues& labels = {}) const;
  // The same, 0 when there is none: a labelled counter appears with its first event.
  double Value(std::string_view name, const LabelValues& labels = {}) const;

  // What must be 0 once nobody has anything here, and is not: "name value" each.
  std::vector<std::string> InUse() const;

 private:
  void ParseLine(std::string_view line);

  std::vector<Series> series_;
  std::map<std::string, std::string> types_;
};

}  // namespace dovetail::e2e
