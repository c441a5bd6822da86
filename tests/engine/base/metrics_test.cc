#include "engine/base/metrics.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/process_metrics.h"

namespace dovetail {
namespace {

// The value of the sample with exactly this name and label text, NaN when there is none.
double Sample(const std::string& text, const std::string& series) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(series + " ")) return std::stod(line.substr(series.size() + 1));
  }
  return std::nan("");
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Metrics, RendersCountersByLabel) {
  MetricsRegistry metrics;
  metrics.AddCounter("dovetail_test_total", "Things.", {{"kind", "a"}}).Increment(2);
  metrics.AddCounter("dovetail_test_total", "Things.", {{"kind", "b"}}).Increment(3);
  const std::string text = metrics.Render();
  EXPECT_EQ(Sample(text, R"(dovetail_test_total{kind="a"})"), 2);
  EXPECT_EQ(Sample(text, R"(dovetail_test_total{kind="b"})"), 3);
  EXPECT_EQ(Count(text, "# HELP dovetail_test_total Things."), 1);
  EXPECT_EQ(Count(text, "# TYPE dovetail_test_total counter"), 1);
}

TEST(Metrics, TheSameCounterTwiceIsOneCounter) {
  MetricsRegistry metrics;
  Counter& first = metrics.AddCounter("dovetail_test_total", "Things.");
  Counter& second = metrics.AddCounter("dovetail_test_total", "Things.");
  EXPECT_EQ(&first, &second);
}

TEST(Metrics, AHistogramKeptElsewhereIsShownAsSuch) {
  MetricsRegistry metrics;
  MetricsRegistry::HistogramFigures figures{.counts = {3, 4}, .above = 5, .sum = 12.5};
  const int owner = 0;
  metrics.AddHistogramCallback(&owner, "dovetail_test_seconds", "Time.", {0.1, 1},
                               [&] { return figures; }, {{"kind", "a"}});
  figures.counts[0] = 6;
  const std::string text = metrics.Render();
  EXPECT_EQ(Sample(text, R"(dovetail_test_seconds_bucket{kind="a",le="0.1"})"), 6);
  EXPECT_EQ(Sample(text, R"(dovetail_test_seconds_bucket{kind="a",le="1"})"), 10);
  EXPECT_EQ(Sample(text, R"(dovetail_test_seconds_bucket{kind="a",le="+Inf"})"), 15);
  EXPECT_EQ(Sample(text, R"(dovetail_test_seconds_count{kind="a"})"), 15);
  EXPECT_EQ(Sample(text, R"(dovetail_test_seconds_sum{kind="a"})"), 12.5);
  EXPECT_EQ(Count(text, "# TYPE dovetail_test_seconds histogram"), 1);
  metrics.RemoveCallbacks(&owner);
  EXPECT_EQ(Count(metrics.Render(), "dovetail_test_seconds"), 0);
}

TEST(Metrics, HistogramHasBoundsSumAndCount) {
  MetricsRegistry metrics;
  Histogram& histogram = metrics.AddHistogram("dovetail_test_seconds", "Time.", {0.1, 1});
  histogram.Observe(0.05);
  histogram.Observe(0.5);
  histogram.Observe(7);
  const std::string text = metrics.Render();
  EXPECT_EQ(Sample(text, R"(dovetail_test_seconds_bucket{le="0.1"})"), 1);
  EXPECT_EQ(Sample(text, R"(dovetail_test_seconds_bucket{le="1"})"), 2);
  EXPECT_EQ(Sample(text, R"(dovetail_test_seconds_bucket{le="+Inf"})"), 3);
  EXPECT_EQ(Sample(text, "dovetail_test_seconds_count"), 3);
  EXPECT_DOUBLE_EQ(Sample(text, "dovetail_test_seconds_sum"), 7.55);
}

