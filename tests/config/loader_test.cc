// Precedence, sources, places of problems, and values that come from the machine.
#include "config/loader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/advertise_host.h"
#include "config/memory_limit.h"
#include "tests/config/scratch_folder.h"

namespace dovetail::config {
namespace {

class LoaderTest : public testing::Test {
 protected:
  std::expected<LoadedConfig, Problems> LoadText(const std::string& text,
                                                 const std::vector<std::string>& sets = {}) {
    file_ = folder_.Write("d.toml", text);
    return Load(file_, sets);
  }

  // The problems of a file, each without the folder in front.
  std::vector<std::string> ProblemsOf(const std::string& text) {
    const auto loaded = LoadText(text);
    if (loaded.has_value()) return {};
    std::vector<std::string> problems;
    for (const std::string& problem : loaded.error()) {
      EXPECT_EQ(problem.find(folder_.path() + "/"), 0u) << problem;
      problems.push_back(problem.substr(folder_.path().size() + 1));
    }
    return problems;
  }

  static const Setting& SettingOf(const LoadedConfig& loaded, const std::string& path) {
    for (const Setting& setting : loaded.settings) {
      if (PathOf(*setting.key) == path) return setting;
    }
    ADD_FAILURE() << path;
    return loaded.settings[0];
  }

