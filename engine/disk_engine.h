// What the engines on a real data path have in common: everything but moving data. Names, space,
// reservations and cuts go to the control threads; requests that break a rule are answered there.
//
// Threads and errors: engine/engine.h.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/control_operations.h"
#include "engine/disk_core.h"
#include "engine/disk_file.h"
#include "engine/engine.h"

namespace dovetail::engine {

using DiskFileRef = std::shared_ptr<DiskFile>;

class DiskEngine : public Engine {
 public:
  void Open(std::string path, bool create, OpenDone done) override;
  void Reserve(FileRef file, int64_t end, Done done) override;
  void Truncate(FileRef file, int64_t size, Done done) override;
  void Remove(std::string path, Done done) override;
  void RemoveFolder(std::string path, Done done) override;
  void Space(SpaceDone done) override;
  const EngineCounters* counters() const override { return &core_->counters; }

 protected:
  explicit DiskEngine(std::shared_ptr<DiskCore> core) : core_(std::move(core)) {}

  virtual FileMaker MakerOfFiles() = 0;

  // The file as this kind of engine made it; null for what somebody else made.
  static DiskFileRef OwnFile(const FileRef& file) {
    return std::dynamic_pointer_cast<DiskFile>(file);
  }
  // Nothing when the request keeps the rules. bytes: SumOf the request's data.
  static Status AppendFault(const AppendRequest& request, const DiskFile* file, int64_t bytes);
  static Status ReadFault(const ReadRequest& request, const DiskFile* file);
  static Status PipeFault(const PipeRequest& request, const DiskFile* file);

  // Ends a call that must not be carried out, on the timer thread.
  template <class DoneT>
  void Refuse(DoneT done, Error error) {
    core_->threads->Refuse(std::make_shared<Refusal<DoneT>>(std::move(done)), error);
  }

  // For the end of a Stop that could not wait.
  static void LogHeld(const DiskCore& core, int64_t held, bool shard_at_work,
                      std::vector<std::string> names);

  const std::shared_ptr<DiskCore> core_;

 private:
  template <class DoneT>
  class Refusal : public Operation {
   public:
    explicit Refusal(DoneT done) : Operation(Plan{}), done_(std::move(done)) {}
    Status RunStep(int64_t) override { return {}; }
    void Finish(Status status) override {
      auto done = std::move(done_);
      done(std::unexpected(status.error()));
    }
    std::string Describe() const override { return "refusal"; }

   private:
    DoneT done_;
  };

  void SubmitControl(std::string name, ControlOperation::Work work, Done done);
};

}  // namespace dovetail::engine
