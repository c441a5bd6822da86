// A disk in memory: what is left when the engine on it ends or crashes. Files are sparse, so a log
// may begin at 4 GiB and cost nothing.
//
// Threads: any; one mutex. Calls take no time. Errors are those of the contract (engine/engine.h).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/result.h"
#include "engine/engine.h"

namespace dovetail::fakes {

struct MemDiskOptions {
  // ENOSPC beyond it. Every file counts up to its end, written or reserved, holes included.
  int64_t capacity_bytes = std::numeric_limits<int64_t>::max();
  // False: lengths are kept, bytes are not; reads give zeros. For offsets and sizes that no memory
  // would hold.
  bool keeps_bytes = true;
  int64_t direct_alignment = 4096;
};

class MemDisk {
 public:
  class Inode;
  using InodeRef = std::shared_ptr<Inode>;

  explicit MemDisk(MemDiskOptions options = {});
  ~MemDisk();
  MemDisk(const MemDisk&) = delete;
  MemDisk& operator=(const MemDisk&) = delete;

  Result<InodeRef> Open(const std::string& path, bool create);
  // All of it, or nothing and the file cut at the offset.
  Status Write(Inode& file, int64_t offset, const SliceChain& data);
  Result<SliceChain> Read(Inode& file, int64_t offset, int64_t length);
  Status Reserve(Inode& file, int64_t end);
  Status Truncate(Inode& file, int64_t size);
  Status Remove(const std::string& path);
  Status RemoveFolder(const std::string& path);

  // What a crash makes of a write under way: the first `bytes` bytes, no cut.
  void WriteTorn(Inode& file, int64_t offset, const SliceChain& data, int64_t bytes);

  engine::SpaceInfo Space() const;

  // For tests, from here on.
  void SetCapacity(int64_t bytes);
  int64_t used_bytes() const;
  std::vector<std::string> Files() const;
  std::vector<std::string> Folders() const;
  // Everything written in the file. REQUIRES: it is there.
  std::vector<std::byte> Contents(const std::string& path) const;
  // Turns one written byte over, as a bad disk does.
  void FlipByte(const std::string& path, int64_t offset);
  // Every name is gone, as when somebody deletes the folder under a running process. Open files
  // stay.
  void LoseNames();

  const MemDiskOptions& options() const { return options_; }

 private:
  static constexpr int64_t kPageBytes = 4096;
  using Page = std::array<std::byte, kPageBytes>;

  // REQUIRES for all: mutex_ is held.
  bool Fits(const Inode& file, int64_t end) const;
  void Cut(Inode& file, int64_t size);
  void Store(Inode& file, int64_t offset, ConstBytes bytes);
  void Load(const Inode& file, int64_t offset, std::byte* out, int64_t length) const;
  int64_t UsedBytes() const;

  mutable std::mutex mutex_;
  MemDiskOptions options_;                              // guarded by mutex_
  std::map<std::string, InodeRef> files_;               // guarded by mutex_
  std::set<std::string> folders_;                       // guarded by mutex_
  mutable std::vector<std::weak_ptr<Inode>> nameless_;  // removed, maybe open; guarded by mutex_
};

// Guarded by the mutex of its disk.
class MemDisk::Inode {
 public:
  // Bytes that appends have written end here.
  int64_t written_end = 0;
  int64_t reserved_end = 0;
  std::map<int64_t, std::unique_ptr<Page>> pages;
};

}  // namespace dovetail::fakes
