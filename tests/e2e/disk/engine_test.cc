// Which engine a running daemon has on its data paths, and that the other one gives the same
// results: rings where they are granted, the pool where a container forbids them, and a refused
// start where the configuration insists.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/disk/disk_suite.h"
#include "tests/e2e/process/subprocess.h"
#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

constexpr int32_t kPartitions = 6;
constexpr int32_t kBlocks = 40;  // of each partition
constexpr size_t kBlockBytes = 100'003;

const SubprocessOptions kContainer{.forbid_rings = true};

bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class EngineTest : public DiskTest {
 protected:
  // Whether this machine grants rings at all.
  bool RingsGranted() {
    const Finished run = RunToEnd({DaemonBinary(), "--probe", PlainPath("asked")});
    return Contains(run.out, "  engine        io_uring");
  }

  bool StartWith(const std::string& engine, const SubprocessOptions& options = {},
                 const Settings& more = {}) {
    Settings settings = {"memory_store.capacity=8M", "localfile_store.flush_group_bytes_max=1M",
                         "localfile_store.engine=" + engine};
    settings.insert(settings.end(), more.begin(), more.end());
    return Start({PlainPath("data")}, settings, options);
  }

  // The start must be refused with exit code 4; its log.
  std::string Refused(const Settings& more, const SubprocessOptions& options = {}) {
    Settings settings = {PathsSetting({PlainPath("data")})};
    settings.insert(settings.end(), more.begin(), more.end());
    DaemonProcess daemon(settings, options);
    EXPECT_EQ(daemon.process().Wait(std::chrono::seconds(60)), 4) << daemon.Log();
    return daemon.Log();
  }

  // Three times what the memory holds, read back whole while it is there.
  void WriteAndReadAll() {
    const Target target = Registered("app", kPartitions);
    for (int32_t i = 0; i < kBlocks; ++i) {
      for (int32_t partition = 0; partition < kPartitions; ++partition) {
        ledger().WriteInTheEnd(target, {MakeBlocks(partition, i, 1, kBlockBytes, i % 3)});
      }
    }
    ledger().ExpectAll(target);
    EXPECT_GT(Metric("dovetail_flushed_bytes_total"), 8 * kMiB);
    EXPECT_GT(Metric("dovetail_read_bytes_total", {{"tier", "file"}}), 8 * kMiB);
    EXPECT_EQ(Metric("dovetail_disk_append_bytes_total"),
              Metric("dovetail_engine_bytes_total", {{"kind", "append"}}));
    EXPECT_EQ(Metric("dovetail_disk_reads_total"),
              Metric("dovetail_engine_operations_total", {{"kind", "read"}}));
  }

  // One path, so one of them.
  std::string EngineOf(const MetricsPage& page) {
    std::string engine;
    for (const Series& series : page.series()) {
      if (series.name == "dovetail_engine_info") engine += series.labels.at("engine");
    }
    return engine;
  }
  std::string ReasonOf(const MetricsPage& page) {
    std::string reason;
    for (const Series& series : page.series()) {
      if (series.name == "dovetail_engine_info") reason += series.labels.at("reason");
    }
    return reason;
  }

  // Of the bytes of all segments.
  static double CachedShare(const std::string& data_path) {
    size_t pages = 0;
    size_t cached = 0;
    const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (const auto& entry : std::filesystem::recursive_directory_iterator(data_path)) {
      if (!entry.is_regular_file() || entry.path().extension() != ".seg") continue;
      const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      const size_t bytes = entry.file_size();
      void* memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
      std::vector<unsigned char> here((bytes + page_bytes - 1) / page_bytes);
      EXPECT_EQ(mincore(memory, bytes, here.data()), 0);
      pages += here.size();
      cached += static_cast<size_t>(
          std::ranges::count_if(here, [](unsigned char page) { return (page & 1) != 0; }));
      munmap(memory, bytes);
      close(fd);
    }
    EXPECT_GT(pages, 0u);
    return static_cast<double>(cached) / static_cast<double>(pages);
  }

  void ExpectRingsMovedAll() {
    const MetricsPage page = daemon().Metrics();
    EXPECT_EQ(EngineOf(page), "io_uring");
    for (const char* kind : {"append", "read"}) {
      const LabelValues labels = {{"kind", kind}};
      EXPECT_EQ(page.Value("dovetail_uring_bytes_total", labels),
                page.Value("dovetail_engine_bytes_total", labels));
      EXPECT_EQ(page.Value("dovetail_uring_operation_seconds_count", labels),
                page.Value("dovetail_engine_operations_total", labels));
      EXPECT_GT(page.Value("dovetail_uring_operation_seconds_sum", labels), 0);
      for (const char* shard : {"0", "1"}) {
        EXPECT_GT(page.Value("dovetail_uring_bytes_total", {{"kind", kind}, {"shard", shard}}), 0);
      }
    }
    EXPECT_GE(page.Value("dovetail_uring_requests_total"),
              page.Value("dovetail_uring_operation_seconds_count"));
    EXPECT_GT(page.Value("dovetail_uring_enters_total"), 0);
    EXPECT_GT(page.Value("dovetail_uring_fixed_file_requests_total"), 0);
    EXPECT_EQ(page.Value("dovetail_uring_overflows_total"), 0);
  }
};

TEST_F(EngineTest, RingsMoveTheBytesWhereTheyAreGranted) {
  if (!RingsGranted()) GTEST_SKIP() << "this machine refuses io_uring";
  ASSERT_TRUE(StartWith("auto"));
  EXPECT_TRUE(Contains(daemon().Log(), "engine io_uring (")) << daemon().Log();
  WriteAndReadAll();
  ExpectRingsMovedAll();
  if (Contains(ReasonOf(daemon().Metrics()), "fixed_buffers")) {
    EXPECT_GT(Metric("dovetail_uring_fixed_buffer_requests_total"), 0);
  }
  Finish();
}