TEST(Metrics, GaugesAreReadAtEveryRender) {
  MetricsRegistry metrics;
  double value = 1;
  metrics.AddGauge(&value, "dovetail_test_bytes", "Size.", [&] { return value; });
  EXPECT_EQ(Sample(metrics.Render(), "dovetail_test_bytes"), 1);
  value = -4096;
  const std::string text = metrics.Render();
  EXPECT_EQ(Sample(text, "dovetail_test_bytes"), -4096);
  EXPECT_EQ(Count(text, "# TYPE dovetail_test_bytes gauge"), 1);
}

TEST(Metrics, GaugesOfOneNameAreOneFamily) {
  MetricsRegistry metrics;
  int owner = 0;
  metrics.AddGauge(&owner, "dovetail_test_bytes", "Size.", [] { return 1.0; }, {{"tier", "a"}});
  metrics.AddGauge(&owner, "dovetail_other_bytes", "Other.", [] { return 9.0; });
  metrics.AddGauge(&owner, "dovetail_test_bytes", "Size.", [] { return 2.0; }, {{"tier", "b"}});
  const std::string text = metrics.Render();
  EXPECT_EQ(Count(text, "# HELP dovetail_test_bytes "), 1);
  EXPECT_EQ(Sample(text, R"(dovetail_test_bytes{tier="a"})"), 1);
  EXPECT_EQ(Sample(text, R"(dovetail_test_bytes{tier="b"})"), 2);
}

TEST(Metrics, CounterCallbackIsACounterAndSharesItsNameWithCountedOnes) {
  MetricsRegistry metrics;
  int owner = 0;
  metrics.AddCounter("dovetail_test_total", "Things.", {{"kind", "a"}}).Increment(5);
  metrics.AddCounterCallback(&owner, "dovetail_test_total", "Things.", [] { return 6.0; },
                             {{"kind", "b"}});
  const std::string text = metrics.Render();
  EXPECT_EQ(Count(text, "# TYPE dovetail_test_total counter"), 1);
  EXPECT_EQ(Sample(text, R"(dovetail_test_total{kind="a"})"), 5);
  EXPECT_EQ(Sample(text, R"(dovetail_test_total{kind="b"})"), 6);
}

TEST(Metrics, RemovedOwnersAreNotReadAndOthersStay) {
  MetricsRegistry metrics;
  int gone = 0;
  int stays = 0;
  bool read_after_removal = false;
  metrics.AddGauge(&gone, "dovetail_gone_bytes", "Gone.", [&] {
    read_after_removal = true;
    return 1.0;
  });
  metrics.AddGauge(&stays, "dovetail_stays_bytes", "Stays.", [] { return 2.0; });
  metrics.RemoveCallbacks(&gone);
  const std::string text = metrics.Render();
  EXPECT_FALSE(read_after_removal);
  EXPECT_EQ(Count(text, "dovetail_gone_bytes"), 0);
  EXPECT_EQ(Sample(text, "dovetail_stays_bytes"), 2);
  // The owner may come again.
  metrics.AddGauge(&gone, "dovetail_gone_bytes", "Gone.", [] { return 3.0; });
  EXPECT_EQ(Sample(metrics.Render(), "dovetail_gone_bytes"), 3);
}

// After RemoveCallbacks() returns, no scrape that is under way still reads from the owner.
TEST(Metrics, RemovalWaitsForTheScrapeThatReads) {
  MetricsRegistry metrics;
  int owner = 0;
  std::atomic<bool> entered = false;
  std::atomic<bool> reading = false;
  metrics.AddGauge(&owner, "dovetail_test_bytes", "Size.", [&] {
    reading = true;
    entered = true;
    entered.notify_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    reading = false;
    return 1.0;
  });
  std::thread scraper([&] { (void)metrics.Render(); });
  entered.wait(false);
  metrics.RemoveCallbacks(&owner);
  EXPECT_FALSE(reading);
  scraper.join();
}

