#include "server/daemon.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "config/memory_limit.h"
#include "engine/base/executor.h"
#include "engine/base/metrics.h"
#include "engine/base/process_metrics.h"
#include "engine/base/ticker.h"
#include "server/answer_watch.h"
#include "server/call_metrics.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_grpc.h"
#include "server/disk_metrics.h"
#include "server/disk_setup.h"
#include "server/engine_metrics.h"
#include "server/file_limit.h"
#include "server/free_port.h"
#include "server/grpc/grpc_server.h"
#include "server/grpc/shuffle_grpc.h"
#include "server/http/http_server.h"
#include "server/shuffle_service.h"
#include "server/store_metrics.h"

namespace dovetail::server {
namespace {

constexpr int kReplyThreads = 2;
constexpr Milliseconds kExpiryInterval{5'000};
constexpr Milliseconds kAnswerInterval{1'000};
// What calls in flight get after the stop deadline before they are cut.
constexpr Milliseconds kLastCalls{2'000};
constexpr Milliseconds kStopPoll{20};
constexpr Milliseconds kFirstLook{2'000};
// What the disks get to finish removals, and then what is under way; together with the last calls
// less than kStopGivenUp.
constexpr Milliseconds kRemovals{3'000};
constexpr Milliseconds kDiskStop{3'000};
// What is still going on so long after the stop deadline will not end by itself.
constexpr Milliseconds kStopGivenUp{10'000};

// The bounds of docs/configuration.md, "Memory", against what there is.
void WarnOfTooMuchMemory(const config::Config& config) {
  const config::MemoryLimit limit = config::FindMemoryLimit("", config::MachineMemoryBytes());
  const storage::MemoryStoreOptions& memory = config.store.memory;
  const int64_t bounds = memory.capacity_bytes + memory.read_bytes_max + memory.report_bytes_max +
                         config.server.grpc_memory_bytes_max;
  if (bounds <= limit.bytes) return;
  spdlog::warn(
      "memory_store.capacity, read_bytes_max, report_bytes_max and grpc_memory_bytes_max "
      "add up to {} bytes, more than the {} bytes of {}: under full load the system may "
      "end the daemon; lower them",
      bounds, limit.bytes, limit.reason);
}

}  // namespace

// In order of construction; destroyed in reverse.
struct Daemon::Parts {
  Parts(const config::Config& from, std::unique_ptr<Arena> memory, OpenedDisks disks)
      : config(from),
        claims(std::move(disks.claims)),
        engine_reasons(std::move(disks.engine_reasons)),
        arena(std::move(memory)),
        calls(registry),
        answers(Milliseconds(from.server.grpc_answer_timeout_ms),
                registry.AddCounter("dovetail_answers_cut_total",
                                    "Answers given up because the client did not take them")),
        executor("reply", kReplyThreads),
        store(from.store, *arena, executor, ticker, SteadyClock(), std::move(disks.engines)),
        service(store),
        coordinator(from.server.coordinator, registry) {}

  ~Parts() {
    registry.RemoveCallbacks(this);
    registry.RemoveCallbacks(&store);
  }

  config::Config config;
  std::vector<std::unique_ptr<storage::DataPathClaim>> claims;
  std::vector<std::string> engine_reasons;
  std::unique_ptr<Arena> arena;
  MetricsRegistry registry;
  CallMetrics calls;
  AnswerWatch answers;
  Ticker ticker;
  Executor executor;
  storage::ShuffleStore store;
  ShuffleService service;
  Coordinator coordinator;
  std::unique_ptr<grpc::Service> shuffle_grpc;
  std::unique_ptr<grpc::Service> coordinator_grpc;
  HttpServer http;
  std::unique_ptr<GrpcServer> grpc;
  std::string server_id;
  std::atomic<bool> stopping{false};

  void RegisterItself();
  bool Assignable() const { return !stopping.load() && grpc != nullptr && store.EnoughDisks(); }
  // The first look at every disk: one that is full already must not be called ready. A disk that
  // does not answer is not waited for.
  void LookAtDisks();
  // Waits for the removal of files, then stops the engines. False when a disk did not answer.
  bool StopDisks();
  std::expected<void, std::string> StartHttp();
  void StartTicking();
};

// Also the heartbeat: the coordinator is in this process, so it is told directly.
void Daemon::Parts::RegisterItself() {
  if (stopping.load()) return;
  const storage::MemoryBudget::Figures figures = store.budget().figures();
  ServerReport report;
  report.server = {.id = server_id,
                   .ip = config.server.advertise_host,
                   .grpc_port = static_cast<int32_t>(config.server.grpc_port)};
  report.used_memory_bytes = figures.used_bytes;
  report.promised_memory_bytes = figures.promised_bytes;
  report.available_memory_bytes = store.budget().capacity_bytes() - figures.total_bytes();
  report.tags = {"ss_v5", "GRPC"};
  report.tags.insert(report.tags.end(), config.server.tags.begin(), config.server.tags.end());
  if (!store.EnoughDisks()) report.status = MemberStatus::kUnhealthy;
  const Outcome outcome = coordinator.Heartbeat(std::move(report));
  if (!outcome.ok()) spdlog::warn("own heartbeat refused: {}", outcome.message);
}

std::expected<void, std::string> Daemon::Parts::StartHttp() {
  http.Route("/metrics", [this] {
    return HttpReply{200, "text/plain; version=0.0.4; charset=utf-8", registry.Render()};
  });
  http.Route("/", [] {
    return HttpReply{.body = "dovetaild " DOVETAIL_VERSION
                             "\n/metrics  figures for Prometheus\n/healthz  the process is alive"
                             "\n/readyz   assignments may name this server\n"};
  });
  http.Route("/healthz", [] { return HttpReply{200, "text/plain; charset=utf-8", "alive\n"}; });
  http.Route("/readyz", [this] {
    if (Assignable()) return HttpReply{200, "text/plain; charset=utf-8", "ready\n"};
    const char* why = stopping.load()       ? "stopping\n"
                      : store.EnoughDisks() ? "starting\n"
                                            : "too few usable data paths\n";
    return HttpReply{503, "text/plain; charset=utf-8", why};
  });
  const Status started =
      http.Start({.bind_address = config.server.bind_address, .port = config.server.http_port});
  if (!started) return std::unexpected(http.start_failure() + "; set http_port or bind_address");
  return {};
}

void Daemon::Parts::LookAtDisks() {
  store.CheckDisks();
  const auto looked = [](const auto& disk) { return disk->stats().file_system_bytes.load() > 0; };
  const auto deadline = std::chrono::steady_clock::now() + kFirstLook;
  while (!std::ranges::all_of(store.disks(), looked) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kStopPoll);
  }
}

void Daemon::Parts::StartTicking() {
  ticker.RunEvery(std::chrono::seconds(config.server.heartbeat_interval_seconds),
                  [this] { RegisterItself(); });
  ticker.RunEvery(std::chrono::seconds(config.store.memory.buffer_ticket_check_interval_sec),
                  [this] { store.ExpireTickets(); });
  ticker.RunEvery(std::chrono::seconds(config.store.local_file.disk_healthy_check_interval_sec),
                  [this] { store.CheckDisks(); });
  ticker.RunEvery(kAnswerInterval, [this] { answers.CutOverdue(); });
  ticker.RunEvery(kExpiryInterval, [this] {
    store.ExpireApps();
    coordinator.Expire();
  });
}

bool Daemon::Parts::StopDisks() {
  const auto removed_by = std::chrono::steady_clock::now() + kRemovals;
  while (store.stats().removals_pending.load() > 0 &&
         std::chrono::steady_clock::now() < removed_by) {
    std::this_thread::sleep_for(kStopPoll);
  }
  if (const int64_t left = store.stats().removals_pending.load(); left > 0) {
    spdlog::warn("files of {} shuffles could not be removed; the next start removes them", left);
  }
  // Time of its own: a disk that refuses to remove something does not make the others look hung.
  const auto deadline = std::chrono::steady_clock::now() + kDiskStop;
  bool answered = true;
  for (const std::unique_ptr<storage::Disk>& disk : store.disks()) {
    if (disk->engine().Stop(deadline)) continue;
    answered = false;
    spdlog::error(
        "data path {} did not answer: {} operations are left behind, files below it may "
        "stay until the next start",
        disk->data_path(), disk->engine().in_flight());
  }
  return answered;
}

Daemon::Daemon(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Daemon::~Daemon() = default;

int Daemon::grpc_port() const { return parts_->grpc->port(); }
int Daemon::http_port() const { return parts_->http.port(); }

std::expected<std::unique_ptr<Daemon>, std::string> Daemon::Start(const config::Config& config) {
  WarnOfTooMuchMemory(config);
  const auto open_files_max = RaiseFileLimit();
  if (!open_files_max) return std::unexpected(open_files_max.error());
  const auto file_size = RaiseFileSizeLimit(config.store.local_file);
  if (!file_size) return std::unexpected(file_size.error());
  config::Config resolved = config;
  if (resolved.server.grpc_port == 0) {
    // Clients are told the port before it is open, so it is chosen first.
    auto port = FreePort(resolved.server.bind_address);
    if (!port) return std::unexpected(port.error());
    resolved.server.grpc_port = *port;
  }
  auto arena = std::make_unique<Arena>();
  auto disks = OpenDisks(resolved.store.local_file, resolved.engine, *open_files_max, *arena);
  if (!disks) return std::unexpected(disks.error());
  auto parts = std::make_unique<Parts>(resolved, std::move(arena), std::move(*disks));
  parts->server_id =
      fmt::format("{}-{}", resolved.server.advertise_host, resolved.server.grpc_port);
  AddProcessMetrics(parts->registry, DOVETAIL_VERSION);
  AddStoreMetrics(parts->registry, parts->store);
  AddDiskMetrics(parts->registry, parts->store);
  AddEngineMetrics(parts->registry, parts->store, parts->engine_reasons);
  parts->registry.AddGauge(parts.get(), "dovetail_ready", "1 when assignments may name this server",
                           [p = parts.get()] { return p->Assignable() ? 1.0 : 0.0; });

  parts->LookAtDisks();
  parts->RegisterItself();
  if (auto started = parts->StartHttp(); !started) return std::unexpected(started.error());
  parts->shuffle_grpc = MakeShuffleGrpc(parts->service, parts->calls, parts->answers);
  parts->coordinator_grpc = MakeCoordinatorGrpc(
      parts->coordinator,
      [&calls = parts->calls](std::string_view method, int status, double seconds) {
        calls.Observe(method, status, seconds);
      },
      parts->answers);
  auto grpc = GrpcServer::Start(parts->config.server,
                                {parts->shuffle_grpc.get(), parts->coordinator_grpc.get()});
  if (!grpc) return std::unexpected(grpc.error());
  parts->grpc = std::move(*grpc);
  parts->StartTicking();
  if (resolved.store.local_file.data_paths.empty()) {
    spdlog::info(
        "localfile_store.data_paths is not set: data stays in memory, and what does not "
        "fit is refused");
  }
  spdlog::info("ready: grpc={0}:{1} http={0}:{2}", resolved.server.advertise_host,
               parts->grpc->port(), parts->http.port());
  return std::unique_ptr<Daemon>(new Daemon(std::move(parts)));
}

namespace {

// A stop has an end, whatever hangs: a call that computes without end must not keep the process.
void EndProcessAt(TimePoint when) {
  std::thread([when] {
    std::this_thread::sleep_until(when);
    spdlog::error("the stop did not finish in time and was given up; calls were cut");
    std::_Exit(kExitCallsInFlight);
  }).detach();
}

}  // namespace

int Daemon::Stop(const std::function<bool()>& hurry) {
  using std::chrono::steady_clock;
  Parts& parts = *parts_;
  const auto deadline = steady_clock::now() + Milliseconds(parts.config.server.stop_deadline_ms);
  EndProcessAt(deadline + kStopGivenUp);
  parts.stopping.store(true);
  parts.service.BeginStop();
  parts.coordinator.Remove(parts.server_id);
  parts.store.CloseAdmission();
  // Without a shuffle there is nothing to read: an application that only forgot to say goodbye is
  // not waited for.
  while (parts.store.AnyShuffle() && steady_clock::now() < deadline && !hurry()) {
    std::this_thread::sleep_for(kStopPoll);
  }
  parts.store.Close();
  const bool finished = parts.grpc->Stop(std::chrono::system_clock::now() + kLastCalls);
  parts.http.Stop();
  parts.ticker.Stop();
  const int64_t dropped = parts.store.budget().figures().used_bytes;
  if (dropped > 0) {
    spdlog::warn("dropped {} bytes of {} applications that were still registered", dropped,
                 parts.store.stats().apps.load());
  }
  parts.store.Clear();
  const bool disks_answered = parts.StopDisks();
  parts.executor.Stop();
  spdlog::info("stopped");
  if (!disks_answered) {
    // What the kernel still holds must not be destroyed under it: leave everything to the process's
    // end.
    std::_Exit(kExitCallsInFlight);
  }
  if (!finished) {
    spdlog::error(
        "calls were still in flight at the stop deadline and were cut; raise "
        "stop_deadline_ms if clients need longer");
    return kExitCallsInFlight;
  }
  return 0;
}

}  // namespace dovetail::server
