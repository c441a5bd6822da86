#include "tests/bench/bench_tools.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "engine/base/check.h"

namespace dovetail::bench {
namespace {

double WallSeconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

double ThreadCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// proc(5): the first line of /proc/stat has user, nice, system, idle, iowait, irq and softirq
// ticks.
double MachineCpuSeconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  int64_t ticks[7] = {};
  file >> name;
  for (int64_t& value : ticks) file >> value;
  DOVETAIL_CHECK(file && name == "cpu");
  const int64_t busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
  return static_cast<double>(busy) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

Stopwatch::Stopwatch()
    : wall_seconds_(WallSeconds()),
      cpu_seconds_(CpuSeconds()),
      machine_cpu_seconds_(MachineCpuSeconds()) {}

Usage Stopwatch::Elapsed() const {
  return {.seconds = WallSeconds() - wall_seconds_,
          .cpu_seconds = CpuSeconds() - cpu_seconds_,
          .machine_cpu_seconds = MachineCpuSeconds() - machine_cpu_seconds_};
}

FreshFolder::FreshFolder(const std::string& parent) : path_(parent + "/dovetail-bench-XXXXXX") {
  DOVETAIL_CHECK(mkdtemp(path_.data()) != nullptr);
}

FreshFolder::~FreshFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void Report(const std::string& name, int64_t bytes, const Usage& usage) {
  const double gigabytes = static_cast<double>(bytes) * 1e-9;
  fmt::print("{:<40} {:6.2f} GB/s  {:6.3f} CPU s/GB  {:6.3f} of the machine  {:6.2f} s\n", name,
             gigabytes / usage.seconds, usage.cpu_seconds / gigabytes,
             usage.machine_cpu_seconds / gigabytes, usage.seconds);
}

Usage MedianOf(const std::vector<Usage>& usages) {
  const auto median = [&](double Usage::*figure) {
    std::vector<double> values;
    for (const Usage& usage : usages) values.push_back(usage.*figure);
    return Median(values);
  };
  return {.seconds = median(&Usage::seconds),
          .cpu_seconds = median(&Usage::cpu_seconds),
          .machine_cpu_seconds = median(&Usage::machine_cpu_seconds)};
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace dovetail::bench
