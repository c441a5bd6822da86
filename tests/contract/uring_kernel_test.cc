// The io_uring engine and the kernel that this runs on: refusals in child processes, threads that
// the kernel adds, idleness, cancelling what hangs.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "engine/probe.h"
#include "engine/uring/uring_choice.h"
#include "engine/uring/uring_file.h"
#include "tests/contract/disk_suite.h"
#include "tests/fakes/process_limits.h"

namespace dovetail::contract {
namespace {

using engine::FileRef;
using engine::IoMode;
using engine::UringOptions;
using fakes::ForbidRings;
using fakes::LimitLockedMemory;

constexpr int64_t kMiB = 1 << 20;

struct UringBench {
  explicit UringBench(UringOptions options = {}, engine::UringSystems systems = {})
      : folder(DiskFolder()) {
    options.data_path = folder.path();
    auto started = engine::UringEngine::Start(options, arena, std::move(systems));
    EXPECT_TRUE(started.has_value());
    engine = std::move(*started);
  }
  TemporaryFolder folder;
  Arena arena;
  std::unique_ptr<engine::UringEngine> engine;
};

ErrorCode CodeOf(const auto& result) { return result.error().code; }

// Runs it in a child; true when it says so.
bool InChild(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool WritesAndReads(engine::Engine& engine, IoMode mode) {
  const Result<FileRef> file = Open(engine, "file", true);
  if (!file) return false;
  const Bytes bytes = Pattern(3 * kMiB, 3);
  return Append(engine, {.file = *file, .data = ChainOf(bytes, 100'000), .mode = mode}) &&
         *Read(engine, {.file = *file, .length = 3 * kMiB, .mode = mode}) == bytes &&
         Remove(engine, "file");
}

// Threads by the beginning of their name, and how often they were switched.
struct ThreadFacts {
  int count = 0;
  int64_t switches = 0;
};

// Of this process, those that began later than this: other tests leave hung engines behind.
class NewThreads {
 public:
  NewThreads() {
    ForEach([this](const std::filesystem::path& task) { before_.insert(task); });
  }

  ThreadFacts Named(const std::string& prefix) const {
    ThreadFacts facts;
    ForEach([&](const std::filesystem::path& task) {
      std::string line;
      std::ifstream name(task / "comm");
      if (before_.contains(task) || !std::getline(name, line) || !line.starts_with(prefix)) return;
      ++facts.count;
      std::ifstream status(task / "status");
      while (std::getline(status, line)) {
        const size_t colon = line.find(':');
        if (line.find("ctxt_switches") == std::string::npos) continue;
        facts.switches += std::stoll(line.substr(colon + 1));
      }
    });
    return facts;
  }

 private:
  static void ForEach(const std::function<void(const std::filesystem::path&)>& look) {
    std::error_code gone;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
      look(task.path());
    }
  }

  std::set<std::filesystem::path> before_;
};

TEST(UringKernel, ASeccompFilterGivesThePool) {
  const TemporaryFolder folder(DiskFolder());
  const UringOptions options{.data_path = folder.path()};
  EXPECT_TRUE(InChild([&] {
    if (!ForbidRings()) return false;
    const auto chosen = engine::ChooseEngine("auto", options);
    const auto forced = engine::ChooseEngine("io_uring", options);
    if (!chosen || chosen->io_uring || forced) return false;
    if (chosen->reason.find("seccomp") == std::string::npos) return false;
    if (forced.error().find("localfile_store.engine") == std::string::npos) return false;
    Arena arena;
    auto pool = engine::PoolEngine::Start({.data_path = folder.path()}, arena);
    return pool && WritesAndReads(**pool, IoMode::kDirect);
  }));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(UringKernel, ARingThatMayBeMadeAndNotUsedGivesThePool) {
  const TemporaryFolder folder(DiskFolder());
  EXPECT_TRUE(InChild([&] {
    if (!fakes::ForbidEnteringRings()) return false;
    const auto chosen = engine::ChooseEngine("auto", {.data_path = folder.path()});
    return chosen && !chosen->io_uring && chosen->reason.find("enter") != std::string::npos;
  }));
}

TEST(UringKernel, WithoutAnyLockedMemorySomethingWorks) {
  // Whether a ring itself counts as locked memory depends on the kernel.
  const TemporaryFolder folder(DiskFolder());
  EXPECT_TRUE(InChild([&] {
    if (!LimitLockedMemory(0)) return false;
    const auto chosen = engine::ChooseEngine("auto", {.data_path = folder.path()});
    if (!chosen) return false;
    Arena arena;
    std::unique_ptr<engine::Engine> engine;
    if (chosen->io_uring) {
      engine = std::move(*engine::UringEngine::Start({.data_path = folder.path()}, arena));
    } else {
      engine = std::move(*engine::PoolEngine::Start({.data_path = folder.path()}, arena));
    }
    return WritesAndReads(*engine, IoMode::kDirect) && WritesAndReads(*engine, IoMode::kBuffered);
  }));
}

TEST(UringKernel, WithoutLockedMemoryForSlabsEverythingStillWorks) {
  const TemporaryFolder folder(DiskFolder());
  EXPECT_TRUE(InChild([&] {
    if (!LimitLockedMemory(256 << 10)) return false;
    const auto chosen = engine::ChooseEngine("auto", {.data_path = folder.path()});
    if (!chosen || !chosen->io_uring) return false;
    Arena arena;
    auto uring = engine::UringEngine::Start({.data_path = folder.path()}, arena);
    return uring && (*uring)->ring_counters(0)->slabs_refused == 1 &&
           (*uring)->info().features.find("fixed_buffers") == std::string::npos &&
           WritesAndReads(**uring, IoMode::kDirect) && WritesAndReads(**uring, IoMode::kBuffered);
  }));
}

// A kernel that takes requests in its own time; the shard must not fall asleep over the next one.
TEST(UringKernel, APlaceThatComesLateIsWaitedFor) {
  for (const int depth : {1, 2}) {
    UringBench bench({.threads = 1, .io_depth = depth, .sqpoll = true, .sqpoll_idle_ms = 1});
    std::vector<std::thread> users;
    for (int user = 0; user < 4; ++user) {
      users.emplace_back([&, name = std::to_string(user)] {
        const Result<FileRef> file = Open(*bench.engine, name, true);
        const Bytes bytes = Pattern(3 * kMiB, 3);
        for (int i = 0; i < 30; ++i) {
          EXPECT_TRUE(
              Append(*bench.engine,
                     {.file = *file, .data = ChainOf(bytes, 100'000), .mode = IoMode::kDirect}));
          EXPECT_EQ(*Read(*bench.engine, {.file = *file, .length = 3 * kMiB}), bytes);
        }
      });
    }
    for (std::thread& user : users) user.join();
  }
}

TEST(UringKernel, AForkedChildHarmsNothing) {
  UringBench bench;
  ASSERT_TRUE(WritesAndReads(*bench.engine, IoMode::kDirect));
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  const pid_t child = fork();
  if (child == 0) {
    // Lives on with all descriptors until the parent has stopped, then ends like a program does
    // that failed to become another one.
    close(hold[1]);
    char byte = 0;
    static_cast<void>(!read(hold[0], &byte, 1));
    _exit(0);
  }
  close(hold[0]);
  EXPECT_TRUE(WritesAndReads(*bench.engine, IoMode::kDirect));
  EXPECT_TRUE(WritesAndReads(*bench.engine, IoMode::kBuffered));
  EXPECT_TRUE(bench.engine->Stop(TimePoint::max()));
  close(hold[1]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// The result of an append, once more, for a read that has its place now and is not answered.
TEST(UringKernel, AResultThatComesTwiceEndsTheProcess) {
  const TemporaryFolder folder(DiskFolder());
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    Arena arena;
    const auto calls = std::make_shared<ScriptedCalls>();
    const auto ring = [calls](int) {
      return std::make_unique<ScriptedRing>(calls, RingRules{.repeats_a_result = true});
    };
    auto uring = engine::UringEngine::Start({.data_path = folder.path(), .threads = 1}, arena,
                                            {.calls = calls, .ring = ring});
    const Result<FileRef> file = Open(**uring, "file", true);
    calls->Hang(Kernel::kPreadv);
    const bool written = Append(**uring, {.file = *file, .data = ChainOf(Pattern(4096, 1))}) &&
                         Read(**uring, {.file = *file, .length = 4096});
    _exit(written ? 1 : 2);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
}

TEST(UringKernel, AnIdleEngineDoesNothing) {
  const NewThreads threads;
  UringBench bench;
  ASSERT_TRUE(WritesAndReads(*bench.engine, IoMode::kDirect));
  // What the kernel still had to do for the work before, it has done by then.
  std::this_thread::sleep_for(Milliseconds(200));
  const ThreadFacts before = threads.Named("uring-");
  ASSERT_EQ(before.count, 2);
  const int64_t enters = bench.engine->ring_counters(0)->enters;
  std::this_thread::sleep_for(Milliseconds(2000));
  EXPECT_EQ(threads.Named("uring-").switches, before.switches);
  EXPECT_EQ(bench.engine->ring_counters(0)->enters, enters);
}

TEST(UringKernel, ReservedDirectAppendsNeedNoKernelWorkers) {
  const auto facts = engine::Probe(DiskFolder());
  ASSERT_TRUE(facts);
  if (facts->file_system != "ext4" || !facts->direct_io) GTEST_SKIP() << "of ext4";
  const NewThreads threads;
  UringBench bench;
  engine::Engine& engine = *bench.engine;
  std::atomic<bool> over = false;
  std::atomic<int> workers = 0;
  std::thread watch([&] {
    while (!over) workers = std::max(workers.load(), threads.Named("iou-wrk").count);
  });
  std::vector<FileRef> files;
  for (int i = 0; i < 4; ++i) files.push_back(*Open(engine, std::to_string(i), true));
  const Bytes bytes = Pattern(4 * kMiB, 1);
  const SliceChain data = ChainOf(bytes, 200'000);
  int64_t reserved = 0;
  for (int64_t end = 0; end < 64 * kMiB; end += 4 * kMiB) {
    if (reserved < end + 4 * kMiB) {
      reserved += 16 * kMiB;
      for (const FileRef& file : files) ASSERT_TRUE(Reserve(engine, file, reserved));
    }
    std::vector<Pending<Status>> appends;
    for (const FileRef& file : files) {
      appends.push_back(StartAppend(
          engine, {.file = file, .offset = end, .data = data, .mode = IoMode::kDirect}));
    }
    for (auto& append : appends) ASSERT_TRUE(append.Wait());
  }
  over = true;
  watch.join();
  EXPECT_EQ(workers, 0);
}

TEST(UringKernel, KernelWorkersAreCapped) {
  const NewThreads threads;
  UringBench bench({.threads = 1, .file_workers_max = 2, .pipe_workers_max = 1});
  if (bench.engine->info().features.find("worker_limits") == std::string::npos) GTEST_SKIP();
  engine::Engine& engine = *bench.engine;
  int workers = 0;
  std::vector<Pending<Status>> appends;
  for (int i = 0; i < 24; ++i) {
    const Result<FileRef> file = Open(engine, std::to_string(i), true);
    ASSERT_TRUE(file);
    appends.push_back(StartAppend(engine, {.file = *file, .data = ChainOf(Pattern(kMiB, 1), 500)}));
    workers = std::max(workers, threads.Named("iou-wrk").count);
  }
  for (auto& append : appends) {
    ASSERT_TRUE(append.Wait());
    workers = std::max(workers, threads.Named("iou-wrk").count);
  }
  EXPECT_LE(workers, 3);
}

// A pipe with less room than was promised: nobody reads, so its request hangs in the kernel.
struct HungPipe {
  HungPipe() { EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0); }
  ~HungPipe() {
    for (const int end : ends) close(end);
  }
  int ends[2] = {-1, -1};
};

TEST(UringKernel, ADeadlineCancelsWhatHangsInTheKernel) {
  UringBench bench;
  const Result<FileRef> file = Open(*bench.engine, "file", true);
  ASSERT_TRUE(file);
  ASSERT_TRUE(Append(*bench.engine, {.file = *file, .data = ChainOf(Pattern(kMiB, 1))}));
  const HungPipe hung;
  Pending<Status> moved;
  bench.engine->ToPipe({.file = *file,
                        .length = kMiB,
                        .pipe = hung.ends[1],
                        .deadline = std::chrono::steady_clock::now() + Milliseconds(30)},
                       moved.Done());
  EXPECT_EQ(CodeOf(moved.Wait()), ErrorCode::kTimeout);
  EXPECT_EQ(bench.engine->in_flight(), 0);
}

TEST(UringKernel, StopCancelsWhatHangsInTheKernel) {
  UringBench bench;
  const Result<FileRef> file = Open(*bench.engine, "file", true);
  ASSERT_TRUE(file);
  ASSERT_TRUE(Append(*bench.engine, {.file = *file, .data = ChainOf(Pattern(kMiB, 1))}));
  const HungPipe hung;
  Pending<Status> moved;
  bench.engine->ToPipe({.file = *file, .length = kMiB, .pipe = hung.ends[1]}, moved.Done());
  EXPECT_TRUE(bench.engine->Stop(std::chrono::steady_clock::now() + Milliseconds(30)));
  EXPECT_EQ(CodeOf(moved.Wait()), ErrorCode::kShutdown);
}

TEST(UringKernel, StopMeetsTheShardAtAnyMoment) {
  // The stop of an engine that has just become idle, a little earlier or later each time.
  for (int i = 0; i < 300; ++i) {
    UringBench bench({.threads = 1, .io_depth = 4, .slabs = 1, .fixed_files_max = 0});
    std::atomic<bool> ran = false;
    ASSERT_TRUE(bench.engine->Post(0, [&] { ran = true; }));
    const auto later = std::chrono::steady_clock::now() + std::chrono::nanoseconds(i * 100);
    while (std::chrono::steady_clock::now() < later) {
    }
    ASSERT_TRUE(bench.engine->Stop(TimePoint::max()));
    EXPECT_TRUE(ran);
  }
}

TEST(UringKernel, PollingAndPinningAreOptions) {
  UringBench bench({.sqpoll = true, .sqpoll_idle_ms = 5, .cpus = {0}});
  EXPECT_TRUE(bench.engine->info().features.starts_with("sqpoll"));
  EXPECT_TRUE(WritesAndReads(*bench.engine, IoMode::kDirect));
  EXPECT_TRUE(WritesAndReads(*bench.engine, IoMode::kBuffered));
  int pinned = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream comm(task.path() / "comm");
    if (!std::getline(comm, name) || !name.starts_with("uring-")) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line == "Cpus_allowed_list:\t0") ++pinned;
    }
  }
  EXPECT_EQ(pinned, 2);
  // A processor that is not there.
  Arena arena;
  const auto refused = engine::UringEngine::Start(
      {.data_path = bench.folder.path(), .cpus = {CPU_SETSIZE - 1}}, arena);
  EXPECT_FALSE(refused);
}

TEST(UringKernel, FilesSpreadOverAnyNumberOfShards) {
  for (const int shards : {1, 2, 3, 4, 8}) {
    UringBench bench({.threads = shards, .io_depth = 4, .slabs = 1, .fixed_files_max = 8});
    std::vector<int> files(static_cast<size_t>(shards));
    constexpr int kPerShard = 100;
    for (int i = 0; i < kPerShard * shards; ++i) {
      // Names as the store gives them.
      const auto file =
          Open(*bench.engine, fmt::format("apps/a/{}.1/{}.0.seg", i / 2, i % 2), true);
      ASSERT_TRUE(file);
      ++files[static_cast<size_t>(std::dynamic_pointer_cast<engine::UringFile>(*file)->shard())];
    }
    for (const int count : files) {
      EXPECT_GT(count, kPerShard * 3 / 5) << shards;
      EXPECT_LT(count, kPerShard * 7 / 5) << shards;
    }
  }
}

}  // namespace
}  // namespace dovetail::contract
