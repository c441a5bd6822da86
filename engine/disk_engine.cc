#include "engine/disk_engine.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <limits>

#include "engine/memory_pieces.h"

namespace dovetail::engine {
namespace {

constexpr int64_t kOffsetMax = std::numeric_limits<int64_t>::max();
constexpr size_t kHeldNamedMax = 5;

Error Invalid(const char* where) { return {ErrorCode::kInvalid, 0, where}; }

Status RangeFault(const DiskFile* file, int64_t offset, int64_t length) {
  if (file == nullptr) return Fail(ErrorCode::kInvalid, "read: file");
  if (offset < 0 || length <= 0 || offset > kOffsetMax - length) {
    return Fail(ErrorCode::kInvalid, "read: range");
  }
  if (offset + length > file->written_end()) return Fail(ErrorCode::kCorrupt, "end");
  return {};
}

}  // namespace

Status DiskEngine::AppendFault(const AppendRequest& request, const DiskFile* file, int64_t bytes) {
  if (file == nullptr) return Fail(ErrorCode::kInvalid, "append: file");
  if (request.offset < 0 || bytes < 0 || request.offset > kOffsetMax - bytes) {
    return Fail(ErrorCode::kInvalid, "append: range");
  }
  if (request.mode == IoMode::kDirect) {
    const int64_t alignment = file->direct_alignment();
    if (request.offset % alignment != 0 || bytes % alignment != 0) {
      return Fail(ErrorCode::kInvalid, "append: alignment");
    }
  }
  return {};
}

Status DiskEngine::ReadFault(const ReadRequest& request, const DiskFile* file) {
  return RangeFault(file, request.offset, request.length);
}

Status DiskEngine::PipeFault(const PipeRequest& request, const DiskFile* file) {
  if (request.pipe < 0) return Fail(ErrorCode::kInvalid, "pipe");
  return RangeFault(file, request.offset, request.length);
}

void DiskEngine::SubmitControl(std::string name, ControlOperation::Work work, Done done) {
  core_->threads->Submit(
      std::make_shared<ControlOperation>(std::move(name), std::move(work), std::move(done)));
}

void DiskEngine::Open(std::string path, bool create, OpenDone done) {
  core_->threads->Submit(std::make_shared<OpenOperation>(core_, std::move(path), create,
                                                         MakerOfFiles(), std::move(done)));
}

void DiskEngine::Reserve(FileRef file, int64_t end, Done done) {
  DiskFileRef own = OwnFile(file);
  if (own == nullptr || end < 0) return Refuse(std::move(done), Invalid("reserve"));
  SubmitControl(
      "reserve of " + own->path(),
      [core = core_, own, end] { return ReserveFile(*core, *own, end); }, std::move(done));
}

void DiskEngine::Truncate(FileRef file, int64_t size, Done done) {
  DiskFileRef own = OwnFile(file);
  if (own == nullptr || size < 0 || size > own->written_end()) {
    return Refuse(std::move(done), Invalid("truncate"));
  }
  SubmitControl(
      "truncate of " + own->path(),
      [core = core_, own, size] { return TruncateFile(*core, *own, size); }, std::move(done));
}

void DiskEngine::Remove(std::string path, Done done) {
  std::string name = "remove of " + path;
  SubmitControl(
      std::move(name),
      [core = core_, path = std::move(path)] { return core->folder->RemoveFile(path); },
      std::move(done));
}

void DiskEngine::RemoveFolder(std::string path, Done done) {
  std::string name = "remove of folder " + path;
  SubmitControl(
      std::move(name),
      [core = core_, path = std::move(path)] { return core->folder->RemoveFolder(path); },
      std::move(done));
}

void DiskEngine::Space(SpaceDone done) {
  auto space = std::make_shared<SpaceInfo>();
  SubmitControl(
      "space of the file system", [core = core_, space] { return core->folder->Space(*space); },
      [space, done = std::move(done)](Status status) mutable {
        if (!status) return done(std::unexpected(status.error()));
        done(*space);
      });
}

void DiskEngine::LogHeld(const DiskCore& core, int64_t held, bool shard_at_work,
                         std::vector<std::string> names) {
  if (names.size() > kHeldNamedMax) names.resize(kHeldNamedMax);
  spdlog::error(
      "data path {}: the stop deadline passed with {} operations held by the system{}: "
      "{}; they are left behind, check this disk",
      core.data_path, held, shard_at_work ? " and a shard still at work" : "",
      fmt::join(names, ", "));
}

}  // namespace dovetail::engine
