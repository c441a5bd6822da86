// The operations of the pool engine. Each owns its request, its buffers and its file until Finish,
// which lets go of them before it runs the caller's done.
//
// Threads: see operation.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/pool/operation.h"
#include "engine/pool/pool_core.h"
#include "engine/pool/pool_file.h"
#include "engine/pool/transfer.h"

namespace dovetail::engine {

using PoolFileRef = std::shared_ptr<PoolFile>;

// One append, in one step: the chunks of one append follow each other.
class AppendOperation : public Operation {
 public:
  AppendOperation(std::shared_ptr<PoolCore> core, PoolFileRef file, AppendRequest request,
                  int64_t bytes, Engine::Done done);

  Status RunStep(int64_t step) override;
  void Finish(Status status) override;
  std::string Describe() const override;

 private:
  Status WriteBuffered(const Descriptors& open);
  Status WriteDirect(const Descriptors& open);
  Status CutBack(const Descriptors& open, Error error);

  const std::shared_ptr<PoolCore> core_;
  PoolFileRef file_;
  AppendRequest request_;
  const int64_t bytes_;
  const std::string path_;
  Engine::Done done_;
};

// One read; each step is one piece of at most kPieceBytes.
class ReadOperation : public Operation {
 public:
  static constexpr int64_t kPieceBytes = 1 << 20;

  // REQUIRES: the range is written, so that its length is no larger than a file.
  ReadOperation(std::shared_ptr<PoolCore> core, PoolFileRef file, const ReadRequest& request,
                Engine::ReadDone done);

  Status RunStep(int64_t step) override;
  void Finish(Status status) override;
  std::string Describe() const override;

 private:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  static Plan PlanOf(const PoolCore& core, const PoolFile& file, const ReadRequest& request);
  Range PieceRange(int64_t step) const;
  Result<SliceChain> ReadPiece(const Descriptors& open, Range range, bool direct);

  const std::shared_ptr<PoolCore> core_;
  PoolFileRef file_;
  const int64_t alignment_;  // of the pieces' borders
  const bool direct_;
  const Range range_;
  const std::string path_;
  std::vector<SliceChain> pieces_;  // by step
  Engine::ReadDone done_;
};

// What is one call, or a few, on a control thread.
class ControlOperation : public Operation {
 public:
  using Work = std::move_only_function<Status()>;

  // Work and what it owns are gone before done runs.
  ControlOperation(std::string name, Work work, Engine::Done done)
      : Operation(Plan{}), name_(std::move(name)), work_(std::move(work)), done_(std::move(done)) {}

  Status RunStep(int64_t step) override;
  void Finish(Status status) override;
  std::string Describe() const override { return name_; }

 private:
  const std::string name_;
  Work work_;
  Engine::Done done_;
};

class OpenOperation : public Operation {
 public:
  OpenOperation(std::shared_ptr<PoolCore> core, std::string path, bool create,
                Engine::OpenDone done)
      : Operation(Plan{}),
        core_(std::move(core)),
        path_(std::move(path)),
        create_(create),
        done_(std::move(done)) {}

  Status RunStep(int64_t step) override;
  void Finish(Status status) override;
  std::string Describe() const override;

 private:
  const std::shared_ptr<PoolCore> core_;
  const std::string path_;
  const bool create_;
  FileRef file_;
  Engine::OpenDone done_;
};

// The bodies of control operations.
Status ReserveFile(PoolCore& core, PoolFile& file, int64_t end);
Status TruncateFile(PoolCore& core, PoolFile& file, int64_t size);

}  // namespace dovetail::engine
