// docs/metrics.md is the one table of names: a daemon that has served every kind of call exports
// exactly what it says, and the page is as Prometheus wants it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/e2e/process/daemon_process.h"
#include "tests/e2e/wire/blocks.h"
#include "tests/e2e/wire/methods.h"
#include "tests/e2e/wire/reader.h"
#include "tests/e2e/wire/wire_client.h"
#include "tests/golden/roaring64_builder.h"

namespace dovetail::e2e {
namespace {

struct Metric {
  std::string type;
  std::set<std::string> labels;

  bool operator==(const Metric&) const = default;
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::map<std::string, Metric> Table() {
  static const std::regex kRow(R"(\| `(\w+)` \| (\w+) \| ([^|]*)\| [^|]+ \|)");
  static const std::regex kLabel(R"(`(\w+)`)");
  const std::string text = ReadFile(DOVETAIL_SOURCE_DIR "/docs/metrics.md");
  std::map<std::string, Metric> table;
  for (std::sregex_iterator row(text.begin(), text.end(), kRow), end; row != end; ++row) {
    Metric metric{(*row)[2], {}};
    const std::string labels = (*row)[3];
    for (std::sregex_iterator label(labels.begin(), labels.end(), kLabel); label != end; ++label) {
      metric.labels.insert((*label)[1]);
    }
    EXPECT_TRUE(table.emplace((*row)[1], metric).second) << (*row)[1] << " has two rows";
  }
  return table;
}

std::map<std::string, Metric> Exported(const MetricsPage& page) {
  std::map<std::string, Metric> exported;
  for (const auto& [name, type] : page.types()) exported[name].type = type;
  for (const Series& series : page.series()) {
    std::string name = series.name;
    for (const char* suffix : {"_bucket", "_sum", "_count"}) {
      if (!exported.contains(name) && name.ends_with(suffix)) {
        name.resize(name.size() - std::string_view(suffix).size());
      }
    }
    EXPECT_TRUE(exported.contains(name)) << series.name << " has no TYPE line";
    for (const auto& [label, value] : series.labels) {
      if (label != "le") exported[name].labels.insert(label);
    }
  }
  return exported;
}

std::string Promtool() {
  std::string path = std::string(getenv("PATH") == nullptr ? "" : getenv("PATH"));
  path += ":" DOVETAIL_SOURCE_DIR "/.cache/tools/bin";
  std::stringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/promtool").c_str(), X_OK) == 0) return folder + "/promtool";
  }
  return "";
}

class MetricsTest : public testing::Test {
 protected:
  void SetUp() override {
    daemon_ = DaemonProcess::Start({"memory_store.capacity=64M", "memory_store.require_wait_ms=0"});
    ASSERT_TRUE(daemon_);
    client_ = std::make_unique<WireClient>(daemon_->grpc_port());
  }
  void TearDown() override {
    if (daemon_) {
      EXPECT_EQ(daemon_->Stop(), 0);
    }
  }

  // Every method of both services, accepted and refused; every way out of the store.
  void ServeEverything() {
    const Target target{"app \"quoted\\", 0};
    ASSERT_EQ(client_->Register(target, 4), wire::SUCCESS);
    ASSERT_EQ(client_->Store(target, {MakeBlocks(0, 0, 5, 100, 3)}), wire::SUCCESS);
    ASSERT_EQ(client_->Store(target, {MakeBlocks(0, 0, 5, 100, 3)}), wire::SUCCESS);
    ReadPages(*client_, {.target = target, .filter = {}});
    ReadPages(*client_, {.target = target, .filter = golden::OneWord({golden::Array(0, {3})})});
    client_->Require(target, 64 << 20);
    client_->Require(target, 1 << 30);
    for (const MethodRule& method : ShuffleMethods()) {
      CallBytes(*client_, method, "");
      Call(*client_, method, {"nobody", 1});
      Call(*client_, method, target);
    }
    for (const char* method :
         {"heartbeat", "getShuffleAssignments", "fetchClientConf", "fetchClientConfV2",
          "fetchRemoteStorage", "registerApplicationInfo", "appHeartbeat", "accessCluster",
          "getShuffleServerList", "getShuffleServerNum", "checkServiceAvailable",
          "reportClientOperation", "getShuffleDataStorageInfo"}) {
      client_->Raw(std::string("/rss.common.CoordinatorServer/") + method, "");
    }
    for (const char* path : {"/metrics", "/healthz", "/readyz", "/nothing"}) daemon_->Get(path);
    EXPECT_EQ(daemon_->WaitIdle(), std::vector<std::string>());
  }

  std::unique_ptr<DaemonProcess> daemon_;
  std::unique_ptr<WireClient> client_;
};

TEST_F(MetricsTest, AreThoseOfTheTable) {
  ServeEverything();
  const std::map<std::string, Metric> table = Table();
  ASSERT_GT(table.size(), 30u) << "the table of docs/metrics.md was not found";
  const std::map<std::string, Metric> exported = Exported(daemon_->Metrics());
  for (const auto& [name, metric] : exported) {
    ASSERT_TRUE(table.contains(name)) << name << " is missing in docs/metrics.md";
    EXPECT_EQ(metric.type, table.at(name).type) << name;
    EXPECT_EQ(metric.labels, table.at(name).labels)
        << name << ": " << testing::PrintToString(metric.labels);
  }
  for (const auto& [name, metric] : table) {
    EXPECT_TRUE(exported.contains(name)) << name << " is in docs/metrics.md and not exported";
  }
}

TEST_F(MetricsTest, CountEveryMethod) {
  ServeEverything();
  const MetricsPage page = daemon_->Metrics();
  for (const MethodRule& method : ShuffleMethods()) {
    const std::string name = method.path.substr(method.path.rfind('/') + 1);
    EXPECT_GE(page.Value("dovetail_grpc_requests_total", {{"method", name}}), 3) << name;
    EXPECT_EQ(page.Value("dovetail_grpc_requests_total", {{"method", name}}),
              page.Value("dovetail_grpc_request_seconds_count", {{"method", name}}))
        << name;
  }
  EXPECT_GE(page.Value("dovetail_grpc_requests_total", {{"method", "coordinatorAppHeartbeat"}}), 1);
  EXPECT_EQ(page.Value("dovetail_received_blocks_total"), 10);
  EXPECT_EQ(page.Value("dovetail_duplicate_blocks_total"), 5);
  EXPECT_EQ(page.Value("dovetail_filtered_reads_total", {{"tier", "memory"}}), 2);
  EXPECT_EQ(page.Value("dovetail_require_refused_total", {{"reason", "no_room"}}), 1);
  EXPECT_EQ(page.Value("dovetail_require_refused_total", {{"reason", "larger_than_capacity"}}), 1);
}

TEST_F(MetricsTest, PassPromtool) {
  ServeEverything();
  const std::string promtool = Promtool();
  ASSERT_NE(promtool, "")
      << "promtool is on no PATH and not in .cache/tools/bin: tests/run puts it "
         "there";
  const std::string page = testing::TempDir() + "dovetail-metrics-" + std::to_string(getpid());
  std::ofstream(page) << daemon_->Get("/metrics").body;
  const Finished run =
      RunToEnd({"/bin/sh", "-c", "exec \"$0\" check metrics < \"$1\"", promtool, page});
  std::remove(page.c_str());
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(run.out + run.err, "") << "not even a remark";
}

}  // namespace
}  // namespace dovetail::e2e
