// What the tests of a daemon on real file systems share: a fresh folder, mounts in it, one daemon,
// and the check that nothing is left in memory or on disk when everything was unregistered.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/config/scratch_folder.h"
#include "tests/e2e/disk/ledger.h"
#include "tests/e2e/disk/mounts.h"
#include "tests/e2e/process/daemon_process.h"
#include "tests/e2e/wire/wire_client.h"

namespace dovetail::e2e {

// Ends the test as skipped when mounts are not permitted.
#define DOVETAIL_NEEDS_MOUNTS() \
  if (const std::string why = EnterOwnMounts(); !why.empty()) GTEST_SKIP() << why

class DiskTest : public testing::Test {
 protected:
  static constexpr int64_t kMiB = 1 << 20;

  void TearDown() override;

  // A folder for a data path, without a file system of its own.
  std::string PlainPath(const std::string& name) const;
  // Null when it cannot be had: the test is skipped with `why_not_`.
  Mount* AddTmpfs(const std::string& name, int64_t bytes);
  Mount* AddExt4(const std::string& name, int64_t bytes);

  // A daemon over these data paths that looks at its disks every second. False is a failed test.
  bool Start(const std::vector<std::string>& data_paths, const Settings& more,
             const SubprocessOptions& options = {});
  static std::string PathsSetting(const std::vector<std::string>& data_paths);

  // Ends all applications and expects every gauge of use to become 0 and the files to go.
  void ExpectNothingLeft();
  // The same, then expects a clean end.
  void Finish();

  Target Registered(const std::string& app, int32_t partitions, int32_t shuffle = 0);

  DaemonProcess& daemon() { return *daemon_; }
  WireClient& client() { return *client_; }
  Ledger& ledger() { return *ledger_; }
  double Metric(std::string_view name, const LabelValues& labels = {}) {
    return daemon().Metrics().Value(name, labels);
  }
  bool WaitState(const std::string& path, const std::string& state, bool holds);

  // Entries below <path>/dovetail/apps, relative to it.
  static std::vector<std::string> AppsEntries(const std::string& path);

  const config::ScratchFolder folder_;
  std::string why_not_;
  std::vector<std::unique_ptr<Mount>> mounts_;
  std::vector<std::string> data_paths_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::unique_ptr<WireClient> client_;
  std::unique_ptr<Ledger> ledger_;

 private:
  Mount* Add(std::unique_ptr<Mount> mount);
  std::vector<std::string> StillInUse();
};

}  // namespace dovetail::e2e
