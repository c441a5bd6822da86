// What suites over the wire share: one daemon for the suite, and after every test nothing may be
// left in it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/e2e/process/daemon_process.h"
#include "tests/e2e/wire/wire_client.h"

namespace dovetail::e2e {

// Suite: the derived class, with a static Settings MakeSettings().
template <class Suite>
class DaemonSuite : public testing::Test {
 public:
  static void SetUpTestSuite() {
    daemon_ = DaemonProcess::Start(Suite::MakeSettings());
    if (daemon_) client_ = std::make_unique<WireClient>(daemon_->grpc_port());
  }

  static void TearDownTestSuite() {
    client_.reset();
    if (!daemon_) return;
    EXPECT_EQ(daemon_->Stop(), 0) << daemon_->Log();
    EXPECT_EQ(daemon_->Log().find(" critical "), std::string::npos) << daemon_->Log();
    daemon_.reset();
  }

  void SetUp() override { ASSERT_TRUE(daemon_); }

  void TearDown() override {
    if (!daemon_) return;
    client().UnregisterAll();
    EXPECT_EQ(daemon().WaitIdle(), std::vector<std::string>()) << daemon().Log();
    EXPECT_TRUE(daemon().process().Running()) << daemon().Log();
  }

 protected:
  static DaemonProcess& daemon() { return *daemon_; }
  static WireClient& client() { return *client_; }

  // An application of this test only.
  static Target NewTarget(int32_t shuffle = 0) {
    static int count = 0;
    return {"app-" + std::to_string(++count), shuffle};
  }
  static Target Registered(int32_t partitions) {
    const Target target = NewTarget();
    EXPECT_EQ(client().Register(target, partitions), wire::SUCCESS);
    return target;
  }

  static double Metric(std::string_view name, const LabelValues& labels = {}) {
    return daemon().Metrics().Value(name, labels);
  }

 private:
  static inline std::unique_ptr<DaemonProcess> daemon_;
  static inline std::unique_ptr<WireClient> client_;
};

}  // namespace dovetail::e2e
