#include "server/disk_setup.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/pool/pool_engine.h"
#include "engine/probe.h"
#include "server/disk_probe.h"

namespace dovetail::server {
namespace {

// What the process needs beside segments and connections, and the least that an engine works with.
constexpr uint64_t kOwnDescriptors = 64;
constexpr int64_t kDescriptorsMin = 8;
constexpr uint64_t kOpenFilesMax = 1 << 30;

std::expected<void, std::string> OpenOne(const std::string& data_path, bool direct,
                                         int64_t descriptors_max, Arena& arena,
                                         OpenedDisks& disks) {
  auto claim = storage::DataPathClaim::Take(data_path);
  if (!claim) return std::unexpected(claim.error());
  const Result<engine::EngineFacts> facts = engine::Probe((*claim)->folder());
  if (!facts) return std::unexpected(ProbeFailure(data_path, facts.error()));
  auto engine = engine::PoolEngine::Start(
      {.data_path = (*claim)->folder(), .descriptors_max = descriptors_max}, arena);
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

// A quarter is for connections: the gRPC library takes none any more once they ran out.
int64_t DescriptorsOfOnePath(uint64_t open_files_max, size_t paths) {
  const uint64_t all = std::min(open_files_max, kOpenFilesMax);
  const uint64_t spare = all > kOwnDescriptors ? all - kOwnDescriptors : 0;
  return std::max(static_cast<int64_t>(spare / 4 * 3 / std::max(paths, size_t{1})),
                  kDescriptorsMin);
}

std::expected<OpenedDisks, std::string> OpenDisks(const storage::LocalFileStoreOptions& options,
                                                  uint64_t open_files_max, Arena& arena) {
  OpenedDisks disks;
  const int64_t descriptors_max = DescriptorsOfOnePath(open_files_max, options.data_paths.size());
  for (const std::string& data_path : options.data_paths) {
    std::string nested = storage::NestedDataPath(data_path, options.data_paths);
    if (!nested.empty()) return std::unexpected(std::move(nested));
  }
  for (const std::string& data_path : options.data_paths) {
    const bool direct = options.direct_io_append_enable;
    if (auto opened = OpenOne(data_path, direct, descriptors_max, arena, disks); !opened) {
      return std::unexpected(opened.error());
    }
  }
  return disks;
}

}  // namespace dovetail::server
