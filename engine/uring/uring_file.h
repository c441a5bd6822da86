// A file of the io_uring engine: which shard its appends go to, and the places of its descriptors
// in the tables of the rings.
//
// Threads: see engine/disk_file.h and engine/open_files.h.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/disk_file.h"
#include "engine/open_files.h"
#include "engine/uring/ring_operation.h"

namespace dovetail::engine {

class UringShard;
using ShardList = std::vector<std::shared_ptr<UringShard>>;

// Descriptors that may have places in the tables of the rings. These hold the file open too, and
// are given up with the descriptors.
class UringDescriptors : public Descriptors {
 public:
  UringDescriptors(std::shared_ptr<DiskCore> core, const OpenedFile& opened,
                   std::shared_ptr<const ShardList> shards);
  ~UringDescriptors() override;

  // Makes the request use that descriptor, by its place in the ring's table where it has one. On
  // the shard's thread.
  void Use(io_uring_sqe& sqe, int fd, ShardTools& tools) const;

 private:
  static constexpr int kUnknown = -2;  // never asked for
  static constexpr int kNone = -1;     // asked for and not got

  struct Places {
    int buffered = kUnknown;
    int direct = kUnknown;
  };

  const std::shared_ptr<const ShardList> shards_;
  // By shard; each is touched by its shard only, until the end, which comes after the last use.
  mutable std::vector<Places> places_;
};

class UringFile : public DiskFile {
 public:
  UringFile(std::shared_ptr<DiskCore> core, std::string path, const OpenedFile& opened,
            std::shared_ptr<const ShardList> shards, int shard);

  int shard() const { return shard_; }

  // One append of a file at a time, so that cutting one back never takes the bytes of another. Of
  // its own shard.
  bool appending = false;
  std::deque<RingOperationRef> appends_waiting;

 private:
  DescriptorsRef MakeDescriptors(const OpenedFile& opened) const override;

  const std::shared_ptr<DiskCore> core_;
  const std::shared_ptr<const ShardList> shards_;
  const int shard_;
};

using UringFileRef = std::shared_ptr<UringFile>;

}  // namespace dovetail::engine
