// dovetaild --probe, as a person and as a script read it.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/config/scratch_folder.h"
#include "tests/e2e/process/daemon_process.h"
#include "tests/e2e/process/subprocess.h"

namespace dovetail::e2e {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Struct;

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class ProbeTest : public testing::Test {
 protected:
  static Finished Probe(std::vector<std::string> arguments, const SubprocessOptions& options = {}) {
    arguments.insert(arguments.begin(), {DaemonBinary(), "--probe"});
    return RunToEnd(arguments, options);
  }

  static Struct Parse(const std::string& json) {
    Struct parsed;
    const auto status = google::protobuf::util::JsonStringToMessage(json, &parsed);
    EXPECT_TRUE(status.ok()) << status.ToString() << ": " << json;
    return parsed;
  }

  // Of the data path at that place.
  static Struct Disk(const Struct& report, int i) {
    return report.fields().at("data_paths").list_value().values(i).struct_value();
  }
  static Struct Facts(const Struct& disk) { return disk.fields().at("facts").struct_value(); }

  std::string MakeFolder(const std::string& name) const {
    fs::create_directories(folder_.path() + "/" + name);
    return folder_.path() + "/" + name;
  }

  const config::ScratchFolder folder_;
};

TEST_F(ProbeTest, AGoodPathAsText) {
  const Finished run = Probe({folder_.path()});
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_EQ(run.err, "");
  EXPECT_TRUE(run.out.starts_with("data path " + folder_.path() + "\n")) << run.out;
  for (const char* part : {"  mount ", "  file system ", "  space ", "  direct I/O ",
                           "  reservation ", "  engine        ", "  appends ",
                           "  start         would take it\n", "open files: at most "}) {
    EXPECT_TRUE(Contains(run.out, part)) << part << " in " << run.out;
  }
  EXPECT_TRUE(run.out.ends_with("\n1 of 1 data paths usable\n")) << run.out;
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "it leaves nothing";
}

TEST_F(ProbeTest, AGoodPathAsJson) {
  const std::string odd = MakeFolder("a \"b\\c\td");
  const Finished run = Probe({"--json", odd});
  EXPECT_EQ(run.exit_code, 0) << run.out;
  const Struct report = Parse(run.out);
  EXPECT_TRUE(report.fields().at("usable").bool_value());
  EXPECT_GE(report.fields().at("open_files_max").number_value(), 64);
  const Struct disk = Disk(report, 0);
  EXPECT_EQ(disk.fields().at("path").string_value(), odd);
  EXPECT_TRUE(disk.fields().at("usable").bool_value());
  EXPECT_TRUE(disk.fields().at("refusal").has_null_value());
  EXPECT_TRUE(odd.starts_with(disk.fields().at("mount_point").string_value()));
  EXPECT_EQ(disk.fields().at("mount_point").string_value().front(), '/');
  const Struct facts = Facts(disk);
  EXPECT_NE(facts.fields().at("file_system").string_value(), "");
  EXPECT_GT(facts.fields().at("total_bytes").number_value(),
            facts.fields().at("free_bytes").number_value());
  const std::string engine = facts.fields().at("engine").string_value();
  EXPECT_TRUE(engine == "io_uring" || engine == "pool") << engine;
  EXPECT_NE(facts.fields().at("engine_reason").string_value(), "");
  EXPECT_EQ(facts.fields().at("appends").string_value() == "direct",
            facts.fields().at("direct_io").bool_value());
}

TEST_F(ProbeTest, OneBadPathAmongGoodOnesIs4) {
  const std::string missing = folder_.path() + "/missing";
  const Finished run = Probe({folder_.path(), missing});
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_TRUE(Contains(run.out, "would refuse it: data path " + missing + ": cannot be looked at"))
      << run.out;
  EXPECT_TRUE(run.out.ends_with("\n1 of 2 data paths usable\n")) << run.out;
  const Struct report = Parse(Probe({"--json", folder_.path(), missing}).out);
  EXPECT_FALSE(report.fields().at("usable").bool_value());
  EXPECT_TRUE(Disk(report, 0).fields().at("usable").bool_value());
  EXPECT_FALSE(Disk(report, 1).fields().at("usable").bool_value());
  EXPECT_TRUE(Disk(report, 1).fields().at("facts").has_null_value());
  EXPECT_FALSE(fs::exists(missing));
}

TEST_F(ProbeTest, AnUnwritablePathIsRefused) {
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  const std::string path = MakeFolder("unwritable");
  ASSERT_EQ(chmod(path.c_str(), 0555), 0);
  std::vector<std::string> argv = {DaemonBinary(), "--probe", path};
  if (geteuid() == 0) {
    const std::vector<std::string> nobody = {"/usr/bin/setpriv", "--reuid", "65534",
                                             "--regid",          "65534",   "--clear-groups"};
    argv.insert(argv.begin(), nobody.begin(), nobody.end());
  }
  const Finished run = RunToEnd(argv);
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_TRUE(Contains(run.out, "cannot be created (Permission denied)")) << run.out;
  // For whom everything is writable: nothing can be made here.
  EXPECT_EQ(Probe({"/proc"}).exit_code, 4);
}

TEST_F(ProbeTest, ThePathOfARunningDaemonIsRefusedAndStaysItsOwn) {
  const std::string setting = "localfile_store.data_paths=[\"" + folder_.path() + "\"]";
  const auto daemon = DaemonProcess::Start({setting});
  ASSERT_TRUE(daemon);
  for (int i = 0; i < 3; ++i) {
    const Struct report = Parse(Probe({"--json", folder_.path()}).out);
    EXPECT_TRUE(Contains(Disk(report, 0).fields().at("refusal").string_value(),
                         "in use by another dovetaild"));
    EXPECT_TRUE(Disk(report, 0).fields().at("facts").has_struct_value());
  }
  EXPECT_EQ(Probe({folder_.path()}).exit_code, 4);
  DaemonProcess second({setting});
  EXPECT_EQ(second.process().Wait(std::chrono::seconds(60)), 4) << second.Log();
  EXPECT_EQ(daemon->Stop(), 0);
  EXPECT_EQ(Probe({folder_.path()}).exit_code, 0) << "free again";
}

TEST_F(ProbeTest, TheSameFolderTwiceIsRefused) {
  const std::string path = MakeFolder("disk");
  fs::create_directory_symlink(path, folder_.path() + "/link");
  const Finished run = Probe({path, folder_.path() + "/link"});
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_TRUE(Contains(run.out, "is the same folder as " + path)) << run.out;
}

TEST_F(ProbeTest, TmpfsIsNamedWithWhatItMeans) {
  std::string path = "/dev/shm/dovetail-probe-XXXXXX";
  ASSERT_NE(mkdtemp(path.data()), nullptr);
  const Finished run = Probe({path});
  rmdir(path.c_str());
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_TRUE(Contains(run.out, "  file system   tmpfs\n")) << run.out;
  EXPECT_TRUE(Contains(run.out, "  mount         tmpfs on /dev/shm\n")) << run.out;
  EXPECT_TRUE(Contains(run.out, "files there take memory")) << run.out;
}

TEST_F(ProbeTest, TheConfigurationSaysPathsAndMode) {
  const std::vector<std::string> configuration = {
      "--set", "localfile_store.data_paths=[\"" + folder_.path() + "\"]",
      "--set", "localfile_store.direct_io_append_enable=false",
      "--set", "localfile_store.disk_high_watermark=0.0000001",
      "--set", "localfile_store.disk_low_watermark=0.0"};
  const Finished run = Probe(configuration);
  EXPECT_EQ(run.exit_code, 0) << "a full disk is no reason to refuse a start: " << run.err;
  EXPECT_TRUE(Contains(run.out, "data path " + folder_.path())) << run.out;
  EXPECT_TRUE(Contains(run.out, "  appends       buffered, as configured\n")) << run.out;
  EXPECT_TRUE(Contains(run.out, "it would take no data: more than 0.0% is used")) << run.out;
  std::vector<std::string> named = configuration;
  named.push_back(MakeFolder("other"));
  EXPECT_FALSE(Contains(Probe(named).out, "data path " + folder_.path() + "\n"));
}

TEST_F(ProbeTest, TooFewOpenFilesAre4) {
  const Finished run = Probe({folder_.path()}, {.nofile = 32, .environment = {}});
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_TRUE(Contains(run.out, "open files: a start would be refused: only 32 ")) << run.out;
}

}  // namespace
}  // namespace dovetail::e2e