  ScratchFolder folder_;
  std::string file_;
};

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(LoaderTest, SetOverFileOverDefault) {
  const auto loaded = LoadText("grpc_port = 1\nhttp_port = 2\n", {"http_port=3", "http_port=4"});
  ASSERT_TRUE(loaded.has_value()) << loaded.error()[0];
  EXPECT_EQ(loaded->config.server.grpc_port, 1);
  EXPECT_EQ(loaded->config.server.http_port, 4);
  EXPECT_EQ(loaded->config.server.grpc_streams_max, server::ServerOptions().grpc_streams_max);
  EXPECT_EQ(SettingOf(*loaded, "grpc_port").source, file_ + ":1");
  EXPECT_EQ(SettingOf(*loaded, "http_port").source, "--set");
  EXPECT_EQ(SettingOf(*loaded, "grpc_streams_max").source, "default");
  ASSERT_EQ(loaded->settings.size(), Keys().size());
}

TEST_F(LoaderTest, DottedAndQuotedKeysAreTheSameKeys) {
  const auto loaded = LoadText("memory_store.capacity = \"2G\"\n'log'.\"log_level\" = 'WARN'\n");
  ASSERT_TRUE(loaded.has_value()) << loaded.error()[0];
  EXPECT_EQ(loaded->config.store.memory.capacity_bytes, 2LL << 30);
  EXPECT_EQ(loaded->config.server.log.log_level, "WARN");
  EXPECT_EQ(SettingOf(*loaded, "log.log_level").source, file_ + ":2");
}

TEST_F(LoaderTest, SetTakesTomlAndBareWords) {
  const auto loaded =
      Load({}, {"bind_address=127.0.0.1", "log.log_level = DEBUG ", "tags=[\"a\", 'b']",
                "memory_store.capacity=3G", "memory_store.read_bytes_max=\"1GiB\"",
                "grpc_port=0x10", "advertise_host=a-b.example.org"});
  ASSERT_TRUE(loaded.has_value()) << loaded.error()[0];
  EXPECT_EQ(loaded->config.server.bind_address, "127.0.0.1");
  EXPECT_EQ(loaded->config.server.log.log_level, "DEBUG");
  EXPECT_EQ(loaded->config.server.tags, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(loaded->config.store.memory.capacity_bytes, 3LL << 30);
  EXPECT_EQ(loaded->config.store.memory.read_bytes_max, 1LL << 30);
  EXPECT_EQ(loaded->config.server.grpc_port, 16);
  EXPECT_EQ(loaded->config.server.advertise_host, "a-b.example.org");
}

TEST_F(LoaderTest, SetProblemsSayWhichAndWhy) {
  const auto loaded = Load({}, {"grpc_port", "grpc_prot=1", "grpc_port=x", "tags=[\"a\"",
                                "tags=a\nhttp_port=1", "=1", "memory_store=1"});
  ASSERT_FALSE(loaded.has_value());
  ASSERT_EQ(loaded.error().size(), 7u);
  EXPECT_TRUE(Contains(loaded.error()[0], "--set grpc_port: no '='"));
  EXPECT_TRUE(Contains(loaded.error()[1], "--set grpc_prot=1: ")) << loaded.error()[1];
  EXPECT_TRUE(Contains(loaded.error()[1], "Did you mean grpc_port?")) << loaded.error()[1];
  EXPECT_TRUE(Contains(loaded.error()[2], "a whole number from 0 to 65535"));
  EXPECT_TRUE(Contains(loaded.error()[3], "not valid TOML")) << loaded.error()[3];
  EXPECT_TRUE(Contains(loaded.error()[4], "more than one line")) << loaded.error()[4];
  for (const std::string& problem : loaded.error()) EXPECT_FALSE(Contains(problem, "\n"));
}

TEST_F(LoaderTest, UnknownKeyHasItsPlaceAndTheNearestKey) {
  EXPECT_EQ(
      ProblemsOf("grpc_port = 5\n[memory_store]\n  capacty = 1\n"),
      (std::vector<std::string>{
          "d.toml:3:3: unknown key memory_store.capacty. Did you mean memory_store.capacity?"}));
  EXPECT_EQ(
      ProblemsOf("\"grpc_prot\" = 1\n"),
      (std::vector<std::string>{"d.toml:1:2: unknown key grpc_prot. Did you mean grpc_port?"}));
  EXPECT_EQ(ProblemsOf("xyzzy = 1\n"),
            (std::vector<std::string>{
                "d.toml:1:1: unknown key xyzzy. No key is like it; --print-config lists all."}));
}

TEST_F(LoaderTest, AKeyInTheWrongSectionIsToldItsOwn) {
  EXPECT_EQ(ProblemsOf("capacity = 1\n[log]\nlog_level = 'INFO'\n grpc_port = 1\n"),
            (std::vector<std::string>{"d.toml:1:1: unknown key capacity. Did you mean "
                                      "memory_store.capacity? It belongs to [memory_store].",
                                      "d.toml:4:2: unknown key log.grpc_port. Did you mean "
                                      "grpc_port? It stands above the first [section]."}));
}

TEST_F(LoaderTest, ProblemsComeInTheOrderOfTheFile) {
  const std::vector<std::string> problems =
      ProblemsOf("zz = 1\nhttp_port = 'x'\naa = 1\n[nn]\n[memory_store]\ncapacity = ''\n");
  ASSERT_EQ(problems.size(), 5u);
  for (size_t i = 0; i < problems.size(); ++i) {
    const std::string line = std::to_string(i < 4 ? i + 1 : 6);
    EXPECT_TRUE(problems[i].starts_with("d.toml:" + line + ":")) << problems[i];
  }
}

TEST_F(LoaderTest, KeysOfLaterVersionsAreUnknown) {
  EXPECT_EQ(ProblemsOf("urpc_port = 17000\n").size(), 1u);
  EXPECT_EQ(ProblemsOf("coordinator_quorum = ['a:1']\n").size(), 1u);
}

TEST_F(LoaderTest, AQuotedPathIsNoWayAroundTheSection) {
  EXPECT_EQ(ProblemsOf("\"memory_store.capacity\" = 1\n").size(), 1u);
}

TEST_F(LoaderTest, SectionsAndKeysAreNotMistakenForEachOther) {
  EXPECT_EQ(ProblemsOf("log = 'INFO'\n"),
            (std::vector<std::string>{"d.toml:1:1: log is a section: write [log] on a line of its "
                                      "own and its keys below."}));
  EXPECT_EQ(ProblemsOf("[grpc_port]\nx = 1\n"),
            (std::vector<std::string>{"d.toml:1:2: grpc_port is a table. Expected a whole number "
                                      "from 0 to 65535."}));
  EXPECT_EQ(ProblemsOf("\n  [nonsense]\n"),
            (std::vector<std::string>{
                "d.toml:2:4: unknown section nonsense. --print-config lists all."}));
  EXPECT_EQ(ProblemsOf("[[log]]\nlog_level = 'INFO'\n").size(), 1u);
  EXPECT_EQ(
      ProblemsOf("[memory_store.capacity]\nx = 1\n"),
      (std::vector<std::string>{"d.toml:1:15: memory_store.capacity is a table. Expected a "
                                "size from 1M to 1024T; for example \"3G\"; or leave it out."}));
  EXPECT_EQ(ProblemsOf("[localfile_store]\nio_uring_options = 2\n"),
            (std::vector<std::string>{
                "d.toml:2:1: localfile_store.io_uring_options is a section: write "
                "[localfile_store.io_uring_options] on a line of its own and its keys below."}));
}

TEST_F(LoaderTest, ASectionWithinASection) {
  const auto loaded = LoadText(
      "[localfile_store]\nengine = 'io_uring'\n"
      "[localfile_store.io_uring_options]\nthreads = 3\ncpus = '1-2,0'\n",
      {"localfile_store.io_uring_options.io_depth=7"});
  ASSERT_TRUE(loaded);
  const engine::EngineOptions& engine = loaded->config.engine;
  EXPECT_EQ(engine.engine, "io_uring");
  EXPECT_EQ(engine.io_uring.threads, 3);
  EXPECT_EQ(engine.io_uring.io_depth, 7);
  EXPECT_EQ(engine.io_uring.cpus, (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(ProblemsOf("[localfile_store.io_uring_options]\nthread = 2\n"),
            (std::vector<std::string>{"d.toml:2:1: unknown key "
                                      "localfile_store.io_uring_options.thread. Did you mean "
                                      "localfile_store.io_uring_options.threads?"}));
  EXPECT_EQ(ProblemsOf("[localfile_store.io_uring_option]\n").size(), 1u);
}

TEST_F(LoaderTest, ListsOfProcessors) {
  const std::string head = "[localfile_store.io_uring_options]\ncpus = ";
  for (const char* text : {"''", "'0'", "'0-3,8'", "'1023'"}) {
    EXPECT_TRUE(ProblemsOf(head + text + "\n").empty()) << text;
  }
  for (const char* text : {"','", "'0,'", "',0'", "'-1'", "'3-1'", "'0-'", "'a'", "'1,0-2'",
                           "'1024'", "' 1'", "'0-4294967297'", "1"}) {
    EXPECT_EQ(ProblemsOf(head + text + "\n").size(), 1u) << text;
  }
}

TEST_F(LoaderTest, WrongTypeAndRangeHaveThePlaceOfTheValue) {
  EXPECT_EQ(ProblemsOf("http_port = 70000\n[log]\n\tlog_level = 3\n"),
            (std::vector<std::string>{
                "d.toml:1:13: http_port is 70000. Expected a whole number from 0 to 65535.",
                "d.toml:3:14: log.log_level is 3: a text stands in quotes. Expected DEBUG, INFO, "
                "WARN or ERROR."}));
}

TEST_F(LoaderTest, SyntaxErrorsHaveTheirPlace) {
  EXPECT_TRUE(Contains(ProblemsOf("grpc_port = 1\n[memory_store]\ncapacity = 3G\n").at(0),
                       "d.toml:3:13: not valid TOML: "));
  EXPECT_TRUE(Contains(ProblemsOf("\nlog_level = INFO\n").at(0), "d.toml:2:13: not valid TOML: "));
  EXPECT_TRUE(Contains(ProblemsOf("grpc_port = 1\ngrpc_port = 2\n").at(0), "d.toml:2:"));
  EXPECT_TRUE(Contains(ProblemsOf("tags = [\"a\"\n").at(0), "d.toml:"));
}

TEST_F(LoaderTest, ProblemsOfFileAndSetsAreAllReported) {
  const auto loaded = LoadText("zzz = 1\nhttp_port = -1\n", {"stop_deadline_ms=-1", "yyy=2"});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().size(), 4u);
}

TEST_F(LoaderTest, UnreadableFilesSayWhy) {
  for (const std::string& path :
       {folder_.path() + "/missing.toml", folder_.path(), std::string()}) {
    const auto loaded = Load(path, {});
    ASSERT_FALSE(loaded.has_value()) << path;
    EXPECT_TRUE(Contains(loaded.error()[0], "cannot read the configuration file: "))
        << loaded.error()[0];
  }
}

TEST_F(LoaderTest, CapacityIsAQuarterOfTheLimitWhenNotGiven) {
  const MemoryLimit limit = FindMemoryLimit("", MachineMemoryBytes());
  for (const char* text :
       {"", "[memory_store]\ncapacity = 0\n", "[memory_store]\ncapacity = \"0\"\n"}) {
    const auto loaded = LoadText(text);
    ASSERT_TRUE(loaded.has_value()) << loaded.error()[0];
    EXPECT_EQ(loaded->config.store.memory.capacity_bytes, limit.bytes / 4);
    EXPECT_TRUE(
        Contains(SettingOf(*loaded, "memory_store.capacity").source, "default: a quarter of "));
  }
}

TEST_F(LoaderTest, AdvertiseHostFollowsBindAddressWhenNotGiven) {
  const auto loopback = Load({}, {"bind_address=127.0.0.1"});
  ASSERT_TRUE(loopback.has_value());
  EXPECT_EQ(loopback->config.server.advertise_host, "127.0.0.1");
  EXPECT_TRUE(Contains(SettingOf(*loopback, "advertise_host").source, "default: bind_address"));
  const auto wildcard = Load({}, {"advertise_host="});
  ASSERT_TRUE(wildcard.has_value());
  EXPECT_EQ(wildcard->config.server.advertise_host, FindAdvertiseHost("0.0.0.0").host);
  const auto given = Load({}, {"bind_address=127.0.0.1", "advertise_host=other"});
  ASSERT_TRUE(given.has_value());
  EXPECT_EQ(given->config.server.advertise_host, "other");
}

TEST_F(LoaderTest, PrintReadsBackAsTheSameConfiguration) {
  const auto loaded = LoadText("tags = ['b\"\\', 'a']\n[localfile_store]\ndata_paths = ['/a b']\n",
                               {"memory_store.capacity=1048577", "grpc_port=0", "http_port=0"});
  ASSERT_TRUE(loaded.has_value()) << loaded.error()[0];
  const std::string printed = Print(*loaded);
  const auto again = LoadText(printed);
  ASSERT_TRUE(again.has_value()) << again.error()[0];
  for (size_t i = 0; i < Keys().size(); ++i) {
    EXPECT_EQ(again->settings[i].text, loaded->settings[i].text) << PathOf(Keys()[i]);
    EXPECT_EQ(ValueText(Keys()[i], again->config), ValueText(Keys()[i], loaded->config));
    EXPECT_TRUE(Contains(again->settings[i].source, "d.toml:")) << PathOf(Keys()[i]);
  }
  EXPECT_TRUE(Contains(printed, "\ngrpc_port = 0  # --set\n"));
  EXPECT_TRUE(Contains(printed, "\n[localfile_store]\ndata_paths = [\"/a b\"]  # " +
                                    folder_.path() + "/d.toml:3\n"));
  EXPECT_TRUE(Contains(printed, "\ncapacity = 1048577  # --set\n"));
  EXPECT_TRUE(Contains(printed, "\ngrpc_streams_max = 1024  # default\n"));
}

TEST_F(LoaderTest, ANameOfAFileCannotBreakTheComment) {
  const std::string path = folder_.Write("d\ngrpc_port = 7\n.toml", "http_port = 1\n");
  const auto loaded = Load(path, {});
  ASSERT_TRUE(loaded.has_value());
  const auto again = LoadText(Print(*loaded));
  ASSERT_TRUE(again.has_value()) << again.error()[0];
  EXPECT_EQ(again->config.server.grpc_port, 19999);
}

}  // namespace
}  // namespace dovetail::config
