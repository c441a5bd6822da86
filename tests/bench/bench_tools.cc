#include "tests/bench/bench_tools.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>

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

Stopwatch::Stopwatch() : wall_seconds_(WallSeconds()), cpu_seconds_(CpuSeconds()) {}

Usage Stopwatch::Elapsed() const {
  return {.seconds = WallSeconds() - wall_seconds_, .cpu_seconds = CpuSeconds() - cpu_seconds_};
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
  fmt::print("{:<44} {:6.2f} GB/s  {:5.2f} CPU s/GB  {:6.2f} s\n", name, gigabytes / usage.seconds,
             usage.cpu_seconds / gigabytes, usage.seconds);
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace dovetail::bench
