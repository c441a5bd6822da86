#include "tests/e2e/disk/disk_suite.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

namespace dovetail::e2e {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kIdleTimeout{30};
constexpr std::chrono::milliseconds kPoll{20};

// Zero once nobody has anything here, beside those of MetricsPage::InUse.
constexpr const char* kGaugesOfDisks[] = {"dovetail_memory_metadata_bytes",
                                          "dovetail_flushing_bytes",
                                          "dovetail_extents",
                                          "dovetail_removals_pending",
                                          "dovetail_index_cache_bytes",
                                          "dovetail_disk_segments",
                                          "dovetail_disk_reserved_bytes",
                                          "dovetail_disk_flush_bytes_in_flight",
                                          "dovetail_disk_removals_pending",
                                          "dovetail_disk_operations_in_flight",
                                          "dovetail_disk_open_descriptors"};

}  // namespace

void DiskTest::TearDown() {
  // A test that failed half-way: the daemon goes before the file systems under it do.
  ledger_.reset();
  client_.reset();
  daemon_.reset();
  mounts_.clear();
}

std::string DiskTest::PlainPath(const std::string& name) const {
  const std::string path = folder_.path() + "/" + name;
  fs::create_directories(path);
  return path;
}

Mount* DiskTest::Add(std::unique_ptr<Mount> mount) {
  if (!mount) return nullptr;
  mounts_.push_back(std::move(mount));
  return mounts_.back().get();
}

Mount* DiskTest::AddTmpfs(const std::string& name, int64_t bytes) {
  return Add(Mount::Tmpfs(folder_.path() + "/" + name, bytes, why_not_));
}

Mount* DiskTest::AddExt4(const std::string& name, int64_t bytes) {
  return Add(Mount::Ext4(folder_.path() + "/" + name, bytes, why_not_));
}

std::string DiskTest::PathsSetting(const std::vector<std::string>& data_paths) {
  std::string text = "localfile_store.data_paths=[";
  for (const std::string& path : data_paths) text += "\"" + path + "\",";
  text.back() = ']';
  return text;
}

bool DiskTest::Start(const std::vector<std::string>& data_paths, const Settings& more,
                     const SubprocessOptions& options) {
  data_paths_ = data_paths;
  Settings settings = {PathsSetting(data_paths),
                       "localfile_store.disk_healthy_check_interval_sec=1",
                       "memory_store.require_wait_ms=100"};
  settings.insert(settings.end(), more.begin(), more.end());
  daemon_ = DaemonProcess::Start(settings, options);
  if (!daemon_) return false;
  client_ = std::make_unique<WireClient>(daemon_->grpc_port());
  ledger_ = std::make_unique<Ledger>(*client_);
  return true;
}

Target DiskTest::Registered(const std::string& app, int32_t partitions, int32_t shuffle) {
  const Target target{app, shuffle};
  EXPECT_EQ(client().Register(target, partitions), wire::SUCCESS);
  return target;
}

bool DiskTest::WaitState(const std::string& path, const std::string& state, bool holds) {
  return daemon().WaitMetric("dovetail_disk_state", holds ? 1 : 0,
                             {{"path", path}, {"state", state}});
}

std::vector<std::string> DiskTest::AppsEntries(const std::string& path) {
  std::vector<std::string> entries;
  std::error_code error;
  const fs::path apps = path + "/dovetail/apps";
  for (auto it = fs::recursive_directory_iterator(apps, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    entries.push_back(it->path().lexically_relative(apps).string());
  }
  return entries;
}

std::vector<std::string> DiskTest::StillInUse() {
  const MetricsPage page = daemon().Metrics();
  std::vector<std::string> in_use = page.InUse();
  for (const std::string name : kGaugesOfDisks) {
    const std::optional<double> value = page.Find(name);
    if (value != 0.0) in_use.push_back(name + " " + (value ? std::to_string(*value) : "missing"));
  }
  for (const std::string& path : data_paths_) {
    for (const std::string& entry : AppsEntries(path)) in_use.push_back(path + ": " + entry);
  }
  return in_use;
}

void DiskTest::ExpectNothingLeft() {
  client().UnregisterAll();
  const auto deadline = std::chrono::steady_clock::now() + kIdleTimeout;
  std::vector<std::string> in_use = StillInUse();
  while (!in_use.empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPoll);
    in_use = StillInUse();
  }
  EXPECT_EQ(in_use, std::vector<std::string>()) << daemon().Log();
}

void DiskTest::Finish() {
  ExpectNothingLeft();
  EXPECT_TRUE(daemon().process().Running()) << daemon().Log();
  EXPECT_EQ(daemon().Stop(), 0) << daemon().Log();
  EXPECT_EQ(daemon().Log().find(" critical "), std::string::npos) << daemon().Log();
}

}  // namespace dovetail::e2e
