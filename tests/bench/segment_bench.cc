// How fast memory goes to disk through the segment store (pool engine), beside one sequential
// direct writer on the same disk. Rounds alternate; the memory is touched before the first one.
//
//   segment_bench --data-path DIR [--partitions N --batch-bytes N --total-bytes N] [--buffered]
//
// Per round: the shuffle is filled into memory (fill), everything is asked to go to disk and waited
// for (flush), the shuffle is ended and its files are waited for (delete). With less memory than
// the total, filling and flushing alternate batch by batch of all partitions.
#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "tests/bench/bench_tools.h"
#include "tests/bench/sequential_writer.h"
#include "tests/bench/store_load.h"

namespace dovetail::bench {
namespace {

struct Settings {
  std::string data_path;
  int32_t partitions = 1000;
  int32_t batch_bytes = 64 << 10;
  int blocks_per_batch = 1;
  int64_t total_bytes = 2LL << 30;
  int rounds = 4;
  bool buffered = false;
};

struct Figures {
  std::vector<double> sequential;
  std::vector<double> flush;
  std::vector<double> cpu;
  std::vector<double> decision;
  double delete_seconds_max = 0;
};

LoadShape ShapeOf(const Settings& settings) {
  return {.partitions = settings.partitions,
          .block_bytes = settings.batch_bytes / settings.blocks_per_batch,
          .blocks_per_batch = settings.blocks_per_batch};
}

storage::StoreOptions OptionsOf(const Settings& settings) {
  storage::StoreOptions options;
  options.memory.capacity_bytes = 4LL << 30;
  options.hybrid.memory_spill_high_watermark = 0.99;  // flushed when asked, not before
  options.local_file.direct_io_append_enable = !settings.buffered;
  return options;
}

void RunStore(const Settings& settings, Arena& arena, Figures& figures, bool show) {
  const FreshFolder folder(settings.data_path);
  StoreLoad load(arena, folder.path(), OptionsOf(settings));
  const LoadShape shape = ShapeOf(settings);
  Usage fill;
  Usage flush;
  int64_t bytes = 0;
  for (; bytes < settings.total_bytes; bytes += shape.round_bytes()) {
    const Stopwatch filling;
    load.Fill(shape);
    const Usage filled = filling.Elapsed();
    fill.seconds += filled.seconds;
    fill.cpu_seconds += filled.cpu_seconds;
    const Stopwatch flushing;
    const double decision = load.AskForAll();
    load.WaitFlushed(shape.round_bytes());
    const Usage flushed = flushing.Elapsed();
    flush.seconds += flushed.seconds;
    flush.cpu_seconds += flushed.cpu_seconds;
    if (show) figures.decision.push_back(decision);
  }
  const storage::DiskStats& disk = load.store().disks()[0]->stats();
  const double group_mib = static_cast<double>(disk.appended_bytes_total.load()) /
                           static_cast<double>(disk.appended_groups_total.load()) / (1 << 20);
  const Usage removal = load.Remove();
  if (!show) return;
  Report("store: fill", bytes, fill);
  Report(fmt::format("store: flush (groups of {:.1f} MiB)", group_mib), bytes, flush);
  fmt::print("{:<44} {:6.3f} s\n", "store: delete", removal.seconds);
  figures.flush.push_back(flush.BytesPerSecond(bytes));
  figures.cpu.push_back(flush.cpu_seconds / static_cast<double>(bytes) * 1e9);
  figures.delete_seconds_max = std::max(figures.delete_seconds_max, removal.seconds);
}

void RunSequential(const Settings& settings, Figures& figures, bool show) {
  const FreshFolder folder(settings.data_path);
  const int64_t bytes = settings.total_bytes >> 20 << 20;
  const Usage usage = WriteSequentially(folder.path(), bytes);
  if (!show) return;
  Report("one sequential direct writer", bytes, usage);
  figures.sequential.push_back(usage.BytesPerSecond(bytes));
}

void Run(const Settings& settings) {
  Arena arena;
  Figures figures;
  for (int round = 0; round <= settings.rounds; ++round) {
    const bool show = round > 0;  // the first one warms
    RunSequential(settings, figures, show);
    RunStore(settings, arena, figures, show);
  }
  fmt::print(
      "median: flush {:.2f} GB/s, {:.2f} of one sequential writer ({:.2f} GB/s), {:.2f} CPU s/GB; "
      "decision {:.0f} us of CPU, longest delete {:.3f} s\n",
      Median(figures.flush) * 1e-9, Median(figures.flush) / Median(figures.sequential),
      Median(figures.sequential) * 1e-9, Median(figures.cpu), Median(figures.decision) * 1e6,
      figures.delete_seconds_max);
}

}  // namespace
}  // namespace dovetail::bench

int main(int argc, char** argv) {
  using dovetail::bench::Settings;
  Settings settings;
  CLI::App app("Flushes through the segment store beside one sequential direct writer.");
  app.add_option("--data-path", settings.data_path, "an existing folder on the disk to measure")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--partitions", settings.partitions)->check(CLI::Range(1, 1 << 20));
  app.add_option("--batch-bytes", settings.batch_bytes, "of one partition in one flush")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--blocks-per-batch", settings.blocks_per_batch)->check(CLI::Range(1, 1 << 20));
  app.add_option("--total-bytes", settings.total_bytes);
  app.add_option("--rounds", settings.rounds)->check(CLI::Range(1, 100));
  app.add_flag("--buffered", settings.buffered, "appends through the page cache");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::warn);
  dovetail::bench::Run(settings);
  return 0;
}
