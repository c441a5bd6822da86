#include "engine/control_operations.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/errno.h"

namespace dovetail::engine {
namespace {

constexpr int kAttemptsMax = 100;  // of a call that a signal interrupts

template <class Call>
int RepeatInterrupted(Call call) {
  int result = call();
  for (int i = 1; result == -EINTR && i < kAttemptsMax; ++i) result = call();
  return result;
}

}  // namespace

Status ControlOperation::RunStep(int64_t) { return work_(); }

void ControlOperation::Finish(Status status) {
  work_ = nullptr;
  auto done = std::move(done_);
  done(status);
}

Status OpenOperation::RunStep(int64_t) {
  const Result<OpenedFile> opened = core_->folder->OpenFile(path_, create_);
  if (!opened) return std::unexpected(opened.error());
  file_ = make_(path_, *opened);
  return {};
}

void OpenOperation::Finish(Status status) {
  Result<FileRef> result = std::move(file_);
  if (!status) result = std::unexpected(status.error());
  auto done = std::move(done_);
  done(std::move(result));
}

Status CheckWhole(DiskCore& core, const DiskFile& file, int fd, int64_t needed) {
  // Before the look, or an append that ends meanwhile would seem to be missing.
  const int64_t end = std::min(file.written_end(), needed);
  const int64_t size = core.calls->KnownSize(fd);
  if (size < 0) return FailErrno("append: stat", static_cast<int>(-size));
  if (size >= end) return {};
  return Fail(ErrorCode::kCorrupt, "append: the file is shorter than what was written to it");
}

Status ReserveFile(DiskCore& core, DiskFile& file, int64_t end) {
  const DiskFile::Reserved before = file.reserved();
  const int64_t begin = before.end;
  if (end <= begin) return {};
  const Result<DescriptorsRef> open = file.Use();
  if (!open) return std::unexpected(open.error());
  const int fd = (*open)->buffered();
  if (Status whole = CheckWhole(core, file, fd, file.written_end()); !whole) return whole;
  const int result =
      RepeatInterrupted([&] { return core.calls->Fallocate(fd, begin, end - begin); });
  if (result == -EOPNOTSUPP || result == -ENOSYS) {
    // Appends then find out themselves whether there is space; they roll back where there is none.
    core.counters.unreserved.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  if (result < 0) return FailErrno("reserve", -result);
  file.GrowReserved(end, before);
  return {};
}

Status TruncateFile(DiskCore& core, DiskFile& file, int64_t size) {
  const Result<DescriptorsRef> open = file.Use();
  if (!open) return std::unexpected(open.error());
  const int fd = (*open)->buffered();
  const int result = RepeatInterrupted([&] { return core.calls->Ftruncate(fd, size); });
  if (result < 0) return FailErrno("truncate", -result);
  file.Shrink(size);
  return {};
}

Error CutBack(DiskCore& core, DiskFile& file, int fd, int64_t offset, Error error) {
  file.Shrink(offset);
  const int result = RepeatInterrupted([&] { return core.calls->Ftruncate(fd, offset); });
  file.Shrink(offset);  // and what was reserved in between is gone too
  core.counters.rollbacks.fetch_add(1, std::memory_order_relaxed);
  if (result < 0) {
    core.counters.rollback_failures.fetch_add(1, std::memory_order_relaxed);
    spdlog::warn(
        "{}/{}: an append at {} failed ({}) and could not be cut back ({}); its bytes are ignored "
        "and overwritten by the next append",
        core.data_path, file.path(), offset, std::strerror(error.os_error), std::strerror(-result));
    error.where = "rollback";
  }
  return error;
}

}  // namespace dovetail::engine
