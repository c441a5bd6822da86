#include "tests/e2e/process/daemon_process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/server/http/raw_client.h"

namespace dovetail::e2e {
namespace {

constexpr std::chrono::milliseconds kPoll{10};

bool WaitFor(std::chrono::milliseconds timeout, const std::function<bool()>& met) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!met()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

// 0 when it is not there.
int PortBehind(const std::string& log, size_t from, std::string_view text) {
  const size_t found = log.find(text, from);
  return found == std::string::npos ? 0 : std::atoi(log.c_str() + found + text.size());
}

std::vector<std::string> Arguments(const Settings& settings) {
  std::vector<std::string> argv = {DaemonBinary()};
  for (const char* base : {"grpc_port=0", "http_port=0", "bind_address=127.0.0.1"}) {
    argv.insert(argv.end(), {"--set", base});
  }
  for (const std::string& setting : settings) argv.insert(argv.end(), {"--set", setting});
  return argv;
}

}  // namespace

std::string DaemonBinary() { return DOVETAIL_BINARY_DIR "/bin/dovetaild"; }

HttpAnswer HttpGet(int port, std::string_view path) {
  server::RawClient client(port);
  if (!client.connected()) return {};
  client.Send("GET " + std::string(path) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  const std::string all = client.ReadAll();
  const size_t body = all.find("\r\n\r\n");
  if (!all.starts_with("HTTP/1.1 ") || body == std::string::npos) return {};
  return {std::atoi(all.c_str() + 9), all.substr(body + 4)};
}

DaemonProcess::DaemonProcess(const Settings& settings, const SubprocessOptions& options)
    : process_(Arguments(settings), options) {}

std::unique_ptr<DaemonProcess> DaemonProcess::Start(const Settings& settings,
                                                    const SubprocessOptions& options) {
  auto daemon = std::make_unique<DaemonProcess>(settings, options);
  if (daemon->WaitReady()) return daemon;
  ADD_FAILURE() << "dovetaild is not ready; its log:\n" << daemon->Log();
  return nullptr;
}

bool DaemonProcess::WaitReady(std::chrono::milliseconds timeout) {
  std::string log;
  size_t line = std::string::npos;
  const auto ready = [&] { return (line = (log = Log()).find("ready: ")) != std::string::npos; };
  WaitFor(timeout, [&] { return ready() || !process_.Running(); });
  if (!ready()) return false;
  grpc_port_ = PortBehind(log, line, "grpc=127.0.0.1:");
  http_port_ = PortBehind(log, line, "http=127.0.0.1:");
  return grpc_port_ > 0 && http_port_ > 0;
}

bool DaemonProcess::WaitLog(std::string_view text, std::chrono::milliseconds timeout) {
  const auto there = [&] { return Log().find(text) != std::string::npos; };
  return WaitFor(timeout, [&] { return there() || !process_.Running(); }) && there();
}

bool DaemonProcess::WaitMetric(std::string_view name, double value, const LabelValues& labels,
                               std::chrono::milliseconds timeout) const {
  return WaitFor(timeout, [&] { return Metrics().Find(name, labels) == value; });
}

bool DaemonProcess::WaitMetricAbove(std::string_view name, double value, const LabelValues& labels,
                                    std::chrono::milliseconds timeout) const {
  return WaitFor(timeout, [&] { return Metrics().Value(name, labels) > value; });
}

std::vector<std::string> DaemonProcess::WaitIdle(std::chrono::milliseconds timeout) const {
  std::vector<std::string> in_use;
  WaitFor(timeout, [&] { return (in_use = Metrics().InUse()).empty(); });
  return in_use;
}

int DaemonProcess::Stop(std::chrono::milliseconds timeout) {
  process_.Signal(SIGTERM);
  const std::optional<int> exit_code = process_.Wait(timeout);
  if (!exit_code) ADD_FAILURE() << "dovetaild did not stop; its log:\n" << Log();
  return exit_code.value_or(-1000);
}

}  // namespace dovetail::e2e
