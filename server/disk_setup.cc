#include "server/disk_setup.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstring>
#include <utility>

#include "engine/pool/pool_engine.h"
#include "engine/probe.h"
#include "server/disk_probe.h"

namespace dovetail::server {
namespace {

std::expected<void, std::string> OpenOne(const std::string& data_path, bool direct, Arena& arena,
                                         OpenedDisks& disks) {
  auto claim = storage::DataPathClaim::Take(data_path);
  if (!claim) return std::unexpected(claim.error());
  const Result<engine::EngineFacts> facts = engine::Probe((*claim)->folder());
  if (!facts) return std::unexpected(ProbeFailure(data_path, facts.error()));
  auto engine = engine::PoolEngine::Start({.data_path = (*claim)->folder()}, arena);
  if (!engine) {
    return std::unexpected(fmt::format("data path {}: the engine did not start ({}: {})", data_path,
                                       engine.error().where,
                                       std::strerror(engine.error().os_error)));
  }
  spdlog::info("data path {}: engine pool, {}, appends {}, {} of {} bytes free", data_path,
               facts->file_system, AppendMode(*facts, direct), facts->free_bytes,
               facts->total_bytes);
  disks.claims.push_back(std::move(*claim));
  disks.engines.push_back(std::move(*engine));
  return {};
}

}  // namespace

std::expected<OpenedDisks, std::string> OpenDisks(const storage::LocalFileStoreOptions& options,
                                                  Arena& arena) {
  OpenedDisks disks;
  for (const std::string& data_path : options.data_paths) {
    const bool direct = options.direct_io_append_enable;
    if (auto opened = OpenOne(data_path, direct, arena, disks); !opened) {
      return std::unexpected(opened.error());
    }
  }
  return disks;
}

}  // namespace dovetail::server
