// How a start ends that cannot have a data path, and what one finds that follows a crash.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/disk/disk_suite.h"
#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

namespace fs = std::filesystem;
using config::ReadText;

constexpr std::chrono::seconds kLong{60};

class StartTest : public DiskTest {
 protected:
  // The log of a start that must be refused with exit code 4.
  std::string Refused(const std::vector<std::string>& data_paths) {
    DaemonProcess daemon({PathsSetting(data_paths)});
    EXPECT_EQ(daemon.process().Wait(kLong), 4) << daemon.Log();
    EXPECT_EQ(daemon.Log().find("ready: "), std::string::npos);
    return daemon.Log();
  }

  // As much as the memory holds and more, until the process dies under it.
  void WriteUntilTheEnd(const Target& target) {
    std::thread writer([&] {
      for (int64_t sequence = 0; !ended_.load(); ++sequence) {
        wire::RequireBufferRequest require;
        require.set_appid(target.app);
        require.set_shuffleid(target.shuffle);
        require.set_requiresize(1 << 20);
        grpc::ClientContext context;
        wire::RequireBufferResponse ticket;
        if (!client().shuffle_stub().requireBuffer(&context, require, &ticket).ok()) continue;
        if (ticket.status() != wire::SUCCESS) continue;
        grpc::ClientContext send_context;
        wire::SendShuffleDataResponse sent;
        const auto send =
            MakeSend(target, ticket.requirebufferid(),
                     {MakeBlocks(static_cast<int32_t>(sequence % 4), sequence, 1, 900'000)});
        static_cast<void>(client().shuffle_stub().sendShuffleData(&send_context, send, &sent));
      }
    });
    EXPECT_TRUE(daemon().WaitMetricAbove("dovetail_flushed_bytes_total", 8 * kMiB));
    EXPECT_TRUE(daemon().WaitMetricAbove("dovetail_flushing_bytes", 0));
    daemon().process().Signal(SIGKILL);
    EXPECT_EQ(daemon().process().Wait(kLong), -SIGKILL);
    ended_.store(true);
    writer.join();
  }

  std::atomic<bool> ended_{false};
};

void ExpectSaid(const std::string& log, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(log.find(part), std::string::npos) << log;
}

TEST_F(StartTest, WithoutTheFolder) {
  const std::string path = folder_.path() + "/missing";
  ExpectSaid(Refused({path}), {"data path " + path, "No such file or directory",
                               "create the folder or correct localfile_store.data_paths"});
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(StartTest, WithAFileForAFolder) {
  ExpectSaid(Refused({folder_.Write("file", "text")}), {"/file is not a folder"});
  EXPECT_EQ(ReadText(folder_.path() + "/file"), "text");
}

TEST_F(StartTest, OneBadPathIsEnough) {
  const std::string path = folder_.path() + "/missing";
  ExpectSaid(Refused({PlainPath("good"), path}), {"data path " + path});
}

TEST_F(StartTest, WithAPathInTheFolderOfAnother) {
  const std::string inner = PlainPath("disk/dovetail/apps/n");
  const std::string outer = folder_.path() + "/disk";
  ExpectSaid(Refused({inner, outer}), {"start refused: data path " + inner + " lies in " + outer +
                                       "/dovetail, which belongs"});
  EXPECT_TRUE(fs::is_empty(inner)) << "nothing was taken";
  const Finished probe = RunToEnd({DaemonBinary(), "--probe", inner, outer});
  EXPECT_EQ(probe.exit_code, 4);
  ExpectSaid(probe.out, {"would refuse it: data path " + inner + " lies in "});
}

TEST_F(StartTest, OnAReadOnlyFileSystem) {
  DOVETAIL_NEEDS_MOUNTS();
  Mount* disk = AddTmpfs("disk", 4 * kMiB);
  if (!disk) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(disk->MakeReadOnly(true));
  ExpectSaid(Refused({disk->folder()}),
             {"data path " + disk->folder(), "Read-only file system", "check permissions"});
  // And one that was used before.
  ASSERT_TRUE(disk->MakeReadOnly(false));
  ASSERT_TRUE(Start({disk->folder()}, {}));
  EXPECT_EQ(daemon().Stop(), 0);
  ASSERT_TRUE(disk->MakeReadOnly(true));
  ExpectSaid(Refused({disk->folder()}), {disk->folder(), "Read-only file system"});
}

TEST_F(StartTest, OnAFullFileSystem) {
  DOVETAIL_NEEDS_MOUNTS();
  Mount* disk = AddTmpfs("disk", 4 * kMiB);
  if (!disk) GTEST_SKIP() << why_not_;
  WriteBallast(disk->folder() + "/ballast", FreeBytes(disk->folder()));
  ExpectSaid(Refused({disk->folder()}), {disk->folder(), "No space left on device", "free space"});
  fs::remove(disk->folder() + "/ballast");
  ASSERT_TRUE(Start({disk->folder()}, {})) << "what the refused start left is no hindrance";
  Finish();
}

TEST_F(StartTest, WhileAnotherUsesThePath) {
  const std::string path = PlainPath("disk");
  ASSERT_TRUE(Start({path}, {"memory_store.capacity=16M"}));
  const Target target = Registered("app", 1);
  for (int i = 0; i < 20; ++i) ledger().WriteInTheEnd(target, {MakeBlocks(0, i, 1, 1'000'000)});
  EXPECT_GT(Metric("dovetail_flushed_bytes_total"), 0);
  ExpectSaid(Refused({path}), {path, "in use by another dovetaild"});
  ExpectSaid(Refused({path + "/"}), {"in use by another dovetaild"});
  ledger().ExpectAll(target);
  EXPECT_EQ(Metric("dovetail_disk_lost_partitions_total"), 0);
  Finish();
}

TEST_F(StartTest, WithThePathNamedTwice) {
  const std::string path = PlainPath("disk");
  ExpectSaid(Refused({path, path + "/../disk"}), {"named twice"});
}

TEST_F(StartTest, InAStrangersFolder) {
  const std::string path = PlainPath("disk");
  const std::string valuable = folder_.Write("disk/dovetail/apps/valuable", "1");
  ExpectSaid(Refused({path}), {path + "/dovetail has files but no marker"});
  folder_.Write("disk/dovetail/marker", "of another program\n");
  ExpectSaid(Refused({path}), {path + "/dovetail/marker is not the marker of this version"});
  EXPECT_EQ(ReadText(valuable), "1");
  EXPECT_EQ(ReadText(path + "/dovetail/marker"), "of another program\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(path + "/dovetail"), {}), 2);
}

// The system's table of mounts names a disk that is not mounted; then it is, by itself or as a part
// of another.
TEST_F(StartTest, BelowAMountPointWithNothingMounted) {
  DOVETAIL_NEEDS_MOUNTS();
  if (!fs::exists("/etc/fstab")) GTEST_SKIP() << "there is no /etc/fstab to lay another over";
  const std::string path = PlainPath("disk/data");
  const std::string disk = folder_.path() + "/disk";
  const std::string table = folder_.Write("fstab", "/dev/sdz1 " + disk + " ext4 defaults 0 2\n");
  const std::unique_ptr<Mount> fstab = Mount::Bind(table, "/etc/fstab", why_not_);
  if (!fstab) GTEST_SKIP() << why_not_;
  ExpectSaid(Refused({path}), {path, disk + " of /etc/fstab is not mounted", "mount it first"});
  EXPECT_FALSE(fs::exists(path + "/dovetail"));
  const std::unique_ptr<Mount> bound = Mount::Bind(PlainPath("elsewhere"), disk, why_not_);
  ASSERT_TRUE(bound) << why_not_;
  ASSERT_TRUE(Start({PlainPath("disk/data")}, {}));
  Finish();
  EXPECT_TRUE(fs::exists(folder_.path() + "/elsewhere/data/dovetail/marker"));
}

TEST_F(StartTest, AfterACrashItRemovesItsOwnFilesAndNoOthers) {
  const std::string path = PlainPath("disk");
  const Settings settings = {"memory_store.capacity=16M"};
  ASSERT_TRUE(Start({path}, settings));
  const Target target = Registered("app", 4);
  WriteUntilTheEnd(target);
  ASSERT_FALSE(AppsEntries(path).empty()) << "the crash left nothing to remove";

  const std::string kept = folder_.Write("outside/deep/kept", "1");
  const std::string beside = folder_.Write("disk/beside", "2");
  const std::string apps = path + "/dovetail/apps";
  fs::create_directory_symlink(folder_.path() + "/outside", apps + "/link");
  fs::create_directory_symlink(folder_.path() + "/outside",
                               apps + "/" + AppsEntries(path).front() + "/link");
  fs::create_symlink(kept, apps + "/file_link");
  fs::create_hard_link(kept, apps + "/hard_link");

  ASSERT_TRUE(Start({path}, settings));
  EXPECT_NE(daemon().Log().find("old files and folders"), std::string::npos) << daemon().Log();
  EXPECT_EQ(AppsEntries(path), std::vector<std::string>());
  EXPECT_EQ(ReadText(kept), "1");
  EXPECT_EQ(ReadText(beside), "2");
  // What the former process held is gone, and it says so.
  EXPECT_EQ(ReadIndex(client(), target, 0).status(), wire::NO_REGISTER);
  EXPECT_EQ(ReadResult(client(), target, 0).status(), wire::NO_REGISTER);
  // The same names again, with nothing of the old in them.
  ASSERT_EQ(client().Register(target, 4), wire::SUCCESS);
  for (int i = 0; i < 30; ++i) ledger().WriteInTheEnd(target, {MakeBlocks(i % 4, i, 1, 999'999)});
  EXPECT_GT(Metric("dovetail_flushed_bytes_total"), 0);
  ledger().ExpectAll(target);
  Finish();
}

TEST_F(StartTest, AfterSomebodyPutALinkInThePlaceOfItsFiles) {
  const std::string path = PlainPath("disk");
  const Settings settings = {"memory_store.capacity=16M"};
  ASSERT_TRUE(Start({path}, settings));
  Finish();
  const std::string kept = folder_.Write("outside/kept", "1");
  const std::string apps = path + "/dovetail/apps";
  fs::remove_all(apps);
  fs::create_directory_symlink(folder_.path() + "/outside", apps);
  ASSERT_TRUE(Start({path}, settings));
  EXPECT_EQ(ReadText(kept), "1");
  const Target target = Registered("app", 1);
  for (int i = 0; i < 20; ++i) ledger().WriteInTheEnd(target, {MakeBlocks(0, i, 1, 1'000'000)});
  EXPECT_GT(Metric("dovetail_flushed_bytes_total"), 0);
  ledger().ExpectAll(target);
  // And while it runs.
  fs::rename(apps, path + "/dovetail/moved");
  fs::create_directory_symlink(folder_.path() + "/outside", apps);
  const Target other = Registered("other", 1);
  for (int i = 0; i < 12; ++i) {
    static_cast<void>(ledger().Write(other, {MakeBlocks(0, i, 1, 1'000'000)}));
  }
  ledger().ExpectAll(target);
  ledger().ExpectAll(other);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path() + "/outside"), {}), 1);
  // Nothing is removed through the link; when it is gone, what was meant is.
  client().UnregisterAll();
  EXPECT_TRUE(daemon().WaitLog("could not be removed")) << daemon().Log();
  EXPECT_EQ(ReadText(kept), "1");
  fs::remove(apps);
  fs::rename(path + "/dovetail/moved", apps);
  Finish();
  EXPECT_EQ(ReadText(kept), "1");
}

}  // namespace
}  // namespace dovetail::e2e
