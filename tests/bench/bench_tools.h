// What the benchmarks share: time, CPU seconds of the process and of the machine, a fresh folder,
// and lines of figures.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dovetail::bench {

struct Usage {
  double seconds = 0;      // on the wall
  double cpu_seconds = 0;  // of the whole process, user and system
  double machine_cpu_seconds =
      0;  // of everything that ran meanwhile, the kernel's threads included

  double BytesPerSecond(int64_t bytes) const { return static_cast<double>(bytes) / seconds; }
};

// CPU seconds that the calling thread has used so far.
double ThreadCpuSeconds();

class Stopwatch {
 public:
  Stopwatch();
  Usage Elapsed() const;

 private:
  double wall_seconds_;
  double cpu_seconds_;
  double machine_cpu_seconds_;
};

// Of the whole machine, since it was started.
double MachineCpuSeconds();

// A new empty folder below `parent`, removed with all it holds at the end.
class FreshFolder {
 public:
  explicit FreshFolder(const std::string& parent);
  ~FreshFolder();
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One line: what it was, GB/s and CPU seconds a GB (10^9 bytes) of the process and of the machine.
void Report(const std::string& name, int64_t bytes, const Usage& usage);

// REQUIRES: not empty.
double Median(std::vector<double> values);
// Figure by figure.
Usage MedianOf(const std::vector<Usage>& usages);

}  // namespace dovetail::bench