TEST_F(EngineTest, BufferedAppendsGoThroughRingsToo) {
  if (!RingsGranted()) GTEST_SKIP() << "this machine refuses io_uring";
  ASSERT_TRUE(StartWith("io_uring", {}, {"localfile_store.direct_io_append_enable=false"}));
  WriteAndReadAll();
  ExpectRingsMovedAll();
  EXPECT_EQ(Metric("dovetail_uring_fixed_buffer_requests_total"), 0);
  Finish();
}

TEST_F(EngineTest, OptionsReachTheRings) {
  if (!RingsGranted()) GTEST_SKIP() << "this machine refuses io_uring";
  const std::string section = "localfile_store.io_uring_options.";
  ASSERT_TRUE(
      StartWith("io_uring", {},
                {section + "threads=3", section + "sqpoll=true", section + "sqpoll_idle_ms=1",
                 section + "cpus=\"0\"", section + "io_depth=2"}));
  EXPECT_TRUE(Contains(ReasonOf(daemon().Metrics()), "sqpoll")) << ReasonOf(daemon().Metrics());
  WriteAndReadAll();
  const MetricsPage page = daemon().Metrics();
  for (const char* shard : {"0", "1", "2"}) {
    EXPECT_GT(page.Value("dovetail_uring_requests_total", {{"shard", shard}}), 0) << shard;
  }
  int pinned = 0;
  const std::string tasks = "/proc/" + std::to_string(daemon().process().pid()) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    const std::string status = config::ReadText(task.path() / "status");
    if (!status.starts_with("Name:\turing-")) continue;
    EXPECT_TRUE(Contains(status, "Cpus_allowed_list:\t0\n")) << status;
    ++pinned;
  }
  EXPECT_EQ(pinned, 3);
  Finish();
}

// What is read past the page cache leaves nothing in it; index records are few.
TEST_F(EngineTest, DataIsReadTheWayThatIsConfigured) {
  const Finished probe = RunToEnd({DaemonBinary(), "--probe", PlainPath("asked")});
  if (!Contains(probe.out, "  direct I/O    works")) GTEST_SKIP() << "no direct I/O here";
  for (const auto& [mode, cached] :
       {std::pair("auto", false), {"direct", false}, {"buffered", true}}) {
    ASSERT_TRUE(StartWith("auto", {}, {"localfile_store.read_mode=" + std::string(mode)}));
    WriteAndReadAll();
    const double share = CachedShare(data_paths_[0]);
    EXPECT_TRUE(cached ? share > 0.8 : share < 0.2) << mode << ": " << share;
    Finish();
  }
}

TEST_F(EngineTest, AContainerThatForbidsRingsGetsThePoolAndTheSameResults) {
  ASSERT_TRUE(StartWith("auto", kContainer));
  EXPECT_TRUE(Contains(daemon().Log(), "io_uring is refused")) << daemon().Log();
  EXPECT_TRUE(Contains(daemon().Log(), "seccomp")) << daemon().Log();
  WriteAndReadAll();
  const MetricsPage page = daemon().Metrics();
  EXPECT_EQ(EngineOf(page), "pool");
  EXPECT_TRUE(Contains(ReasonOf(page), "seccomp")) << ReasonOf(page);
  EXPECT_FALSE(page.Find("dovetail_uring_requests_total").has_value());
  Finish();
}

TEST_F(EngineTest, ThePoolWhereItIsAskedFor) {
  ASSERT_TRUE(StartWith("pool"));
  WriteAndReadAll();
  EXPECT_EQ(EngineOf(daemon().Metrics()), "pool");
  EXPECT_EQ(ReasonOf(daemon().Metrics()), "configured");
  EXPECT_FALSE(Contains(daemon().Log(), "refused")) << daemon().Log();
  Finish();
}

TEST_F(EngineTest, WithoutLockedMemoryTheSameResults) {
  ASSERT_TRUE(StartWith("auto", {.locked_bytes = 0}));
  WriteAndReadAll();
  const MetricsPage page = daemon().Metrics();
  EXPECT_FALSE(Contains(ReasonOf(page), "fixed_buffers")) << ReasonOf(page);
  if (EngineOf(page) == "io_uring") {
    EXPECT_EQ(page.Value("dovetail_uring_fallbacks_total", {{"reason", "buffers_refused"}}), 2);
  }
  EXPECT_EQ(page.Value("dovetail_uring_fixed_buffer_requests_total"), 0);
  Finish();
}

TEST_F(EngineTest, AForbiddenRingThatWasAskedForRefusesTheStart) {
  const std::string log = Refused({"localfile_store.engine=io_uring"}, kContainer);
  for (const char* part :
       {"start refused: data path ", "io_uring is refused", "seccomp", "localfile_store.engine"}) {
    EXPECT_TRUE(Contains(log, part)) << part << " in " << log;
  }
  const Finished probe = RunToEnd(
      {DaemonBinary(), "--set", "localfile_store.engine=io_uring", "--probe", PlainPath("data")},
      kContainer);
  EXPECT_EQ(probe.exit_code, 4) << probe.out;
  EXPECT_TRUE(Contains(probe.out, "would refuse it: data path ")) << probe.out;
}

TEST_F(EngineTest, AProcessorThatIsNotThereRefusesTheStart) {
  if (!RingsGranted()) GTEST_SKIP() << "this machine refuses io_uring";
  const std::string log = Refused({"localfile_store.io_uring_options.cpus=\"1023\""});
  EXPECT_TRUE(Contains(log, "localfile_store.io_uring_options.cpus")) << log;
}

}  // namespace
}  // namespace dovetail::e2e
