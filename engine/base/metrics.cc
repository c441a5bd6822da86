#include "engine/base/metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "engine/base/check.h"

namespace dovetail {
namespace {

// A wrong or doubly used name is a mistake in the program, so the library's exception ends here.
template <class Make>
auto& Registered(Make make) {
  using Metric = std::remove_reference_t<decltype(make())>;
  Metric* metric = nullptr;
  try {
    metric = &make();
  } catch (const std::invalid_argument&) {
    metric = nullptr;
  }
  DOVETAIL_CHECK(metric != nullptr);
  return *metric;
}

}  // namespace

// The values that belong to someone else and are read at scrape time. Collecting holds the mutex,
// so that after Remove() returns no read of that owner is running.
class MetricsRegistry::Callbacks final : public prometheus::Collectable {
 public:
  struct Entry {
    const void* owner;
    prometheus::MetricType type;
    std::string name;
    std::string help;
    Labels labels;
    std::function<void(prometheus::ClientMetric&)> read;
  };

  // A name has one type and one help, whoever adds to it and however.
  void Claim(const std::string& name, const std::string& help, prometheus::MetricType type) {
    std::lock_guard lock(mutex_);
    const auto [known, fresh] = families_.try_emplace(name, Family{help, type});
    DOVETAIL_CHECK(fresh || (known->second.help == help && known->second.type == type));
  }

  void Add(Entry entry) {
    Claim(entry.name, entry.help, entry.type);
    std::lock_guard lock(mutex_);
    const bool taken = std::ranges::any_of(entries_, [&](const Entry& known) {
      return known.name == entry.name && known.labels == entry.labels;
    });
    DOVETAIL_CHECK(!taken);
    entries_.push_back(std::move(entry));
  }

  void Remove(const void* owner) {
    std::lock_guard lock(mutex_);
    std::erase_if(entries_, [owner](const Entry& entry) { return entry.owner == owner; });
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::map<std::string, prometheus::MetricFamily> families;
    std::lock_guard lock(mutex_);
    for (const Entry& entry : entries_) {
      prometheus::MetricFamily& family = families[entry.name];
      family.name = entry.name;
      family.help = entry.help;
      family.type = entry.type;
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      for (const auto& [name, value] : entry.labels) metric.label.push_back({name, value});
      entry.read(metric);
    }
    std::vector<prometheus::MetricFamily> collected;
    collected.reserve(families.size());
    for (auto& [name, family] : families) collected.push_back(std::move(family));
    return collected;
  }

 private:
  struct Family {
    std::string help;
    prometheus::MetricType type;
  };

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::map<std::string, Family> families_;
};

MetricsRegistry::MetricsRegistry()
    : registry_(std::make_unique<prometheus::Registry>()),
      callbacks_(std::make_unique<Callbacks>()) {}

MetricsRegistry::~MetricsRegistry() = default;

Counter& MetricsRegistry::AddCounter(const std::string& name, const std::string& help,
                                     const Labels& labels) {
  callbacks_->Claim(name, help, prometheus::MetricType::Counter);
  return Registered([&]() -> Counter& {
    return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_).Add(labels);
  });
}

Histogram& MetricsRegistry::AddHistogram(const std::string& name, const std::string& help,
                                         const std::vector<double>& bounds, const Labels& labels) {
  callbacks_->Claim(name, help, prometheus::MetricType::Histogram);
  return Registered([&]() -> Histogram& {
    return prometheus::BuildHistogram()
        .Name(name)
        .Help(help)
        .Register(*registry_)
        .Add(labels, bounds);
  });
}

void MetricsRegistry::AddGauge(const void* owner, const std::string& name, const std::string& help,
                               std::function<double()> read, const Labels& labels) {
  callbacks_->Add({owner, prometheus::MetricType::Gauge, name, help, labels,
                   [read = std::move(read)](auto& metric) { metric.gauge.value = read(); }});
}

void MetricsRegistry::AddCounterCallback(const void* owner, const std::string& name,
                                         const std::string& help, std::function<double()> read,
                                         const Labels& labels) {
  callbacks_->Add({owner, prometheus::MetricType::Counter, name, help, labels,
                   [read = std::move(read)](auto& metric) { metric.counter.value = read(); }});
}

void MetricsRegistry::AddHistogramCallback(const void* owner, const std::string& name,
                                           const std::string& help,
                                           const std::vector<double>& bounds,
                                           std::function<HistogramFigures()> read,
                                           const Labels& labels) {
  const auto fill = [bounds, read = std::move(read)](prometheus::ClientMetric& metric) {
    const HistogramFigures figures = read();
    DOVETAIL_CHECK(figures.counts.size() == bounds.size());
    uint64_t count = 0;
    for (size_t i = 0; i < bounds.size(); ++i) {
      count += static_cast<uint64_t>(figures.counts[i]);
      metric.histogram.bucket.push_back({count, bounds[i]});
    }
    count += static_cast<uint64_t>(figures.above);
    metric.histogram.bucket.push_back({count, std::numeric_limits<double>::infinity()});
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = figures.sum;
  };
  callbacks_->Add({owner, prometheus::MetricType::Histogram, name, help, labels, fill});
}

void MetricsRegistry::RemoveCallbacks(const void* owner) { callbacks_->Remove(owner); }

std::string MetricsRegistry::Render() const {
  std::vector<prometheus::MetricFamily> families = registry_->Collect();
  // A name that has counters of both kinds must still be one family in the text.
  for (prometheus::MetricFamily& read : callbacks_->Collect()) {
    const auto same = std::ranges::find(families, read.name, &prometheus::MetricFamily::name);
    if (same == families.end()) {
      families.push_back(std::move(read));
    } else {
      std::ranges::move(read.metric, std::back_inserter(same->metric));
    }
  }
  std::ranges::sort(families, {}, &prometheus::MetricFamily::name);
  return prometheus::TextSerializer().Serialize(families);
}

std::vector<double> LatencyBoundsSeconds() {
  return {0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
          0.05,    0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30};
}

}  // namespace dovetail
