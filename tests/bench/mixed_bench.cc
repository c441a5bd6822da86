// Cold reads beside a flush through the segment store, by rings and by the pool, in turns: what was
// written before is read back from the disk by many readers at once while memory goes to it.
//
//   mixed_bench --data-path DIR [--readers N --read-bytes N --partition-bytes N --flush-bytes N]
#include <fcntl.h>
#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/check.h"
#include "tests/bench/bench_tools.h"
#include "tests/bench/store_load.h"

namespace dovetail::bench {
namespace {

namespace fs = std::filesystem;
using SteadyTime = std::chrono::steady_clock::time_point;

struct Settings {
  std::string data_path;
  int32_t readers = 200;
  int32_t read_bytes = 2 << 20;
  int32_t partition_bytes = 14 << 20;
  int64_t flush_bytes = 2LL << 30;
  int rounds = 3;
  bool direct_reads = false;
  bool buffered_appends = false;
};

constexpr int32_t kBlockBytes = 64 << 10;
constexpr int32_t kFlushPartitions = 1000;

double SecondsSince(SteadyTime begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Every reader reads its partition of shuffle 0 from begin to end, one call after the other.
class Readers {
 public:
  Readers(storage::ShuffleStore& store, const Settings& settings)
      : store_(store), settings_(settings), left_(settings.readers) {}

  void Start() {
    for (int32_t reader = 0; reader < settings_.readers; ++reader) ReadFrom(reader, 0);
  }
  // Seconds from `begin` until the last one was through.
  double Wait(SteadyTime begin) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_ == 0; });
    return std::chrono::duration<double>(ended_ - begin).count();
  }
  std::vector<double>& latencies() { return latencies_; }

 private:
  void ReadFrom(int32_t partition, int64_t offset) {
    const SteadyTime begin = std::chrono::steady_clock::now();
    const int64_t length =
        std::min<int64_t>(settings_.read_bytes, settings_.partition_bytes - offset);
    store_.ReadData(StoreLoad::app(), 0, partition, offset, length,
                    [this, partition, end = offset + length, begin](auto answer) {
                      DOVETAIL_CHECK(answer.has_value());
                      answer->bytes.clear();
                      answer->grant.reset();
                      Took(SecondsSince(begin), end >= settings_.partition_bytes);
                      if (end < settings_.partition_bytes) ReadFrom(partition, end);
                    });
  }

  void Took(double seconds, bool through) {
    std::lock_guard lock(mutex_);
    latencies_.push_back(seconds);
    if (!through || --left_ > 0) return;
    ended_ = std::chrono::steady_clock::now();
    changed_.notify_all();
  }

  storage::ShuffleStore& store_;
  const Settings& settings_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<double> latencies_;
  int32_t left_;
  SteadyTime ended_;
};

// Nothing of the files below stays in the page cache.
void Forget(const std::string& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    DOVETAIL_CHECK(fd >= 0 && fsync(fd) == 0);
    DOVETAIL_CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    close(fd);
  }
}

struct Figures {
  std::vector<Usage> all;
  std::vector<double> flush_seconds;
  std::vector<double> read_seconds;
  std::vector<double> p50_ms;
  std::vector<double> p99_ms;
};

double Percentile(std::vector<double>& values, double share) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

storage::StoreOptions OptionsOf(const Settings& settings) {
  storage::StoreOptions options;
  options.memory.capacity_bytes = 6LL << 30;
  options.memory.read_bytes_max = 4LL << 30;
  options.hybrid.memory_spill_high_watermark = 0.99;  // flushed when asked, not before
  options.local_file.direct_io_append_enable = !settings.buffered_appends;
  options.local_file.read_mode = settings.direct_reads ? "direct" : "buffered";
  return options;
}

