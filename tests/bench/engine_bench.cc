// The engine of rings beside the engine of threads on the same disk, in turns, on memory that is
// warm; fio for the same work is in docs/performance.md.
//
//   engine_bench --data-path DIR [--total-bytes N --reads N --rounds N --threads N --io-depth N]
#include <fcntl.h>
#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <sys/uio.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/check.h"
#include "engine/pool/pool_engine.h"
#include "engine/uring/uring_engine.h"
#include "tests/bench/bench_tools.h"
#include "tests/bench/engine_load.h"
#include "tests/bench/sequential_writer.h"

namespace dovetail::bench {
namespace {

using engine::IoMode;

struct Settings {
  std::string data_path;
  int64_t total_bytes = 2LL << 30;
  int64_t reads = 200'000;
  int rounds = 3;
  int threads = 2;
  int io_depth = 64;
  int slabs = 16;
  int io_threads = 4;
};

class Bench {
 public:
  explicit Bench(const Settings& settings) : settings_(settings) {}

  void Run() {
    const int64_t total = settings_.total_bytes;
    const AppendShape one{.bytes_per_file = total, .append_bytes = 16 << 20};
    const AppendShape many{.files = 16, .bytes_per_file = total / 16};
    const AppendShape vectored{.bytes_per_file = total,
                               .append_bytes = 4 << 20,
                               .piece_bytes = 4096,
                               .mode = IoMode::kBuffered};
    Compare(
        "direct append, 1 file, 16 MiB a call", total,
        [&](engine::Engine& engine) { return AppendAll(engine, one); },
        [&](const std::string& folder) { return WriteSequentially(folder, total); });
    Compare(
        "direct append, 16 files, 1 MiB a call", total,
        [&](engine::Engine& engine) { return AppendAll(engine, many); }, nullptr);
    Compare(
        "buffered append, 1,024 pieces of 4 KiB", total,
        [&](engine::Engine& engine) { return AppendAll(engine, vectored); },
        [&](const std::string& folder) { return WriteVectored(folder, total); });
    const ReadShape reads{.file_bytes = total, .reads = settings_.reads};
    Compare(
        "random direct reads, 4 KiB, 64 at once", settings_.reads * reads.read_bytes,
        [&](engine::Engine& engine) {
          MakeFileToRead(engine, total);
          return ReadRandomly(engine, reads);
        },
        nullptr);
  }

 private:
  using Work = std::function<Usage(engine::Engine&)>;
  using Bare = std::function<Usage(const std::string& folder)>;

  std::unique_ptr<engine::Engine> Start(bool uring, const std::string& folder) {
    if (uring) {
      auto engine = engine::UringEngine::Start({.data_path = folder,
                                                .threads = settings_.threads,
                                                .io_depth = settings_.io_depth,
                                                .slabs = settings_.slabs},
                                               arena_);
      DOVETAIL_CHECK(engine.has_value());
      return std::move(*engine);
    }
    auto engine = engine::PoolEngine::Start(
        {.data_path = folder, .io_threads = settings_.io_threads}, arena_);
    DOVETAIL_CHECK(engine.has_value());
    return std::move(*engine);
  }

  // The same bytes from the same memory by pwritev, and nothing else.
  static Usage WriteVectored(const std::string& folder, int64_t bytes) {
    constexpr size_t kPieces = 1024;
    constexpr size_t kPieceBytes = 4096;
    const int fd = open((folder + "/vectored").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    DOVETAIL_CHECK(fd >= 0 && fallocate(fd, 0, 0, bytes) == 0);
    std::vector<std::byte> memory(kPieces * kPieceBytes, std::byte{'d'});
    std::vector<iovec> parts;
    for (size_t i = 0; i < kPieces; ++i) {
      parts.push_back({memory.data() + i * kPieceBytes, kPieceBytes});
    }
    const Stopwatch watch;
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(memory.size())) {
      DOVETAIL_CHECK(pwritev(fd, parts.data(), kPieces, at) == static_cast<ssize_t>(memory.size()));
    }
    const Usage usage = watch.Elapsed();
    close(fd);
    return usage;
  }

  void Add(const std::string& name, int64_t bytes, const Usage& usage, bool show) {
    if (!show) return;
    Report(name, bytes, usage);
    speed_[name].push_back(usage.BytesPerSecond(bytes) * 1e-9);
    cpu_[name].push_back(usage.cpu_seconds / static_cast<double>(bytes) * 1e9);
  }

  void Compare(const std::string& name, int64_t bytes, const Work& work, const Bare& bare) {
    fmt::print("{}\n", name);
    speed_.clear();
    cpu_.clear();
    for (int round = 0; round <= settings_.rounds; ++round) {
      const bool show = round > 0;  // the first one warms
      for (const bool uring : {true, false}) {
        const FreshFolder folder(settings_.data_path);
        const auto engine = Start(uring, folder.path());
        Add(uring ? "  io_uring" : "  pool", bytes, work(*engine), show);
        DOVETAIL_CHECK(engine->Stop(TimePoint::max()));
      }
      if (bare == nullptr) continue;
      const FreshFolder folder(settings_.data_path);
      Add("  bare loop of one thread", bytes, bare(folder.path()), show);
    }
    for (const auto& [who, speeds] : speed_) {
      fmt::print("{:<28} median {:.2f} GB/s, {:.3f} CPU s/GB\n", who, Median(speeds),
                 Median(cpu_.at(who)));
    }
    fmt::print("  io_uring / pool: {:.2f} of the speed, {:.2f} of the CPU\n\n",
               Median(speed_.at("  io_uring")) / Median(speed_.at("  pool")),
               Median(cpu_.at("  io_uring")) / Median(cpu_.at("  pool")));
  }

  const Settings settings_;
  Arena arena_;
  std::map<std::string, std::vector<double>> speed_;
  std::map<std::string, std::vector<double>> cpu_;
};

}  // namespace
}  // namespace dovetail::bench

int main(int argc, char** argv) {
  dovetail::bench::Settings settings;
  CLI::App app("The io_uring engine beside the pool engine.");
  app.add_option("--data-path", settings.data_path, "an existing folder on the disk to measure")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--total-bytes", settings.total_bytes, "a multiple of 256 MiB")
      ->check(CLI::Range(int64_t{256} << 20, int64_t{1} << 40));
  app.add_option("--reads", settings.reads)->check(CLI::Range(1, 1 << 30));
  app.add_option("--rounds", settings.rounds)->check(CLI::Range(1, 100));
  app.add_option("--threads", settings.threads, "rings")->check(CLI::Range(1, 64));
  app.add_option("--io-depth", settings.io_depth)->check(CLI::Range(1, 4096));
  app.add_option("--slabs", settings.slabs)->check(CLI::Range(1, 1024));
  app.add_option("--io-threads", settings.io_threads, "of the pool")->check(CLI::Range(1, 256));
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::warn);
  dovetail::bench::Bench(settings).Run();
  return 0;
}
