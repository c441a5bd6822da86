#include "engine/disk_file.h"

#include <spdlog/spdlog.h>

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

DiskFile::DiskFile(std::shared_ptr<DiskCore> core, std::string path, const OpenedFile& opened)
    : core_(std::move(core)), path_(std::move(path)), opened_(opened), written_end_(opened.size) {
  core_->counters.descriptors.fetch_add(opened.direct >= 0 ? 2 : 1);
}

DiskFile::~DiskFile() {
  core_->threads->RunCleanup([core = core_, opened = opened_] {
    for (const int fd : {opened.direct, opened.buffered}) {
      if (fd < 0) continue;
      core->calls->Close(fd);
      core->counters.descriptors.fetch_sub(1);
    }
  });
}

void DiskFile::RefuseDirect() {
  if (direct_refused_.exchange(true)) return;
  core_->counters.direct_refused.fetch_add(1);
  spdlog::warn("{}/{}: the file system refuses direct I/O on this file; using buffered I/O",
               core_->data_path, path_);
}

void DiskFile::GrowWritten(int64_t end) { Raise(written_end_, end); }

void DiskFile::GrowReserved(int64_t end) { Raise(reserved_end_, end); }

void DiskFile::Shrink(int64_t size) {
  Lower(written_end_, size);
  Lower(reserved_end_, size);
}

}  // namespace dovetail::engine
