// A file on a data path: its descriptors, which may be closed while nobody uses it, and how far it
// is known to be written and reserved.
//
// Threads: any. Its last reference may go on any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "engine/data_folder.h"
#include "engine/disk_core.h"
#include "engine/engine.h"
#include "engine/open_files.h"

namespace dovetail::engine {

class DiskFile : public File {
 public:
  DiskFile(std::shared_ptr<DiskCore> core, std::string path, const OpenedFile& opened);
  ~DiskFile() override;

  int64_t direct_alignment() const override { return direct_alignment_; }

  const std::string& path() const { return path_; }
  // Open descriptors, for one operation. May block: what was closed is opened again. kNotFound when
  // the name is gone, or is another file's now; any other failure to open is kBusy: it may pass,
  // and says nothing about the bytes.
  Result<DescriptorsRef> Use();
  // The same for who must not block: null when they are closed.
  DescriptorsRef UseIfOpen();

  // Whether direct I/O is to be tried. Some file systems accept O_DIRECT and refuse the transfer.
  bool TakesDirect(const Descriptors& open) const {
    return open.direct() >= 0 && !direct_refused_.load();
  }
  void RefuseDirect();

  // Where the bytes end that appends have written; what is reserved behind does not count.
  int64_t written_end() const { return written_end_.load(); }
  void GrowWritten(int64_t end);
  // How far a reservation is known to reach, and how often the file had been cut then.
  struct Reserved {
    int64_t end = 0;
    int64_t cuts = 0;
  };
  Reserved reserved() const;
  // After space was reserved up to `end`. Not noted when the file was cut since `before`: the cut
  // may have taken it.
  void GrowReserved(int64_t end, const Reserved& before);
  // After the file was cut, or its bytes from `size` on became undefined.
  void Shrink(int64_t size);

 protected:
  // descriptors: of `opened`, of the kind that MakeDescriptors makes.
  DiskFile(std::shared_ptr<DiskCore> core, std::string path, const OpenedFile& opened,
           DescriptorsRef descriptors);

 private:
  // For an engine that keeps more about its descriptors.
  virtual DescriptorsRef MakeDescriptors(const OpenedFile& opened) const;

  const std::shared_ptr<DiskCore> core_;
  const std::string path_;
  const int64_t direct_alignment_;
  const uint64_t inode_;
  OpenFiles::Entry entry_;
  std::atomic<int64_t> written_end_;
  mutable std::mutex reserved_mutex_;
  Reserved reserved_;  // guarded by reserved_mutex_
  std::atomic<bool> direct_refused_{false};
};

}  // namespace dovetail::engine
