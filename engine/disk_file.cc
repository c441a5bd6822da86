#include "engine/disk_file.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace dovetail::engine {
namespace {

void Raise(std::atomic<int64_t>& value, int64_t least) {
  int64_t now = value.load();
  while (now < least && !value.compare_exchange_weak(now, least)) {
  }
}

void Lower(std::atomic<int64_t>& value, int64_t most) {
  int64_t now = value.load();
  while (now > most && !value.compare_exchange_weak(now, most)) {
  }
}

}  // namespace

DiskFile::DiskFile(std::shared_ptr<DiskCore> core, std::string path, const OpenedFile& opened,
                   DescriptorsRef descriptors)
    : core_(std::move(core)),
      path_(std::move(path)),
      direct_alignment_(opened.direct_alignment),
      inode_(opened.inode),
      written_end_(opened.size) {
  core_->open_files.Keep(entry_, std::move(descriptors));
}

DiskFile::DiskFile(std::shared_ptr<DiskCore> core, std::string path, const OpenedFile& opened)
    : DiskFile(core, std::move(path), opened, std::make_shared<Descriptors>(core, opened)) {}

DiskFile::~DiskFile() { core_->open_files.Forget(entry_); }

DescriptorsRef DiskFile::MakeDescriptors(const OpenedFile& opened) const {
  return std::make_shared<Descriptors>(core_, opened);
}

DescriptorsRef DiskFile::UseIfOpen() { return core_->open_files.Find(entry_); }

Result<DescriptorsRef> DiskFile::Use() {
  if (DescriptorsRef open = UseIfOpen()) return open;
  const Result<OpenedFile> opened = core_->folder->OpenFile(path_, false);
  if (!opened) {
    Error error = opened.error();
    if (error.code != ErrorCode::kNotFound) error.code = ErrorCode::kBusy;
    return std::unexpected(error);
  }
  DescriptorsRef again = MakeDescriptors(*opened);
  if (opened->inode != inode_) return Fail(ErrorCode::kNotFound, "open again: another file");
  core_->counters.reopened.fetch_add(1);
  return core_->open_files.Keep(entry_, std::move(again));
}

void DiskFile::RefuseDirect() {
  if (direct_refused_.exchange(true)) return;
  core_->counters.direct_refused.fetch_add(1);
  spdlog::warn("{}/{}: the file system refuses direct I/O on this file; using buffered I/O",
               core_->data_path, path_);
}

void DiskFile::GrowWritten(int64_t end) { Raise(written_end_, end); }

DiskFile::Reserved DiskFile::reserved() const {
  std::lock_guard lock(reserved_mutex_);
  return reserved_;
}

void DiskFile::GrowReserved(int64_t end, const Reserved& before) {
  std::lock_guard lock(reserved_mutex_);
  if (reserved_.cuts == before.cuts) reserved_.end = std::max(reserved_.end, end);
}

void DiskFile::Shrink(int64_t size) {
  Lower(written_end_, size);
  std::lock_guard lock(reserved_mutex_);
  reserved_.end = std::min(reserved_.end, size);
  ++reserved_.cuts;
}

}  // namespace dovetail::engine
