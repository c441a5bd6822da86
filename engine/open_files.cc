#include "engine/open_files.h"

#include <utility>

#include "engine/disk_core.h"

namespace dovetail::engine {

Descriptors::Descriptors(std::shared_ptr<DiskCore> core, const OpenedFile& opened)
    : core_(std::move(core)), opened_(opened) {
  core_->counters.descriptors.fetch_add(count());
}

Descriptors::~Descriptors() {
  core_->threads->RunCleanup([core = core_, opened = opened_] {
    for (const int fd : {opened.direct, opened.buffered}) {
      if (fd < 0) continue;
      core->calls->Close(fd);
      core->counters.descriptors.fetch_sub(1);
    }
  });
}

DescriptorsRef OpenFiles::Find(Entry& entry) {
  std::lock_guard lock(mutex_);
  if (entry.descriptors) used_.splice(used_.begin(), used_, entry.place);
  return entry.descriptors;
}

DescriptorsRef OpenFiles::Keep(Entry& entry, DescriptorsRef descriptors) {
  std::vector<DescriptorsRef> dropped;  // closed when the mutex is free again
  std::lock_guard lock(mutex_);
  if (entry.descriptors) return entry.descriptors;
  open_ += descriptors->count();
  entry.descriptors = std::move(descriptors);
  used_.push_front(&entry);
  entry.place = used_.begin();
  while (descriptors_max_ > 0 && open_ > descriptors_max_ && used_.size() > 1) {
    dropped.push_back(DropLocked(*used_.back()));
  }
  return entry.descriptors;
}

void OpenFiles::Forget(Entry& entry) {
  DescriptorsRef dropped;
  std::lock_guard lock(mutex_);
  if (entry.descriptors) dropped = DropLocked(entry);
}

DescriptorsRef OpenFiles::DropLocked(Entry& entry) {
  open_ -= entry.descriptors->count();
  used_.erase(entry.place);
  return std::move(entry.descriptors);
}

}  // namespace dovetail::engine
