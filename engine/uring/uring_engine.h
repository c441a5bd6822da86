// The engine of rings: a few threads per data path, each with an io_uring of its own, move all the
// data; what blocks and a ring cannot do goes to control threads. The contract is engine/engine.h,
// how it works docs/engine.md.
//
// Appends of one file go to one shard: the one that opened it, or one chosen by its path. Reads and
// pipes go to the shards in turn, or stay on the shard that asks for them.
//
// Owner: the composition root, one per data path. Stop it before its end; after a Stop that
// returned false it must be leaked.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "engine/base/arena.h"
#include "engine/disk_engine.h"
#include "engine/engine.h"
#include "engine/options.h"
#include "engine/system_calls.h"
#include "engine/uring/ring_system.h"
#include "engine/uring/uring_file.h"

namespace dovetail::engine {

// What the engine stands on; tests bring their own.
struct UringSystems {
  std::shared_ptr<SystemCalls> calls = std::make_shared<SystemCalls>();
  std::function<std::unique_ptr<RingSystem>(int shard)> ring = [](int) {
    return std::make_unique<RingSystem>();
  };
};

class UringEngine : public DiskEngine {
 public:
  // The folder must exist. arena: outlives the engine and every slice read through it. The error
  // says what was refused (engine/uring/ring.h, or "open data path").
  static Result<std::unique_ptr<UringEngine>> Start(UringOptions options, Arena& arena,
                                                    UringSystems systems = {});
  ~UringEngine() override;
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  void Append(AppendRequest request, Done done) override;
  void Read(ReadRequest request, ReadDone done) override;
  void ToPipe(PipeRequest request, Done done) override;
  int shards() const override { return static_cast<int>(shards_->size()); }
  bool Post(int shard, std::move_only_function<void()> task) override;
  int64_t in_flight() const override;
  const RingCounters* ring_counters(int shard) const override;
  EngineInfo info() const override;
  // Operations waiting for a place in a ring or for a control thread, by kind.
  int64_t waiting(Lane lane) const;
  // Not to be called on a thread of the engine.
  [[nodiscard]] bool Stop(TimePoint deadline) override;

 private:
  UringEngine(UringOptions options, std::shared_ptr<DiskCore> core,
              std::shared_ptr<const ShardList> shards);

  FileMaker MakerOfFiles() override;
  int OwnShard() const;  // negative when the caller is none of ours
  // A read that is asked for on a shard stays there, so that no other has to be woken; the rest are
  // taken in turn.
  UringShard& ReadingShard();
  // Hands it to the shard, or ends it on the timer.
  void Submit(UringShard& shard, RingOperationRef operation);
  void RefuseOperation(RingOperationRef operation, Error error);

  const UringOptions options_;
  const std::shared_ptr<const ShardList> shards_;
  std::atomic<uint32_t> next_shard_{0};
  std::mutex stop_mutex_;
  bool stopped_ = false;        // guarded by stop_mutex_
  bool stopped_clean_ = false;  // guarded by stop_mutex_
};

}  // namespace dovetail::engine
