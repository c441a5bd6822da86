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
#include "engine/disk_core.h"
#include "engine/disk_engine.h"
#include "engine/engine.h"
#include "engine/options.h"
#include "engine/strand.h"
#include "engine/system_calls.h"

namespace dovetail::engine {

class PoolEngine : public DiskEngine {
 public:
  // The folder must exist. arena: outlives the engine and every slice read through it. calls: the
  // real ones unless a test brings its own.
  static Result<std::unique_ptr<PoolEngine>> Start(
      PoolOptions options, Arena& arena,
      std::shared_ptr<SystemCalls> calls = std::make_shared<SystemCalls>());
  ~PoolEngine() override;
  PoolEngine(const PoolEngine&) = delete;
  PoolEngine& operator=(const PoolEngine&) = delete;

  void Append(AppendRequest request, Done done) override;
  void Read(ReadRequest request, ReadDone done) override;
  void ToPipe(PipeRequest request, Done done) override;
  int shards() const override { return options_.shards; }
  bool Post(int shard, std::move_only_function<void()> task) override;
  int64_t in_flight() const override { return core_->threads->in_flight(); }
  // Not to be called on a thread of the engine.
  [[nodiscard]] bool Stop(TimePoint deadline) override;

  // Operations waiting for a thread, by kind.
  int64_t waiting(Lane lane) const { return core_->threads->waiting(lane); }
  EngineInfo info() const override { return {.name = "pool"}; }

 private:
  PoolEngine(PoolOptions options, std::shared_ptr<DiskCore> core);

  FileMaker MakerOfFiles() override;

  const PoolOptions options_;
  std::vector<std::unique_ptr<Strand>> shards_;
  std::mutex stop_mutex_;
  bool stopped_ = false;        // guarded by stop_mutex_
  bool stopped_clean_ = false;  // guarded by stop_mutex_
};

}  // namespace dovetail::engine