void RunOnce(const Settings& settings, EngineKind engine, Arena& arena, Figures& figures,
             bool keep) {
  const FreshFolder folder(settings.data_path);
  StoreLoad load(arena, folder.path(), OptionsOf(settings), engine);
  const LoadShape cold{.partitions = settings.readers,
                       .block_bytes = kBlockBytes,
                       .blocks_per_batch = settings.partition_bytes / kBlockBytes,
                       .partitions_per_send = 1};
  load.Fill(cold);
  load.AskForAll();
  load.WaitFlushed(cold.round_bytes());
  Forget(folder.path());
  const LoadShape fresh{.shuffle = 1,
                        .partitions = kFlushPartitions,
                        .block_bytes = kBlockBytes,
                        .blocks_per_batch = static_cast<int>(
                            settings.flush_bytes / (int64_t{kFlushPartitions} * kBlockBytes))};
  load.Fill(fresh);

  Readers readers(load.store(), settings);
  const SteadyTime begin = std::chrono::steady_clock::now();
  const Stopwatch watch;
  load.AskForAll();
  readers.Start();
  load.WaitFlushed(fresh.round_bytes());
  const double flush_seconds = SecondsSince(begin);
  const double read_seconds = readers.Wait(begin);
  const Usage usage = watch.Elapsed();
  if (!keep) return;
  figures.all.push_back(usage);
  figures.flush_seconds.push_back(flush_seconds);
  figures.read_seconds.push_back(read_seconds);
  figures.p50_ms.push_back(Percentile(readers.latencies(), 0.5) * 1e3);
  figures.p99_ms.push_back(Percentile(readers.latencies(), 0.99) * 1e3);
  fmt::print(
      "{:<9} flush {:5.2f} s, reads {:5.2f} s, {:5.2f} CPU s ({:5.2f} of the machine), p50 "
      "{:6.1f} ms, p99 {:6.1f} ms\n",
      engine == EngineKind::kUring ? "io_uring" : "pool", flush_seconds, read_seconds,
      usage.cpu_seconds, usage.machine_cpu_seconds, figures.p50_ms.back(), figures.p99_ms.back());
}

void Run(const Settings& settings) {
  Arena arena;
  Figures uring;
  Figures pool;
  for (int round = 0; round <= settings.rounds; ++round) {
    const bool keep = round > 0;  // the first one warms
    RunOnce(settings, EngineKind::kUring, arena, uring, keep);
    RunOnce(settings, EngineKind::kPool, arena, pool, keep);
  }
  const auto ratio = [](const std::vector<double>& a, const std::vector<double>& b) {
    return Median(a) / Median(b);
  };
  fmt::print(
      "medians, io_uring over pool: flush time {:.2f}, read time {:.2f}, CPU {:.2f} (machine "
      "{:.2f}), read p50 {:.2f}, p99 {:.2f}\n",
      ratio(uring.flush_seconds, pool.flush_seconds), ratio(uring.read_seconds, pool.read_seconds),
      MedianOf(uring.all).cpu_seconds / MedianOf(pool.all).cpu_seconds,
      MedianOf(uring.all).machine_cpu_seconds / MedianOf(pool.all).machine_cpu_seconds,
      ratio(uring.p50_ms, pool.p50_ms), ratio(uring.p99_ms, pool.p99_ms));
}

}  // namespace
}  // namespace dovetail::bench

int main(int argc, char** argv) {
  dovetail::bench::Settings settings;
  CLI::App app("Cold reads beside a flush, by rings and by the pool.");
  app.add_option("--data-path", settings.data_path, "an existing folder on the disk to measure")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--readers", settings.readers)->check(CLI::Range(1, 10'000));
  app.add_option("--read-bytes", settings.read_bytes)->check(CLI::Range(1, 1 << 30));
  app.add_option("--partition-bytes", settings.partition_bytes, "a multiple of 64 KiB")
      ->check(CLI::Range(64 << 10, 1 << 30));
  app.add_option("--flush-bytes", settings.flush_bytes)->check(CLI::Range(64'000'000L, 1L << 32));
  app.add_option("--rounds", settings.rounds)->check(CLI::Range(1, 100));
  app.add_flag("--direct-reads", settings.direct_reads, "past the page cache");
  app.add_flag("--buffered-appends", settings.buffered_appends, "through the page cache");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::warn);
  dovetail::bench::Run(settings);
  return 0;
}
