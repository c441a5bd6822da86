// An open file on a data path: two descriptors, and how far it is known to be written and
// reserved.
//
// Threads: any. Its last reference may go on any thread: closing may block (the last descriptor of
// a removed file frees its space), so it is left to the control threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/data_folder.h"
#include "engine/disk_core.h"
#include "engine/engine.h"

namespace dovetail::engine {

class DiskFile : public File {
 public:
  DiskFile(std::shared_ptr<DiskCore> core, std::string path, const OpenedFile& opened);
  ~DiskFile() override;

  int64_t direct_alignment() const override { return opened_.direct_alignment; }

  const std::string& path() const { return path_; }
  int buffered() const { return opened_.buffered; }
  int direct() const { return opened_.direct; }

  // Whether direct I/O is to be tried. Some file systems accept O_DIRECT and refuse the transfer.
  bool takes_direct() const { return opened_.direct >= 0 && !direct_refused_.load(); }
  void RefuseDirect();

  // Where the bytes end that appends have written; what is reserved behind does not count.
  int64_t written_end() const { return written_end_.load(); }
  void GrowWritten(int64_t end);
  // How far a reservation is known to reach.
  int64_t reserved_end() const { return reserved_end_.load(); }
  void GrowReserved(int64_t end);
  // After the file was cut, or its bytes from `size` on became undefined.
  void Shrink(int64_t size);

 private:
  const std::shared_ptr<DiskCore> core_;
  const std::string path_;
  const OpenedFile opened_;
  std::atomic<int64_t> written_end_;
  std::atomic<int64_t> reserved_end_{0};
  std::atomic<bool> direct_refused_{false};
};

}  // namespace dovetail::engine
