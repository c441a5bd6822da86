// The engine of rings beside the engine of threads, fio and bare loops, for the same work on the
// same disk, in turns, on memory that is warm.
//
//   engine_bench --data-path DIR [--only TEXT --total-bytes N --reads N --rounds N ...]
#include <fcntl.h>
#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <sys/uio.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/check.h"
#include "engine/pool/pool_engine.h"
#include "engine/uring/uring_engine.h"
#include "tests/bench/bench_tools.h"
#include "tests/bench/engine_load.h"
#include "tests/bench/fio.h"
#include "tests/bench/sequential_writer.h"

namespace dovetail::bench {
namespace {

using engine::IoMode;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kBlockBytes = 64 << 10;
// After writing, before reading is measured: the disk has caches of its own.
constexpr std::chrono::seconds kDiskRest{1};

struct Settings {
  std::string data_path;
  std::string only;
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
    AppendToOneFile(/*aligned=*/true);
    AppendToOneFile(/*aligned=*/false);
    AppendToManyFiles();
    AppendBuffered(1);
    AppendBuffered(2);
    ReadRandomPages();
  }

 private:
  using Work = std::function<Usage(engine::Engine&)>;
  struct Contender {
    std::string name;
    std::function<Usage(const std::string& folder)> run;
  };

  void AppendToOneFile(bool aligned) {
    const int64_t total = settings_.total_bytes;
    const int64_t call = settings_.slabs * kMiB;
    const AppendShape shape{.bytes_per_file = total,
                            .append_bytes = call,
                            .piece_bytes = aligned ? kMiB : kBlockBytes,
                            .aligned = aligned};
    Compare(fmt::format("direct append, 1 file, {} MiB a call, memory {}", settings_.slabs,
                        aligned ? "aligned" : "gathered"),
            total, Engines([=](engine::Engine& engine) { return AppendAll(engine, shape); }),
            {{"fio io_uring",
              [=, this](const std::string& folder) {
                return RunFio(folder, {.bytes = total, .depth = settings_.slabs, .fixed = true});
              }},
             {"one thread, pwrite",
              [=](const std::string& folder) { return WriteSequentially(folder, total); }}});
  }

  void AppendToManyFiles() {
    const int64_t total = settings_.total_bytes;
    constexpr int kFiles = 16;
    const AppendShape shape{.files = kFiles, .bytes_per_file = total / kFiles};
    Compare("direct append, 16 files, 1 MiB a call, memory aligned", total,
            Engines([=](engine::Engine& engine) { return AppendAll(engine, shape); }),
            {{"fio io_uring", [=](const std::string& folder) {
                return RunFio(folder,
                              {.bytes = total, .files = kFiles, .depth = kFiles, .fixed = true});
              }}});
  }

  void AppendBuffered(int files) {
    const int64_t total = settings_.total_bytes;
    const AppendShape shape{.files = files,
                            .bytes_per_file = total / files,
                            .append_bytes = 4 * kMiB,
                            .piece_bytes = 4096,
                            .mode = IoMode::kBuffered};
    Compare(fmt::format("buffered append, {} file(s), 1,024 pieces of 4 KiB in a call", files),
            total, Engines([=](engine::Engine& engine) { return AppendAll(engine, shape); }),
            {{"one thread, pwritev",
              [=](const std::string& folder) { return WriteVectored(folder, total); }}});
  }

  void ReadRandomPages() {
    const int64_t file_bytes = settings_.total_bytes;
    const ReadShape shape{.file_bytes = file_bytes, .reads = settings_.reads};
    const int64_t bytes = shape.reads * shape.read_bytes;
    const auto fio = [=, this](const char* engine, int depth) {
      return [=, this](const std::string& folder) {
        MakeFile(folder, file_bytes);
        return RunFio(folder, {.work = "randread",
                               .engine = engine,
                               .filename = "read",
                               .block_bytes = shape.read_bytes,
                               .bytes = depth > 1 ? bytes : bytes / 4,
                               .depth = depth,
                               .fixed = depth > 1});
      };
    };
    Compare("random direct reads, 4 KiB, 64 at once", bytes,
            Engines([=](engine::Engine& engine) { return ReadRandomly(engine, shape); },
                    [=, this](const std::string& folder) { MakeFile(folder, file_bytes); }),
            {{"fio io_uring", fio("io_uring", shape.at_once)},
             {"fio psync", [=](const std::string& folder) {
                Usage usage = fio("psync", 1)(folder);  // of a quarter of the reads
                usage.seconds *= 4;
                usage.cpu_seconds *= 4;
                usage.machine_cpu_seconds *= 4;
                return usage;
              }}});
  }

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

  void MakeFile(const std::string& folder, int64_t bytes) {
    const auto maker = Start(/*uring=*/false, folder);
    MakeFileToRead(*maker, bytes);
    DOVETAIL_CHECK(maker->Stop(TimePoint::max()));
    std::this_thread::sleep_for(kDiskRest);
  }

  std::vector<Contender> Engines(
      const Work& work, const std::function<void(const std::string& folder)>& prepare = {}) {
    std::vector<Contender> engines;
    for (const bool uring : {true, false}) {
      engines.push_back({uring ? "io_uring" : "pool", [=, this](const std::string& folder) {
                           if (prepare) prepare(folder);
                           const auto engine = Start(uring, folder);
                           const Usage usage = work(*engine);
                           DOVETAIL_CHECK(engine->Stop(TimePoint::max()));
                           return usage;
                         }});
    }
    return engines;
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
    const auto write_all = [&] {
      const Stopwatch watch;
      for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(memory.size())) {
        DOVETAIL_CHECK(pwritev(fd, parts.data(), kPieces, at) ==
                       static_cast<ssize_t>(memory.size()));
      }
      return watch.Elapsed();
    };
    write_all();  // as for the engines: over what is in the page cache already
    const Usage usage = write_all();
    close(fd);
    return usage;
  }

  // In turns; the first contender's medians over those of each other one.
  void Compare(const std::string& title, int64_t bytes, std::vector<Contender> contenders,
               const std::vector<Contender>& others) {
    if (title.find(settings_.only) == std::string::npos) return;
    contenders.insert(contenders.end(), others.begin(), others.end());
    fmt::print("{}\n", title);
    std::vector<std::vector<Usage>> usages(contenders.size());
    for (int round = 0; round <= settings_.rounds; ++round) {
      for (size_t i = 0; i < contenders.size(); ++i) {
        const FreshFolder folder(settings_.data_path);
        const Usage usage = contenders[i].run(folder.path());
        if (round == 0) continue;  // it warms
        Report("  " + contenders[i].name, bytes, usage);
        usages[i].push_back(usage);
      }
    }
    const Usage first = MedianOf(usages[0]);
    for (size_t i = 0; i < contenders.size(); ++i) {
      const Usage usage = MedianOf(usages[i]);
      Report("median " + contenders[i].name, bytes, usage);
      if (i == 0) continue;
      fmt::print(
          "  io_uring has {:.2f} of its speed at {:.2f} of its CPU ({:.2f} of the machine's)\n",
          usage.seconds / first.seconds, first.cpu_seconds / usage.cpu_seconds,
          first.machine_cpu_seconds / usage.machine_cpu_seconds);
    }
    fmt::print("\n");
  }

  const Settings settings_;
  Arena arena_;
};

}  // namespace
}  // namespace dovetail::bench

int main(int argc, char** argv) {
  dovetail::bench::Settings settings;
  CLI::App app("The io_uring engine beside the pool engine.");
  app.add_option("--data-path", settings.data_path, "an existing folder on the disk to measure")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--only", settings.only, "only comparisons with this in their title");
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
