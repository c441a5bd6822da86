#include "engine/base/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

namespace dovetail {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Fields of /proc/self/stat as proc(5) numbers them.
constexpr int kFieldThreads = 20;
constexpr int kFieldStartTicks = 22;
constexpr int kFieldResidentPages = 24;

std::optional<double> ProcessStatField(int number) {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // Field 2 is the command in parentheses and may hold anything; field 3 follows the last one.
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(end + 1));
  std::string skipped;
  for (int field = 3; field < number; ++field) fields >> skipped;
  double value = 0;
  if (!(fields >> value)) return std::nullopt;
  return value;
}

std::optional<double> BootTimeSeconds() {
  std::ifstream file("/proc/stat");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    double seconds = 0;
    if (words >> name >> seconds && name == "btime") return seconds;
  }
  return std::nullopt;
}

double CpuSeconds() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return kUnknown;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ResidentBytes() {
  const auto pages = ProcessStatField(kFieldResidentPages);
  return pages ? *pages * static_cast<double>(sysconf(_SC_PAGESIZE)) : kUnknown;
}

double OpenDescriptors() {
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return kUnknown;
  int count = 0;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(directory);
  // Without the one that the counting itself had open.
  return count - 1;
}

double MaxDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUnknown;
  if (limit.rlim_cur == RLIM_INFINITY) return std::numeric_limits<double>::infinity();
  return static_cast<double>(limit.rlim_cur);
}

double StartTimeSeconds() {
  const auto boot = BootTimeSeconds();
  const auto ticks = ProcessStatField(kFieldStartTicks);
  if (!boot || !ticks) return kUnknown;
  return *boot + *ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

#if defined(__SANITIZE_ADDRESS__)
constexpr const char* kSanitizer = "address";
#elif defined(__SANITIZE_THREAD__)
constexpr const char* kSanitizer = "thread";
#else
constexpr const char* kSanitizer = "none";
#endif

#ifdef __OPTIMIZE__
constexpr const char* kOptimized = "yes";
#else
constexpr const char* kOptimized = "no";
#endif

#ifdef __clang__
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif

}  // namespace

void AddProcessMetrics(MetricsRegistry& metrics, const std::string& version) {
  const void* owner = &metrics;
  metrics.AddCounterCallback(owner, "process_cpu_seconds_total",
                             "User and system CPU time spent, in seconds.", CpuSeconds);
  metrics.AddGauge(owner, "process_resident_memory_bytes", "Resident memory size in bytes.",
                   ResidentBytes);
  metrics.AddGauge(owner, "process_open_fds", "Number of open file descriptors.", OpenDescriptors);
  metrics.AddGauge(owner, "process_max_fds", "Soft limit of open file descriptors.",
                   MaxDescriptors);
  metrics.AddGauge(owner, "process_threads", "Number of threads.",
                   [] { return ProcessStatField(kFieldThreads).value_or(kUnknown); });
  metrics.AddGauge(owner, "process_start_time_seconds",
                   "Start time of the process in seconds since the epoch.",
                   [start = StartTimeSeconds()] { return start; });
  metrics.AddGauge(owner, "dovetail_build_info", "How this binary was built; always 1.",
                   [] { return 1.0; },
                   {{"version", version},
                    {"compiler", kCompiler},
                    {"optimized", kOptimized},
                    {"sanitizer", kSanitizer}});
}

}  // namespace dovetail
