// The engine that needs nothing but threads: every operation is a blocking call (pread, pwritev,
// fallocate, ...) on one of a bounded number of them. It runs on every kernel and file system; it
// is what other engines fall back to. The contract is engine/engine.h.
//
// Direct appends are gathered into aligned memory, up to 1 MiB a call; direct reads are rounded
// outward and cut to the exact bytes; large reads go in pieces of 1 MiB, a few at once. A file has
// two descriptors, one of them with O_DIRECT where the file system offers it.
//
// Owner: the composition root, one per data path. Stop it before its end; after a Stop that
// returned false it must be leaked.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/arena.h"
#include "engine/counters.h"
#include "engine/engine.h"
#include "engine/options.h"
#include "engine/pool/pool_core.h"
#include "engine/pool/pool_operations.h"
#include "engine/strand.h"
#include "engine/system_calls.h"

namespace dovetail::engine {

class PoolEngine : public Engine {
 public:
  // The folder must exist. arena: outlives the engine and every slice read through it. calls: the
  // real ones unless a test brings its own.
  static Result<std::unique_ptr<PoolEngine>> Start(
      PoolOptions options, Arena& arena,
      std::shared_ptr<SystemCalls> calls = std::make_shared<SystemCalls>());
  ~PoolEngine() override;
  PoolEngine(const PoolEngine&) = delete;
  PoolEngine& operator=(const PoolEngine&) = delete;

  void Open(std::string path, bool create, OpenDone done) override;
  void Append(AppendRequest request, Done done) override;
  void Read(ReadRequest request, ReadDone done) override;
  void Reserve(FileRef file, int64_t end, Done done) override;
  void Truncate(FileRef file, int64_t size, Done done) override;
  void Remove(std::string path, Done done) override;
  void RemoveFolder(std::string path, Done done) override;
  void Space(SpaceDone done) override;
  int shards() const override { return core_->options.shards; }
  bool Post(int shard, std::move_only_function<void()> task) override;
  int64_t in_flight() const override { return core_->threads->in_flight(); }
  // Not to be called on a thread of the engine.
  [[nodiscard]] bool Stop(TimePoint deadline) override;

  // Operations waiting for a thread, by kind.
  int64_t waiting(Lane lane) const { return core_->threads->waiting(lane); }
  const EngineCounters* counters() const override { return &core_->counters; }

 private:
  explicit PoolEngine(std::shared_ptr<PoolCore> core);

  void SubmitControl(std::string name, ControlOperation::Work work, Done done);
  void RefuseControl(const char* where, Done done);

  const std::shared_ptr<PoolCore> core_;
  std::vector<std::unique_ptr<Strand>> shards_;
  std::mutex stop_mutex_;
  bool stopped_ = false;        // guarded by stop_mutex_
  bool stopped_clean_ = false;  // guarded by stop_mutex_
};

}  // namespace dovetail::engine
