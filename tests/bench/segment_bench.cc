// How fast memory goes to disk through the segment store, by rings and by the pool, beside one
// sequential direct writer and fio on the same disk. Rounds alternate; the memory is touched before
// the first one.
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
#include "tests/bench/fio.h"
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
  std::vector<Usage> flush;
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

const char* NameOf(EngineKind engine) { return engine == EngineKind::kUring ? "io_uring" : "pool"; }

void Add(Usage& sum, const Usage& usage) {
  sum.seconds += usage.seconds;
  sum.cpu_seconds += usage.cpu_seconds;
  sum.machine_cpu_seconds += usage.machine_cpu_seconds;
}

void RunStore(const Settings& settings, EngineKind engine, Arena& arena, Figures& figures,
              bool show) {
  const FreshFolder folder(settings.data_path);
  StoreLoad load(arena, folder.path(), OptionsOf(settings), engine);
  const LoadShape shape = ShapeOf(settings);
  Usage fill;
  Usage flush;
  int64_t bytes = 0;
  for (; bytes < settings.total_bytes; bytes += shape.round_bytes()) {
    const Stopwatch filling;
    load.Fill(shape);
    Add(fill, filling.Elapsed());
    const Stopwatch flushing;
    const double decision = load.AskForAll();
    load.WaitFlushed(shape.round_bytes());
    Add(flush, flushing.Elapsed());
    if (show) figures.decision.push_back(decision);
  }
  const storage::DiskStats& disk = load.store().disks()[0]->stats();
  const double group_mib = static_cast<double>(disk.appended_bytes_total.load()) /
                           static_cast<double>(disk.appended_groups_total.load()) / (1 << 20);
  const Usage removal = load.Remove();
  if (!show) return;
  Report(fmt::format("{}: fill", NameOf(engine)), bytes, fill);
  Report(fmt::format("{}: flush, groups of {:.1f} MiB", NameOf(engine), group_mib), bytes, flush);
  fmt::print("{:<40} {:6.3f} s\n", fmt::format("{}: delete", NameOf(engine)), removal.seconds);
  const auto scale = static_cast<double>(settings.total_bytes) / static_cast<double>(bytes);
  figures.flush.push_back(
      {flush.seconds * scale, flush.cpu_seconds * scale, flush.machine_cpu_seconds * scale});
  figures.delete_seconds_max = std::max(figures.delete_seconds_max, removal.seconds);
}

void RunBeside(const Settings& settings, bool fio, std::vector<Usage>& usages, bool show) {
  const FreshFolder folder(settings.data_path);
  const int64_t bytes = settings.total_bytes >> 20 << 20;
  const Usage usage =
      fio ? RunFio(folder.path(), {.bytes = bytes}) : WriteSequentially(folder.path(), bytes);
  if (!show) return;
  Report(fio ? "fio io_uring, one file" : "one thread, pwrite, one file", bytes, usage);
  usages.push_back(usage);
}

void Summarize(const Settings& settings, const char* name, const Figures& figures, const Usage& fio,
               const Usage& sequential) {
  const Usage flush = MedianOf(figures.flush);
  Report(fmt::format("median {}: flush", name), settings.total_bytes, flush);
  fmt::print(
      "  {:.2f} of the speed of fio, {:.2f} of one pwrite thread; decision {:.0f} us of CPU, "
      "longest delete {:.3f} s\n",
      fio.seconds / flush.seconds, sequential.seconds / flush.seconds,
      Median(figures.decision) * 1e6, figures.delete_seconds_max);
}

void Run(const Settings& settings) {
  Arena arena;
  Figures uring;
  Figures pool;
  std::vector<Usage> fio;
  std::vector<Usage> sequential;
  for (int round = 0; round <= settings.rounds; ++round) {
    const bool show = round > 0;  // the first one warms
    RunBeside(settings, /*fio=*/true, fio, show);
    RunStore(settings, EngineKind::kUring, arena, uring, show);
    RunBeside(settings, /*fio=*/false, sequential, show);
    RunStore(settings, EngineKind::kPool, arena, pool, show);
  }
  Report("median fio", settings.total_bytes, MedianOf(fio));
  Report("median pwrite", settings.total_bytes, MedianOf(sequential));
  Summarize(settings, "io_uring", uring, MedianOf(fio), MedianOf(sequential));
  Summarize(settings, "pool", pool, MedianOf(fio), MedianOf(sequential));
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
