// A file of the io_uring engine: which shard its appends go to, and its places in the tables of the
// rings.
//
// Threads: see engine/disk_file.h. A place is touched by its shard only; the end of the file comes
// after the last operation on it.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/disk_file.h"
#include "engine/uring/ring_operation.h"

namespace dovetail::engine {

class UringShard;
using ShardList = std::vector<std::shared_ptr<UringShard>>;

class UringFile : public DiskFile {
 public:
  UringFile(std::shared_ptr<DiskCore> core, std::string path, const OpenedFile& opened,
            std::shared_ptr<const ShardList> shards, int shard);
  ~UringFile() override;

  int shard() const { return shard_; }

  // Makes the request use that descriptor of the file, by its place in the ring's table where it
  // has one.
  void Use(io_uring_sqe& sqe, int fd, ShardTools& tools);

  // One append of a file at a time, so that cutting one back never takes the bytes of another. Of
  // its own shard.
  bool appending = false;
  std::deque<RingOperationRef> appends_waiting;

 private:
  static constexpr int kUnknown = -2;  // never asked for
  static constexpr int kNone = -1;     // asked for and not got

  struct Places {
    int buffered = kUnknown;
    int direct = kUnknown;
  };

  const std::shared_ptr<const ShardList> shards_;
  const int shard_;
  std::vector<Places> places_;  // by shard
};

using UringFileRef = std::shared_ptr<UringFile>;

}  // namespace dovetail::engine
