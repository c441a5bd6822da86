// What the io_uring engine does with files: append, read, and fill pipes.
//
// Threads: see ring_operation.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/disk_core.h"
#include "engine/engine.h"
#include "engine/memory_pieces.h"
#include "engine/transfer.h"
#include "engine/uring/ring_operation.h"
#include "engine/uring/uring_file.h"

namespace dovetail::engine {

// With the descriptors of its file, from its first request (or the look for them) to its end.
class FileOperation : public RingOperation {
 public:
  bool FindOpen() override;
  Status Open() override;

 protected:
  FileOperation(Kind kind, TimePoint deadline, std::shared_ptr<DiskCore> core, UringFileRef file)
      : RingOperation(kind, deadline), core_(std::move(core)), file_(std::move(file)) {}

  // REQUIRES: they were found or opened.
  const UringDescriptors& open() const { return static_cast<const UringDescriptors&>(*open_); }
  void LetGoOfFile() {
    open_.reset();
    file_.reset();
  }

  const std::shared_ptr<DiskCore> core_;
  UringFileRef file_;  // until Finish

 private:
  DescriptorsRef open_;
};

// First a look at the length of the file (CheckWhole), then its bytes.
//
// Buffered: one vectored request after the other, as many pieces of memory each as the kernel
// takes. Direct: pieces of kPieceBytesMax, in parallel, each gathered into a slab when its turn
// comes; memory that is aligned already is written as it is.
class UringAppend : public FileOperation {
 public:
  UringAppend(std::shared_ptr<DiskCore> core, UringFileRef file, AppendRequest request,
              int64_t bytes, Engine::Done done);

  bool FindOpen() override;
  Status Check() override;
  bool HasNext() const override { return !again_.empty() || (!refused_ && begun_bytes_ < bytes_); }
  bool NeedsSlab() const override { return again_.empty() && direct_ && !aligned_; }
  bool GoesOn() const override { return !again_.empty(); }
  int64_t bytes() const override { return bytes_; }
  uint32_t Prepare(io_uring_sqe& sqe, ShardTools& tools) override;
  Result<Milliseconds> Take(uint32_t part, int32_t result, ShardTools& tools) override;
  void Settle(ShardTools& tools) override;
  Error RollBack(Error error) override;
  void Finish(Status status) override;
  std::shared_ptr<UringFile> appended() const override { return file_; }
  std::string Describe() const override;

 private:
  struct Piece {
    Transfer transfer;
    int slab = -1;
  };

  // The memory of the next piece, and the slab that it is in, if any.
  std::pair<Parts, int> Gather(int64_t size, ShardTools& tools);
  uint32_t Begin(ShardTools& tools);
  void End(uint32_t part, ShardTools& tools);

  AppendRequest request_;
  const int64_t bytes_;
  Engine::Done done_;

  bool direct_ = false;
  const bool aligned_;    // all of the data, for direct I/O
  bool refused_ = false;  // direct I/O: all of it again, buffered, when nothing is under way
  ChainReader data_;      // of request_.data, at begun_bytes_
  int64_t begun_bytes_ = 0;
  uint32_t next_part_ = 0;
  std::map<uint32_t, Piece> pieces_;  // begun and not done
  std::vector<uint32_t> again_;       // those of them that need another request
};

// Pieces of kPieceBytesMax, a few at once.
class UringRead : public FileOperation {
 public:
  UringRead(std::shared_ptr<DiskCore> core, UringFileRef file, const ReadRequest& request,
            int pieces_at_once_max, Engine::ReadDone done);

  bool HasNext() const override;
  bool GoesOn() const override { return !again_.empty(); }
  int64_t bytes() const override { return cut_.range.size(); }
  uint32_t Prepare(io_uring_sqe& sqe, ShardTools& tools) override;
  Result<Milliseconds> Take(uint32_t part, int32_t result, ShardTools& tools) override;
  void Settle(ShardTools&) override {}
  void Finish(Status status) override;
  std::string Describe() const override;

 private:
  void Begin(uint32_t part, bool direct);

  const bool direct_;
  const ReadPieces cut_;
  const size_t at_once_max_;
  Engine::ReadDone done_;

  struct Piece {
    uint32_t part = 0;
    Transfer transfer;
  };
  Piece& Find(uint32_t part);
  void End(uint32_t part);

  uint32_t next_part_ = 0;
  std::vector<SliceChain> slices_;  // by part
  std::vector<Piece> reading_;      // begun and not done: a few
  std::vector<uint32_t> again_;     // those of them that need another request
};

// By splice; by reading and writing where that is refused. One request after the other.
class UringPipe : public FileOperation {
 public:
  UringPipe(std::shared_ptr<DiskCore> core, UringFileRef file, const PipeRequest& request,
            Engine::Done done);

  bool HasNext() const override { return !busy_ && range_.size() > 0; }
  int64_t bytes() const override { return request_.length; }
  uint32_t Prepare(io_uring_sqe& sqe, ShardTools& tools) override;
  Result<Milliseconds> Take(uint32_t part, int32_t result, ShardTools& tools) override;
  void Settle(ShardTools&) override {}
  void Finish(Status status) override;
  std::string Describe() const override;

 private:
  void Refuse(ShardTools& tools);

  PipeRequest request_;
  Engine::Done done_;

  ByteRange range_;  // not yet in the pipe
  bool busy_ = false;
  Stalls stalls_;
  // Where the kernel does not splice: what was read and not yet written.
  std::shared_ptr<ArenaBuffer> memory_;
  ConstBytes read_;
};

}  // namespace dovetail::engine
