// dovetaild: one process, a shuffle server with its own coordinator. Exit codes:
// docs/configuration.md.
#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <iostream>

#include "engine/base/log.h"
#include "server/command_line.h"
#include "server/daemon.h"
#include "server/disk_probe.h"

namespace {

void IgnoreSignals() {
  // A client that goes away in the middle of an answer is an error of that write, not the end of
  // the process.
  signal(SIGPIPE, SIG_IGN);
  // So is a file that reaches the limit of file sizes.
  signal(SIGXFSZ, SIG_IGN);
  // Nothing is reloaded by it: a terminal that closes must not end the daemon without a stop.
  signal(SIGHUP, SIG_IGN);
}

// Blocked in every thread (they inherit the mask), taken by main with sigwait: a signal handler
// could do nothing.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int Probe(const dovetail::server::ProbeArguments& arguments,
          const dovetail::config::Config& config) {
  // What cannot be written because of it is said, here too.
  signal(SIGXFSZ, SIG_IGN);
  dovetail::storage::LocalFileStoreOptions options = config.store.local_file;
  if (!arguments.paths.empty()) options.data_paths = arguments.paths;
  const dovetail::server::ProbeReport report = dovetail::server::ProbeDisks(options, config.engine);
  std::cout << (arguments.json ? ProbeJson(report) : ProbeText(report)) << std::flush;
  return report.usable() ? dovetail::server::kExitClean : dovetail::server::kExitStartRefused;
}

}  // namespace

int main(int argc, char** argv) {
  const auto invocation = dovetail::server::ParseCommandLine(argc, argv);
  if (!invocation) return invocation.error();
  dovetail::InitLog(invocation->config.server.log.log_level);
  if (invocation->probe) return Probe(*invocation->probe, invocation->config);

  IgnoreSignals();
  const sigset_t signals = BlockStopSignals();
  auto daemon = dovetail::server::Daemon::Start(invocation->config);
  if (!daemon) {
    spdlog::error("start refused: {}", daemon.error());
    return dovetail::server::kExitStartRefused;
  }
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  spdlog::info("stopping on {}", sigabbrev_np(signal_number));
  return (*daemon)->Stop([&signals] {
    const timespec no_wait{};
    return sigtimedwait(&signals, nullptr, &no_wait) > 0;
  });
}
