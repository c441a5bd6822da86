// What an engine on a data path does that may block without moving data, carried out on the control
// threads of engine/disk_threads.h.
//
// Threads: see operation.h.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "engine/disk_core.h"
#include "engine/disk_file.h"
#include "engine/engine.h"
#include "engine/operation.h"

namespace dovetail::engine {

// One call, or a few.
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

// Makes the engine's own kind of file of an opened one.
using FileMaker =
    std::move_only_function<std::shared_ptr<DiskFile>(std::string path, const OpenedFile& opened)>;

class OpenOperation : public Operation {
 public:
  OpenOperation(std::shared_ptr<DiskCore> core, std::string path, bool create, FileMaker make,
                Engine::OpenDone done)
      : Operation(Plan{}),
        core_(std::move(core)),
        path_(std::move(path)),
        create_(create),
        make_(std::move(make)),
        done_(std::move(done)) {}

  Status RunStep(int64_t step) override;
  void Finish(Status status) override;
  std::string Describe() const override { return "open of " + path_; }

 private:
  const std::shared_ptr<DiskCore> core_;
  const std::string path_;
  const bool create_;
  FileMaker make_;
  FileRef file_;
  Engine::OpenDone done_;
};

// The bodies. Each but CheckWhole blocks.
Status ReserveFile(DiskCore& core, DiskFile& file, int64_t end);
Status TruncateFile(DiskCore& core, DiskFile& file, int64_t size);
// After an append at that offset failed: cuts the file back to it. Returns the error of the append,
// with "rollback" as its place where the cut failed too.
Error CutBack(DiskCore& core, DiskFile& file, int fd, int64_t offset, Error error);
// Before an append at `needed`. Somebody else may have cut the file: writing behind the hole would
// make padding of what was there.
Status CheckWhole(DiskCore& core, const DiskFile& file, int fd, int64_t needed);

}  // namespace dovetail::engine
