#include "server/disk_setup.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/pool/pool_engine.h"
#include "engine/probe.h"
#include "engine/uring/uring_choice.h"
#include "engine/uring/uring_engine.h"
#include "server/disk_probe.h"

namespace dovetail::server {
namespace {

// What the process needs beside segments and connections, and the least that an engine works with.
constexpr uint64_t kOwnDescriptors = 64;
constexpr int64_t kDescriptorsMin = 8;
constexpr uint64_t kOpenFilesMax = 1 << 30;

struct StartedEngine {
  std::unique_ptr<engine::Engine> engine;
  std::string reason;
};

std::unexpected<std::string> NotStarted(const std::string& data_path, const Error& error) {
  return std::unexpected(fmt::format("data path {}: the engine did not start ({}: {})", data_path,
                                     error.where, std::strerror(error.os_error)));
}

std::expected<StartedEngine, std::string> StartEngine(const std::string& data_path,
                                                      const engine::EngineOptions& options,
                                                      Arena& arena) {
  auto choice = engine::ChooseEngine(options.engine, options.io_uring);
  if (!choice) return std::unexpected(fmt::format("data path {}: {}", data_path, choice.error()));
  std::string reason = std::move(choice->reason);
  if (choice->io_uring) {
    auto started = engine::UringEngine::Start(options.io_uring, arena);
    if (started) return StartedEngine{std::move(*started), std::move(reason)};
    // Such as memory that was enough for the trial, or for the paths before this one.
    reason = "io_uring is refused: " + engine::RefusalOf(started.error());
    if (options.engine != "auto") {
      return std::unexpected(fmt::format("data path {}: {}", data_path, reason));
    }
  }
  if (options.engine == "auto") {
    spdlog::warn("data path {}: {}; the pool engine takes its place", data_path, reason);
  }
  auto started = engine::PoolEngine::Start({.data_path = options.io_uring.data_path,
                                            .descriptors_max = options.io_uring.descriptors_max},
                                           arena);
  if (!started) return NotStarted(data_path, started.error());
  return StartedEngine{std::move(*started), std::move(reason)};
}

std::expected<void, std::string> OpenOne(const std::string& data_path, bool direct,
                                         engine::EngineOptions engine_options, Arena& arena,
                                         OpenedDisks& disks) {
  auto claim = storage::DataPathClaim::Take(data_path);
  if (!claim) return std::unexpected(claim.error());
  const Result<engine::EngineFacts> facts = engine::Probe((*claim)->folder());
  if (!facts) return std::unexpected(ProbeFailure(data_path, facts.error()));
  engine_options.io_uring.data_path = (*claim)->folder();
  auto started = StartEngine(data_path, engine_options, arena);
  if (!started) return std::unexpected(started.error());
  spdlog::info("data path {}: engine {} ({}), {}, appends {}, {} of {} bytes free", data_path,
               started->engine->info().name, started->reason, facts->file_system,
               AppendMode(*facts, direct), facts->free_bytes, facts->total_bytes);
  disks.claims.push_back(std::move(*claim));
  disks.engines.push_back(std::move(started->engine));
  disks.engine_reasons.push_back(std::move(started->reason));
  return {};
}

}  // namespace

// A quarter is for connections: the gRPC library takes none any more once they ran out.
int64_t DescriptorsOfOnePath(uint64_t open_files_max, size_t paths) {
  const uint64_t all = std::min(open_files_max, kOpenFilesMax);
  const uint64_t spare = all > kOwnDescriptors ? all - kOwnDescriptors : 0;
  return std::max(static_cast<int64_t>(spare / 4 * 3 / std::max(paths, size_t{1})),
                  kDescriptorsMin);
}

std::expected<OpenedDisks, std::string> OpenDisks(const storage::LocalFileStoreOptions& options,
                                                  const engine::EngineOptions& engine_options,
                                                  uint64_t open_files_max, Arena& arena) {
  OpenedDisks disks;
  engine::EngineOptions of_one_path = engine_options;
  of_one_path.io_uring.descriptors_max =
      DescriptorsOfOnePath(open_files_max, options.data_paths.size());
  for (const std::string& data_path : options.data_paths) {
    std::string nested = storage::NestedDataPath(data_path, options.data_paths);
    if (!nested.empty()) return std::unexpected(std::move(nested));
  }
  for (const std::string& data_path : options.data_paths) {
    const bool direct = options.direct_io_append_enable;
    if (auto opened = OpenOne(data_path, direct, of_one_path, arena, disks); !opened) {
      return std::unexpected(opened.error());
    }
  }
  return disks;
}

}  // namespace dovetail::server
