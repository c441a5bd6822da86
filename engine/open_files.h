// The open descriptors of an engine's files, bounded: when there are too many, those of the
// file that was used the longest time ago are closed. The file opens them again, by name, when it
// is used next (DiskFile::Use). An operation under way keeps the descriptors it began with.
//
// Threads: any; one mutex, never held across a system call. Lifetime: outlives the files.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/data_folder.h"

namespace dovetail::engine {

struct DiskCore;

// Descriptors of one file, closed with the last reference. Closing may block (the last descriptor
// of a removed file frees its space), so it is left to the control threads.
class Descriptors {
 public:
  Descriptors(std::shared_ptr<DiskCore> core, const OpenedFile& opened);
  virtual ~Descriptors();
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  int buffered() const { return opened_.buffered; }
  int direct() const { return opened_.direct; }  // -1 where it cannot be had
  int64_t count() const { return opened_.direct >= 0 ? 2 : 1; }

 private:
  const std::shared_ptr<DiskCore> core_;
  const OpenedFile opened_;
};

using DescriptorsRef = std::shared_ptr<const Descriptors>;

class OpenFiles {
 public:
  // A file's place here. It must have been forgotten before it goes.
  struct Entry {
    DescriptorsRef descriptors;              // guarded by the mutex; null while closed
    std::list<Entry*>::iterator place = {};  // guarded by the mutex; valid while open
  };

  // descriptors_max: 0 is no bound. One file is always kept.
  explicit OpenFiles(int64_t descriptors_max) : descriptors_max_(descriptors_max) {}

  // Null when they are closed. Counts as a use.
  DescriptorsRef Find(Entry& entry);
  // Keeps them, and lets go of others that pass the bound. Returns those that are kept: another
  // thread may have been first.
  DescriptorsRef Keep(Entry& entry, DescriptorsRef descriptors);
  void Forget(Entry& entry);

 private:
  DescriptorsRef DropLocked(Entry& entry);

  const int64_t descriptors_max_;
  std::mutex mutex_;
  std::list<Entry*> used_;  // guarded by mutex_: the latest first
  int64_t open_ = 0;        // guarded by mutex_: descriptors of those
};

}  // namespace dovetail::engine
