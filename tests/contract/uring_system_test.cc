// The io_uring engine on kernels that know less, grant less, or answer oddly.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "engine/uring/uring_choice.h"
#include "tests/contract/disk_suite.h"

namespace dovetail::contract {
namespace {

using engine::FileRef;
using engine::IoMode;
using engine::RingCounters;
using engine::UringOptions;

constexpr int64_t kPage = 4096;

ErrorCode CodeOf(const auto& result) { return result.error().code; }

// An engine on a ring with rules.
struct RingBench {
  explicit RingBench(const RingRules& rules, UringOptions options = {}) : folder(DiskFolder()) {
    options.data_path = folder.path();
    auto started = engine::UringEngine::Start(options, arena, Systems(rules));
    EXPECT_TRUE(started.has_value());
    if (started) engine = std::move(*started);
  }

  engine::UringSystems Systems(const RingRules& rules) const {
    return {.calls = calls, .ring = [rules, calls = calls](int shard) {
              RingRules own = rules;
              own.seed += static_cast<uint64_t>(shard);
              return std::make_unique<ScriptedRing>(calls, own);
            }};
  }
  int64_t Sum(std::atomic<int64_t> RingCounters::*count) const {
    int64_t sum = 0;
    for (int shard = 0; shard < engine->shards(); ++shard) {
      sum += (engine->ring_counters(shard)->*count).load();
    }
    return sum;
  }

