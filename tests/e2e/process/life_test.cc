// Signals and small limits: how the process begins and ends.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>

#include "tests/config/scratch_folder.h"
#include "tests/e2e/process/daemon_process.h"
#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/reader.h"
#include "tests/e2e/wire/wire_client.h"

namespace dovetail::e2e {
namespace {

constexpr std::chrono::seconds kLong{60};

// Whether the process blocks SIGTERM in its main thread, which it does before anything else.
bool BlocksSigterm(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigBlk:")) continue;
    return std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1;
  }
  return false;
}

TEST(LifeTest, EndsOnSigtermAndOnSigint) {
  for (const int number : {SIGTERM, SIGINT}) {
    auto daemon = DaemonProcess::Start();
    ASSERT_TRUE(daemon);
    daemon->process().Signal(number);
    EXPECT_EQ(daemon->process().Wait(kLong), 0) << daemon->Log();
    EXPECT_NE(daemon->Log().find(number == SIGTERM ? "stopping on TERM" : "stopping on INT"),
              std::string::npos);
    EXPECT_NE(daemon->Log().find("stopped"), std::string::npos);
  }
}

TEST(LifeTest, AFullDataPathIsWhyItIsNotReady) {
  const config::ScratchFolder folder;
  auto daemon = DaemonProcess::Start({"localfile_store.data_paths=[\"" + folder.path() + "\"]",
                                      "localfile_store.disk_healthy_check_interval_sec=1",
                                      "localfile_store.disk_high_watermark=0.0000001",
                                      "localfile_store.disk_low_watermark=0"});
  ASSERT_TRUE(daemon);
  ASSERT_TRUE(
      daemon->WaitMetric("dovetail_disk_state", 1, {{"path", folder.path()}, {"state", "full"}}));
  EXPECT_EQ(daemon->Metrics().Value("dovetail_ready"), 0);
  EXPECT_EQ(daemon->Get("/readyz").status, 503);
  EXPECT_EQ(daemon->Get("/readyz").body, "too few usable data paths\n");
  EXPECT_EQ(daemon->Get("/healthz").status, 200);
  EXPECT_NE(daemon->Log().find("above disk_high_watermark"), std::string::npos);
  EXPECT_EQ(daemon->Stop(), 0);
}

TEST(LifeTest, ASecondSignalHurries) {
  for (const int second : {SIGTERM, SIGINT}) {
    auto daemon = DaemonProcess::Start({"stop_deadline_ms=3600000", "memory_store.capacity=64M"});
    ASSERT_TRUE(daemon);
    WireClient client(daemon->grpc_port());
    ASSERT_EQ(client.Register({"app", 0}, 1), wire::SUCCESS);
    daemon->process().Signal(SIGTERM);
    ASSERT_TRUE(daemon->WaitMetric("dovetail_ready", 0));
    EXPECT_FALSE(daemon->process().Wait(std::chrono::milliseconds(300)))
        << "an application is alive, and there is an hour";
    daemon->process().Signal(second);
    EXPECT_EQ(daemon->process().Wait(kLong), 0) << daemon->Log();
  }
}

TEST(LifeTest, SigtermRightAfterTheStart) {
  for (int round = 0; round < 10; ++round) {
    DaemonProcess daemon({});
    // From here on it takes the signal in order, however little of it is up.
    while (daemon.process().Running() && !BlocksSigterm(daemon.process().pid())) usleep(200);
    usleep(static_cast<useconds_t>(round * 700));
    EXPECT_EQ(daemon.Stop(), 0) << daemon.Log();
  }
}

TEST(LifeTest, ManySignals) {
  auto daemon = DaemonProcess::Start();
  ASSERT_TRUE(daemon);
  for (int i = 0; i < 100; ++i) daemon->process().Signal(i % 2 == 0 ? SIGTERM : SIGINT);
  EXPECT_EQ(daemon->process().Wait(kLong), 0) << daemon->Log();
}

// Every client that breaks off makes a SIGPIPE somewhere.
TEST(LifeTest, SigpipeIsNothing) {
  auto daemon = DaemonProcess::Start();
  ASSERT_TRUE(daemon);
  daemon->process().Signal(SIGPIPE);
  EXPECT_EQ(daemon->Get("/healthz").status, 200);
  EXPECT_EQ(daemon->Stop(), 0);
}

// The sanitizers need descriptors of their own and report nonsense without them.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Works with few descriptors, or says why not; never half.
TEST(LifeTest, FewFileDescriptors) {
  for (const unsigned long nofile : {8, 16, 24, 32, 63, 64}) {
    if (kSanitized && nofile < 64) continue;
    DaemonProcess daemon({"memory_store.capacity=64M"}, {.nofile = nofile, .environment = {}});
    if (nofile < 64) {
      EXPECT_EQ(daemon.process().Wait(kLong), 4) << nofile << "\n" << daemon.Log();
      EXPECT_NE(daemon.Log().find("start refused: only " + std::to_string(nofile) + " open files"),
                std::string::npos)
          << daemon.Log();
      continue;
    }
    ASSERT_TRUE(daemon.WaitReady()) << daemon.Log();
    WireClient client(daemon.grpc_port());
    const Target target{"app", 0};
    EXPECT_EQ(client.Register(target, 1), wire::SUCCESS);
    EXPECT_EQ(client.Store(target, {MakeBlocks(0, 0, 5, 1000)}), wire::SUCCESS);
    EXPECT_EQ(ReadPages(client, {.target = target, .filter = {}}).blocks.size(), 5u);
    EXPECT_EQ(client.UnregisterApp(target.app), wire::SUCCESS);
    EXPECT_EQ(daemon.Stop(), 0) << daemon.Log();
  }
}

// Shells give a soft limit of 1024; what they allow beyond it is taken.
TEST(LifeTest, TheFileLimitIsRaised) {
  auto daemon = DaemonProcess::Start();
  ASSERT_TRUE(daemon);
  rlimit own{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &own), 0);
  EXPECT_EQ(daemon->Metrics().Value("process_max_fds"), static_cast<double>(own.rlim_max));
  EXPECT_EQ(daemon->Stop(), 0);
}

}  // namespace
}  // namespace dovetail::e2e
