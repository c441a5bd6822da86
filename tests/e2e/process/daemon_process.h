// The real dovetaild as a child process of a test, on free ports of 127.0.0.1.
//
// Threads: one, except Get and Metrics, which any thread may call.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/e2e/process/metrics_page.h"
#include "tests/e2e/process/subprocess.h"

namespace dovetail::e2e {

// Path of the dovetaild of this build.
std::string DaemonBinary();

// "key=value", as for --set.
using Settings = std::vector<std::string>;

struct HttpAnswer {
  int status = 0;  // 0: no answer
  std::string body;
};

// A GET from 127.0.0.1:port.
HttpAnswer HttpGet(int port, std::string_view path);

class DaemonProcess {
 public:
  // Waits until it is ready. Null (and a failed test) when it is not: the log is in the failure.
  static std::unique_ptr<DaemonProcess> Start(const Settings& settings = {},
                                              const SubprocessOptions& options = {});
  // Does not wait: for tests of what is no ordinary start.
  explicit DaemonProcess(const Settings& settings, const SubprocessOptions& options = {});

  // True once "ready" is in the log, false when it ended or time is up.
  bool WaitReady(std::chrono::milliseconds timeout = std::chrono::seconds(60));
  // Valid once ready.
  int grpc_port() const { return grpc_port_; }
  int http_port() const { return http_port_; }

  Subprocess& process() { return process_; }
  std::string Log() const { return process_.Err(); }
  bool WaitLog(std::string_view text, std::chrono::milliseconds timeout = std::chrono::seconds(30));

  HttpAnswer Get(std::string_view path) const { return HttpGet(http_port_, path); }
  MetricsPage Metrics() const { return MetricsPage(Get("/metrics").body); }
  // Waits until that series has that value; false when time is up.
  bool WaitMetric(std::string_view name, double value, const LabelValues& labels = {},
                  std::chrono::milliseconds timeout = std::chrono::seconds(30)) const;
  // Waits until that series is above that value.
  bool WaitMetricAbove(std::string_view name, double value, const LabelValues& labels = {},
                       std::chrono::milliseconds timeout = std::chrono::seconds(30)) const;
  // Waits until every gauge of use is exactly 0; what is not, when time is up.
  std::vector<std::string> WaitIdle(
      std::chrono::milliseconds timeout = std::chrono::seconds(20)) const;

  // SIGTERM, then the exit code as of Subprocess::Wait. -1000 (and a failed test) when it hangs.
  int Stop(std::chrono::milliseconds timeout = std::chrono::seconds(60));

 private:
  Subprocess process_;
  int grpc_port_ = 0;
  int http_port_ = 0;
};

}  // namespace dovetail::e2e
