// The process's metrics: a thin door to prometheus-cpp, so that a name is given in one call and
// every gauge is read from its owner at scrape time instead of being kept twice.
//
// Owner: the composition root makes one MetricsRegistry before everything else and ends it after
// everything else. Returned counters and histograms live as long as the registry. Any thread may
// increment them and Render(). Add... calls are made while the daemon is being built, before the
// first Render().
//
// Names start with dovetail_ (or process_ for the exporter's standard ones), counters end with
// _total, units come last. docs/metrics.md is the table of all of them; a test holds it equal to
// what a running daemon exports.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dovetail {

using Labels = std::map<std::string, std::string>;
using Counter = prometheus::Counter;
using Histogram = prometheus::Histogram;

class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  // The same name may be added again with other labels; help must then be the same.
  Counter& AddCounter(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& AddHistogram(const std::string& name, const std::string& help,
                          const std::vector<double>& bounds, const Labels& labels = {});

  // read is called at each scrape, on the scraping thread; it must not block and must outlive the
  // registry's use: owners that end before the registry call RemoveCallbacks(owner) first.
  void AddGauge(const void* owner, const std::string& name, const std::string& help,
                std::function<double()> read, const Labels& labels = {});
  // The same for a value that only grows and is counted elsewhere (such as CPU seconds).
  void AddCounterCallback(const void* owner, const std::string& name, const std::string& help,
                          std::function<double()> read, const Labels& labels = {});
  // And for counts by class that are kept elsewhere.
  struct HistogramFigures {
    std::vector<int64_t> counts;  // of each bound the values up to it and above the one before
    int64_t above = 0;            // the last bound
    double sum = 0;
  };
  void AddHistogramCallback(const void* owner, const std::string& name, const std::string& help,
                            const std::vector<double>& bounds,
                            std::function<HistogramFigures()> read, const Labels& labels = {});
  void RemoveCallbacks(const void* owner);

  // Everything in the Prometheus text format, version 0.0.4.
  std::string Render() const;

 private:
  class Callbacks;

  std::unique_ptr<prometheus::Registry> registry_;
  std::unique_ptr<Callbacks> callbacks_;
};

// Bounds in seconds for the latency of calls: 50 us to 30 s.
std::vector<double> LatencyBoundsSeconds();

}  // namespace dovetail