  TemporaryFolder folder;
  std::shared_ptr<ScriptedCalls> calls = std::make_shared<ScriptedCalls>();
  Arena arena;
  std::unique_ptr<engine::UringEngine> engine;
};

Bytes PipeBack(engine::Engine& engine, const FileRef& file, int64_t length) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  Pending<Status> moved;
  engine.ToPipe({.file = file, .length = length, .pipe = ends[1]}, moved.Done());
  EXPECT_TRUE(moved.Wait());
  close(ends[1]);
  Bytes bytes(static_cast<size_t>(length) + 1);
  size_t at = 0;
  for (ssize_t got = 1; got > 0; at += static_cast<size_t>(got)) {
    got = read(ends[0], bytes.data() + at, bytes.size() - at);
  }
  close(ends[0]);
  bytes.resize(at);
  return bytes;
}

// Several files at once, all ways in and all ways out.
void UseAll(engine::Engine& engine, int files = 6, int rounds = 4) {
  constexpr int64_t kSize = 40 * kPage;
  std::vector<FileRef> opened;
  for (int i = 0; i < files; ++i) {
    const Result<FileRef> file = Open(engine, fmt::format("all/{}", i), true);
    ASSERT_TRUE(file);
    opened.push_back(*file);
    ASSERT_TRUE(Reserve(engine, *file, 2 * kSize));
  }
  for (int round = 0; round < rounds; ++round) {
    std::vector<Pending<Status>> appends;
    for (size_t i = 0; i < opened.size(); ++i) {
      const Bytes bytes = Pattern(kSize, static_cast<uint64_t>(round) * 100 + i);
      appends.push_back(
          StartAppend(engine, {.file = opened[i],
                               .offset = round * kSize,
                               .data = ChainOf(bytes, 5000),
                               .mode = i % 2 == 0 ? IoMode::kDirect : IoMode::kBuffered}));
    }
    for (auto& append : appends) ASSERT_TRUE(append.Wait());
    std::vector<Pending<Result<SliceChain>>> reads;
    for (const FileRef& file : opened) {
      for (const IoMode mode : {IoMode::kDirect, IoMode::kBuffered}) {
        reads.push_back(StartRead(
            engine, {.file = file, .offset = round * kSize, .length = kSize, .mode = mode}));
      }
    }
    for (size_t i = 0; i < reads.size(); ++i) {
      const Result<SliceChain> read = reads[i].Wait();
      ASSERT_TRUE(read);
      ASSERT_TRUE(Flat(*read) == Pattern(kSize, static_cast<uint64_t>(round) * 100 + i / 2));
    }
  }
  for (size_t i = 0; i < opened.size(); ++i) {
    Bytes first = Pattern(kSize, i);
    first.resize(50'000);
    ASSERT_TRUE(PipeBack(engine, opened[i], 50'000) == first);
  }
}

struct Kernel510 {
  static RingRules Rules() {
    return {.flags_refused = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                             IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL,
            .features_missing = IORING_FEAT_EXT_ARG | IORING_FEAT_RSRC_TAGS | IORING_FEAT_CQE_SKIP,
            .refuses_limits = true};
  }
};

TEST(UringSystem, ThisKernelIsUsedToTheFull) {
  const RingBench bench({});
  UseAll(*bench.engine);
  EXPECT_EQ(bench.engine->info().name, "io_uring");
  EXPECT_GT(bench.Sum(&RingCounters::requests), 0);
  EXPECT_EQ(bench.Sum(&RingCounters::in_kernel), 0);
  if (bench.engine->info().features.find("fixed_files") != std::string::npos) {
    EXPECT_GT(bench.Sum(&RingCounters::fixed_file_requests), 0);
  }
  if (bench.engine->info().features.find("fixed_buffers") != std::string::npos) {
    EXPECT_GT(bench.Sum(&RingCounters::fixed_buffer_requests), 0);
  }
  EXPECT_EQ(bench.Sum(&RingCounters::splice_bytes), 6 * 50'000);
  EXPECT_GT(bench.Sum(&RingCounters::splices), 0);
  EXPECT_EQ(bench.engine->counters()->pipe_bytes, 6 * 50'000);
}

TEST(UringSystem, FlagsAreTriedBestFirst) {
  const RingBench middle({.flags_refused = IORING_SETUP_SINGLE_ISSUER});
  EXPECT_TRUE(middle.engine->info().features.starts_with("coop_taskrun"));
  UseAll(*middle.engine);
  const RingBench old(Kernel510::Rules());
  EXPECT_TRUE(old.engine->info().features.starts_with("plain,"));
  EXPECT_EQ(old.engine->info().features.find("ext_arg"), std::string::npos);
  UseAll(*old.engine);
}

TEST(UringSystem, DeadlinesWorkWithoutTimeoutsInTheCall) {
  const RingBench bench(Kernel510::Rules(), {.threads = 1, .io_depth = 1});
  const Result<FileRef> file = Open(*bench.engine, "file", true);
  ASSERT_TRUE(file);
  // Idle but for the deadline, again and again, nearer and farther.
  for (const int wait_ms : {5, 50, 1, 20}) {
    const Bytes bytes = Pattern(kPage, 1);
    bench.calls->Next(Kernel::kPwritev, {.os_error = EAGAIN});
    bench.calls->Next(Kernel::kPwritev, {.os_error = EAGAIN});  // asks again after a pause
    ASSERT_TRUE(Append(*bench.engine, {.file = *file, .data = ChainOf(bytes)}));
    engine::ReadRequest read{.file = *file, .length = kPage};
    read.deadline = std::chrono::steady_clock::now() + Milliseconds(wait_ms);
    const Result<Bytes> got = Read(*bench.engine, std::move(read));
    EXPECT_TRUE(got || CodeOf(got) == ErrorCode::kTimeout);
  }
}

TEST(UringSystem, LessIsGrantedAndAllWorks) {
  const RingBench bench({.opcodes_missing = {IORING_OP_SPLICE},
                         .refuses_files = true,
                         .refuses_buffers = true,
                         .refuses_limits = true});
  UseAll(*bench.engine);
  EXPECT_EQ(bench.Sum(&RingCounters::fixed_file_requests), 0);
  EXPECT_EQ(bench.Sum(&RingCounters::fixed_buffer_requests), 0);
  EXPECT_EQ(bench.Sum(&RingCounters::file_table_refused), 2);
  EXPECT_EQ(bench.Sum(&RingCounters::slabs_refused), 2);
  EXPECT_EQ(bench.Sum(&RingCounters::splices), 0);
  EXPECT_EQ(bench.Sum(&RingCounters::splice_refused), 6);
  EXPECT_EQ(bench.engine->counters()->pipe_bytes, 6 * 50'000);
}

TEST(UringSystem, MoreFilesThanPlaces) {
  const RingBench bench({}, {.threads = 1, .fixed_files_max = 3});
  if (bench.engine->info().features.find("fixed_files") == std::string::npos) GTEST_SKIP();
  UseAll(*bench.engine);  // and closes them
  EXPECT_GT(bench.Sum(&RingCounters::file_table_full), 0);
  const int64_t before = bench.Sum(&RingCounters::fixed_file_requests);
  const Result<FileRef> file = Open(*bench.engine, "next", true);
  ASSERT_TRUE(file);
  // The places are free again.
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Append(*bench.engine,
                       {.file = *file, .offset = i * kPage, .data = ChainOf(Pattern(kPage, 1))}));
  }
  EXPECT_GT(bench.Sum(&RingCounters::fixed_file_requests), before);
}

TEST(UringSystem, PlacesGoWithTheDescriptors) {
  const RingBench bench({}, {.threads = 1, .descriptors_max = 4, .fixed_files_max = 2});
  if (bench.engine->info().features.find("fixed_files") == std::string::npos) GTEST_SKIP();
  std::vector<FileRef> files;
  for (int i = 0; i < 8; ++i) files.push_back(*Open(*bench.engine, std::to_string(i), true));
  for (int round = 0; round < 3; ++round) {
    for (const FileRef& file : files) {
      ASSERT_TRUE(
          Append(*bench.engine,
                 {.file = file, .offset = round * kPage, .data = ChainOf(Pattern(kPage, 1))}));
    }
  }
  EXPECT_EQ(bench.Sum(&RingCounters::fixed_file_requests), 24);
  EXPECT_EQ(bench.Sum(&RingCounters::file_table_full), 0);
}

// Opens files when it may, and comes back from reserving when it may.
class GatedCalls : public ScriptedCalls {
 public:
  int OpenBelow(int folder, const char* path, int flags, int mode) override {
    opening_shut.wait(true);
    return ScriptedCalls::OpenBelow(folder, path, flags, mode);
  }
  int Fallocate(int fd, int64_t offset, int64_t length) override {
    const int result = ScriptedCalls::Fallocate(fd, offset, length);
    reserving_shut.wait(true);
    return result;
  }
  static void Open(std::atomic<bool>& shut) {
    shut = false;
    shut.notify_all();
  }
  std::atomic<bool> opening_shut{false};
  std::atomic<bool> reserving_shut{false};
};

// An append holds the only slab and wants to go on, and in the same turn another comes that wants
// one: the first must not have to wait behind the second.
TEST(UringSystem, WhoHoldsASlabGoesOnBeforeWhoWantsOne) {
  const TemporaryFolder folder(DiskFolder());
  const auto calls = std::make_shared<GatedCalls>();
  Arena arena;
  const auto engine = *engine::UringEngine::Start(
      {.data_path = folder.path(), .threads = 1, .io_depth = 4, .descriptors_max = 4, .slabs = 1},
      arena,
      {.calls = calls, .ring = [calls](int) { return std::make_unique<ScriptedRing>(calls); }});
  std::vector<FileRef> files;
  for (int i = 0; i < 3; ++i) files.push_back(*Open(*engine, std::to_string(i), true));
  if (files[0]->direct_alignment() == 1) GTEST_SKIP() << "no direct I/O here";
  const Bytes bytes = Pattern(2 * kPage, 1);
  const auto request_to = [&](const FileRef& file) {
    return engine::AppendRequest{
        .file = file,
        .data = ChainOf(bytes, 1000),
        .mode = IoMode::kDirect,
        .deadline = std::chrono::steady_clock::now() + Milliseconds(10'000)};
  };
  calls->Next(Kernel::kPwritev, {.short_bytes = 0});
  calls->Hang(Kernel::kPwritev);
  auto holds = StartAppend(*engine, request_to(files[2]));
  calls->WaitUntilHung(Kernel::kPwritev, 1);
  calls->opening_shut = true;
  auto wants = StartAppend(*engine, request_to(files[0]));  // closed by now
  Pending<bool> opened;
  ASSERT_TRUE(engine->Post(0, [&, done = opened.Done()]() mutable {
    calls->Release();  // the next turn sees the short result
    engine->Post(0, [&, done = std::move(done)]() mutable {
      GatedCalls::Open(calls->opening_shut);
      while (engine->counters()->reopened == 0) std::this_thread::yield();
      std::this_thread::sleep_for(Milliseconds(20));  // until the shard is told
      done(true);
    });
  }));
  EXPECT_TRUE(opened.Wait());
  EXPECT_TRUE(holds.Wait());
  EXPECT_TRUE(wants.Wait());
}

TEST(UringSystem, AReservationThatWasCutAwayIsMadeAgain) {
  const TemporaryFolder folder(DiskFolder());
  const auto calls = std::make_shared<GatedCalls>();
  Arena arena;
  const auto ring = [calls](int) { return std::make_unique<ScriptedRing>(calls); };
  const auto engine = *engine::UringEngine::Start({.data_path = folder.path()}, arena,
                                                  {.calls = calls, .ring = ring});
  const Result<FileRef> file = Open(*engine, "file", true);
  ASSERT_TRUE(file);
  calls->reserving_shut = true;
  Pending<Status> reserved;
  engine->Reserve(*file, 64 * kPage, reserved.Done());
  while (std::filesystem::file_size(folder.path() + "/file") == 0) std::this_thread::yield();
  // It has the space and has not said so yet when an append fails and is cut back.
  calls->Next(Kernel::kPwritev, {.os_error = EIO});
  EXPECT_FALSE(Append(*engine, {.file = *file, .data = ChainOf(Pattern(kPage, 1))}));
  GatedCalls::Open(calls->reserving_shut);
  EXPECT_TRUE(reserved.Wait());
  ASSERT_TRUE(Reserve(*engine, *file, 64 * kPage));
  EXPECT_EQ(std::filesystem::file_size(folder.path() + "/file"), 64u * kPage);
}

TEST(UringSystem, NothingIsWrittenBehindAHole) {
  const RingBench bench({});
  UseAll(*bench.engine);
  const Result<FileRef> file = Open(*bench.engine, "cut", true);
  ASSERT_TRUE(file);
  ASSERT_TRUE(Append(*bench.engine, {.file = *file, .data = ChainOf(Pattern(4 * kPage, 1))}));
  ASSERT_TRUE(Append(*bench.engine, {.file = *file, .offset = 4 * kPage, .data = {}}));
  const std::string path = bench.folder.path() + "/cut";
  std::filesystem::resize_file(path, kPage);
  const Status behind = Append(
      *bench.engine, {.file = *file, .offset = 4 * kPage, .data = ChainOf(Pattern(kPage, 2))});
  ASSERT_FALSE(behind);
  EXPECT_EQ(behind.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(std::filesystem::file_size(path), static_cast<size_t>(kPage));
}

TEST(UringSystem, TooLittleMemoryMakesASmallerRing) {
  const RingBench bench({.entries_max = 4}, {.io_depth = 64});
  UseAll(*bench.engine);
  EXPECT_EQ(bench.Sum(&RingCounters::overflows), 0);
}

TEST(UringSystem, ARingOfOneEntryWithAQueueThatOverflows) {
  const RingBench bench({}, {.threads = 1, .io_depth = 64, .ring_entries = 1});
  UseAll(*bench.engine, 16);
  const Result<FileRef> file = Open(*bench.engine, "file", true);
  ASSERT_TRUE(file);
  const Bytes bytes = Pattern(200 * kPage, 1);
  ASSERT_TRUE(Append(*bench.engine, {.file = *file, .data = ChainOf(bytes)}));
  std::vector<Pending<Result<SliceChain>>> reads;
  for (int i = 0; i < 200; ++i) {
    reads.push_back(
        StartRead(*bench.engine, {.file = *file, .offset = i * kPage, .length = kPage}));
  }
  for (size_t i = 0; i < reads.size(); ++i) {
    const Result<SliceChain> read = reads[i].Wait();
    ASSERT_TRUE(read);
    const Bytes got = Flat(*read);
    ASSERT_TRUE(
        std::equal(got.begin(), got.end(), bytes.begin() + static_cast<int64_t>(i) * kPage));
  }
  EXPECT_GT(bench.Sum(&RingCounters::overflows), 0);
}

TEST(UringSystem, AKernelThatIsBusyAndWakesThatAreLost) {
  for (const uint64_t seed : {1, 2, 3}) {
    const RingBench bench({.seed = seed,
                           .late_per_mille = 200,
                           .reorders = true,
                           .wakes_lost_per_mille = 400,
                           .enters_busy_per_mille = 300});
    UseAll(*bench.engine);
    EXPECT_GT(bench.Sum(&RingCounters::entries_busy), 0);
  }
}

TEST(UringSystem, WhatIsNeededAndMissingIsSaid) {
  const TemporaryFolder folder(DiskFolder());
  Arena arena;
  const auto start = [&](const RingRules& rules) {
    engine::UringSystems systems;
    systems.ring = [rules](int) {
      return std::make_unique<ScriptedRing>(std::make_shared<ScriptedCalls>(), rules);
    };
    const auto engine = engine::UringEngine::Start({.data_path = folder.path()}, arena, systems);
    EXPECT_FALSE(engine);
    const auto forced = engine::ChooseEngine("io_uring", {.data_path = folder.path()}, systems);
    EXPECT_FALSE(forced);
    const auto chosen = engine::ChooseEngine("auto", {.data_path = folder.path()}, systems);
    EXPECT_TRUE(chosen && !chosen->io_uring);
    return chosen ? chosen->reason : "";
  };
  EXPECT_NE(start({.setup_error = EPERM}).find("not permitted"), std::string::npos);
  EXPECT_NE(start({.setup_error = ENOSYS}).find("no io_uring"), std::string::npos);
  EXPECT_NE(start({.entries_max = 0}).find("setup"), std::string::npos);
  EXPECT_NE(start({.features_missing = IORING_FEAT_NODROP}).find("nodrop"), std::string::npos);
  EXPECT_NE(start({.opcodes_missing = {IORING_OP_READV}}).find("opcodes"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(UringSystem, TheChoiceIsWhatWasAskedForOrWhatWorks) {
  const TemporaryFolder folder(DiskFolder());
  const UringOptions options{.data_path = folder.path()};
  const auto pool = engine::ChooseEngine("pool", options);
  EXPECT_TRUE(pool && !pool->io_uring);
  const auto automatic = engine::ChooseEngine("auto", options);
  ASSERT_TRUE(automatic);
  const auto forced = engine::ChooseEngine("io_uring", options);
  EXPECT_EQ(forced.has_value(), automatic->io_uring);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  // A ring that is granted and does not write is no engine.
  auto calls = std::make_shared<ScriptedCalls>();
  calls->Always(Kernel::kPwritev, {.os_error = EIO});
  engine::UringSystems broken;
  broken.ring = [calls](int) { return std::make_unique<ScriptedRing>(calls); };
  const auto refused = engine::ChooseEngine("auto", options, broken);
  ASSERT_TRUE(refused);
  EXPECT_FALSE(refused->io_uring);
}

}  // namespace
}  // namespace dovetail::contract