TEST(Metrics, FamiliesComeInOrderOfTheirNames) {
  MetricsRegistry metrics;
  int owner = 0;
  metrics.AddGauge(&owner, "dovetail_a_bytes", "A.", [] { return 1.0; });
  metrics.AddCounter("dovetail_b_total", "B.");
  metrics.AddGauge(&owner, "dovetail_c_bytes", "C.", [] { return 1.0; });
  const std::string text = metrics.Render();
  EXPECT_LT(text.find("dovetail_a_bytes"), text.find("dovetail_b_total"));
  EXPECT_LT(text.find("dovetail_b_total"), text.find("dovetail_c_bytes"));
}

TEST(Metrics, LabelValuesAreEscaped) {
  MetricsRegistry metrics;
  metrics.AddCounter("dovetail_test_total", "Things.", {{"kind", "a\"b\\c\nd"}});
  EXPECT_EQ(Count(metrics.Render(), R"(dovetail_test_total{kind="a\"b\\c\nd"} 0)"), 1);
}

TEST(MetricsDeathTest, MisuseEndsTheProcess) {
  const testing::KilledBySignal kAborted(SIGABRT);
  MetricsRegistry metrics;
  int owner = 0;
  metrics.AddCounter("dovetail_test_total", "Things.");
  metrics.AddGauge(&owner, "dovetail_test_bytes", "Size.", [] { return 1.0; });
  EXPECT_EXIT(metrics.AddCounter("dovetail_test_total", "Other help."), kAborted, "");
  EXPECT_EXIT(metrics.AddGauge(&owner, "dovetail_test_total", "Things.", [] { return 1.0; }),
              kAborted, "");
  EXPECT_EXIT(metrics.AddGauge(&owner, "dovetail_test_bytes", "Size.", [] { return 2.0; }),
              kAborted, "");
  EXPECT_EXIT(metrics.AddCounter("not a name", "Help."), kAborted, "");
}

TEST(Metrics, LatencyBoundsRiseFromFiftyMicrosecondsToThirtySeconds) {
  const std::vector<double> bounds = LatencyBoundsSeconds();
  EXPECT_DOUBLE_EQ(bounds.front(), 50e-6);
  EXPECT_DOUBLE_EQ(bounds.back(), 30);
  for (size_t i = 1; i < bounds.size(); ++i) EXPECT_GT(bounds[i], bounds[i - 1]);
}

TEST(ProcessMetrics, SayWhatTheSystemSays) {
  MetricsRegistry metrics;
  AddProcessMetrics(metrics, "1.2.3");
  const std::string text = metrics.Render();
  EXPECT_GT(Sample(text, "process_cpu_seconds_total"), 0);
  EXPECT_GT(Sample(text, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GE(Sample(text, "process_max_fds"), Sample(text, "process_open_fds"));
  EXPECT_GE(Sample(text, "process_threads"), 1);
  EXPECT_EQ(Count(text, "dovetail_build_info{"), 1);
  EXPECT_EQ(Count(text, R"(version="1.2.3")"), 1);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const double start = Sample(text, "process_start_time_seconds");
  // Clock ticks and the whole second of the boot time make it coarse; the hour catches a wrong
  // unit.
  EXPECT_LT(start, now + 2);
  EXPECT_GT(start, now - 3600);
}

TEST(ProcessMetrics, FollowDescriptorsAndThreads) {
  MetricsRegistry metrics;
  AddProcessMetrics(metrics, "1");
  const std::string before = metrics.Render();
  const int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  std::atomic<bool> done = false;
  std::thread waiting([&] { done.wait(false); });
  const std::string during = metrics.Render();
  done = true;
  done.notify_all();
  waiting.join();
  close(descriptor);
  EXPECT_EQ(Sample(during, "process_open_fds"), Sample(before, "process_open_fds") + 1);
  // At least ours: ThreadSanitizer adds one of its own with the first.
  EXPECT_GE(Sample(during, "process_threads"), Sample(before, "process_threads") + 1);
}

}  // namespace
}  // namespace dovetail
