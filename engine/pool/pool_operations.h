// The transfers of the pool engine. Each owns its request, its buffers and its file until Finish,
// which lets go of them before it runs the caller's done.
//
// Threads: see engine/operation.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/disk_core.h"
#include "engine/disk_engine.h"
#include "engine/engine.h"
#include "engine/memory_pieces.h"
#include "engine/operation.h"

namespace dovetail::engine {

// One append, in one step: the chunks of one append follow each other.
class AppendOperation : public Operation {
 public:
  AppendOperation(std::shared_ptr<DiskCore> core, DiskFileRef file, AppendRequest request,
                  int64_t bytes, Engine::Done done);

  Status RunStep(int64_t step) override;
  void Finish(Status status) override;
  std::string Describe() const override;

 private:
  Status WriteBuffered(const Descriptors& open);
  Status WriteDirect(const Descriptors& open);

  const std::shared_ptr<DiskCore> core_;
  DiskFileRef file_;
  AppendRequest request_;
  const int64_t bytes_;
  const std::string path_;
  Engine::Done done_;
};

// One read; each step is one piece.
class ReadOperation : public Operation {
 public:
  // REQUIRES: the range is written, so that its length is no larger than a file.
  ReadOperation(std::shared_ptr<DiskCore> core, DiskFileRef file, const ReadRequest& request,
                int pieces_at_once_max, Engine::ReadDone done);

  Status RunStep(int64_t step) override;
  void Finish(Status status) override;
  std::string Describe() const override;

 private:
  Result<SliceChain> ReadPiece(const Descriptors& open, ByteRange range, bool direct);

  const std::shared_ptr<DiskCore> core_;
  DiskFileRef file_;
  const bool direct_;
  const ReadPieces cut_;
  const std::string path_;
  std::vector<SliceChain> pieces_;  // by step
  Engine::ReadDone done_;
};

// One range into one pipe, in one step.
class PipeOperation : public Operation {
 public:
  PipeOperation(std::shared_ptr<DiskCore> core, DiskFileRef file, const PipeRequest& request,
                Engine::Done done);

  Status RunStep(int64_t step) override;
  void Finish(Status status) override;
  std::string Describe() const override;

 private:
  const std::shared_ptr<DiskCore> core_;
  DiskFileRef file_;
  PipeRequest request_;
  const std::string path_;
  Engine::Done done_;
};

}  // namespace dovetail::engine
