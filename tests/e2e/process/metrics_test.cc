// docs/metrics.md is the one table of names: a daemon that has served every kind of call exports
// exactly what it says, and the page is as Prometheus wants it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/config/scratch_folder.h"
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

// What stands between pairs of ` in the text.
std::vector<std::string> Quoted(const std::string& text) {
  std::vector<std::string> words;
  std::stringstream pieces(text);
  std::string piece;
  for (int i = 0; std::getline(pieces, piece, '`'); ++i) {
    if (i % 2 == 1) words.push_back(piece);
  }
  return words;
}

// Rows are | `name` | type | `label`, ... | meaning |.
std::map<std::string, Metric> Table() {
  std::ifstream file(DOVETAIL_SOURCE_DIR "/docs/metrics.md");
  std::map<std::string, Metric> table;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::stringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
    if (cells.size() < 4 || Quoted(cells[0]).size() != 1) {
      ADD_FAILURE() << "not a row of the table: " << line;
      continue;
    }
    const std::vector<std::string> labels = Quoted(cells[2]);
    const size_t type = cells[1].find_first_not_of(' ');
    const Metric metric{cells[1].substr(type, cells[1].find(' ', type) - type),
                        {labels.begin(), labels.end()}};
    EXPECT_TRUE(table.emplace(Quoted(cells[0])[0], metric).second) << "two rows: " << line;
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
    daemon_ = DaemonProcess::Start({"memory_store.capacity=64M", "memory_store.require_wait_ms=0",
                                    "localfile_store.data_paths=[\"" + folder_.path() + "\"]",
                                    "hybrid_store.memory_single_buffer_max_spill_size=64K"});
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
    FlushAndRead(target, 1);
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

  // A partition large enough to be flushed alone, then its index and all of its data.
  void FlushAndRead(const Target& target, int32_t partition) {
    ASSERT_EQ(client_->Store(target, {MakeBlocks(partition, 0, 5, kFlushedBlockBytes)}),
              wire::SUCCESS);
    ASSERT_TRUE(daemon_->WaitMetric("dovetail_flushed_blocks_total", 5));
    wire::GetLocalShuffleIndexRequest index;
    index.set_appid(target.app);
    index.set_partitionid(partition);
    const auto records = client_->Ask(&wire::ShuffleServer::Stub::getLocalShuffleIndex, index);
    ASSERT_EQ(records.indexdata().size(), 5u * 40);
    ASSERT_EQ(records.datafilelen(), 5 * kFlushedBlockBytes);
    wire::GetLocalShuffleDataRequest data;
    data.set_appid(target.app);
    data.set_partitionid(partition);
    data.set_length(5 * kFlushedBlockBytes);
    ASSERT_EQ(client_->Ask(&wire::ShuffleServer::Stub::getLocalShuffleData, data).data().size(),
              5u * kFlushedBlockBytes);
  }

  static constexpr int kFlushedBlockBytes = 20'000;

  const config::ScratchFolder folder_;
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
  const bool has_rings =
      daemon_->Metrics().Find("dovetail_engine_info", {{"engine", "io_uring"}}).has_value();
  for (const auto& [name, metric] : table) {
    if (name.starts_with("dovetail_uring_") && !has_rings) continue;
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
  EXPECT_EQ(page.Value("dovetail_received_blocks_total"), 15);
  EXPECT_EQ(page.Value("dovetail_duplicate_blocks_total"), 5);
  EXPECT_EQ(page.Value("dovetail_filtered_reads_total", {{"tier", "memory"}}), 2);
  EXPECT_EQ(page.Value("dovetail_read_bytes_total", {{"tier", "file"}}), 5 * kFlushedBlockBytes);
  EXPECT_EQ(page.Value("dovetail_index_read_bytes_total"), 5 * 40);
  EXPECT_EQ(page.Value("dovetail_index_cache_lookups_total", {{"result", "hit"}}), 1);
  const LabelValues disk{{"path", folder_.path()}};
  EXPECT_GE(page.Value("dovetail_flushed_bytes_total"), 5 * kFlushedBlockBytes);
  EXPECT_GE(page.Value("dovetail_disk_append_bytes_total", disk), 5 * kFlushedBlockBytes);
  EXPECT_EQ(page.Value("dovetail_disk_groups_total", disk),
            page.Value("dovetail_disk_append_seconds_count", disk));
  EXPECT_EQ(page.Value("dovetail_disk_groups_total", disk),
            page.Value("dovetail_disk_group_bytes_count", disk));
  EXPECT_EQ(page.Value("dovetail_disk_reads_total", disk),
            page.Value("dovetail_disk_read_seconds_count", disk));
  EXPECT_EQ(page.Value("dovetail_disk_usable", disk), 1);
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
