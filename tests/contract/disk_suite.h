// An engine of the two that work on a real disk, on scripted system calls, in one mode of I/O, on
// the disk that the build is on.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/operation.h"
#include "engine/pool/pool_engine.h"
#include "engine/uring/uring_engine.h"
#include "tests/contract/engine_suite.h"
#include "tests/contract/scripted_calls.h"
#include "tests/contract/scripted_ring.h"

namespace dovetail::contract {

enum class Kind : uint8_t { kPool, kUring };

struct DiskBenchOptions {
  // Calls or requests that may be in the kernel at once.
  int at_once = 4;
  int64_t queue_max = 4096;
  int64_t descriptors_max = 0;
  int read_pieces_max = 3;
};

// An engine and what it stands on. Hands itself over to be leaked when it cannot be stopped.
struct DiskBench {
  explicit DiskBench(Kind kind, const DiskBenchOptions& options = {}) : folder(DiskFolder()) {
    if (kind == Kind::kPool) {
      auto started = engine::PoolEngine::Start({.data_path = folder.path(),
                                                .io_threads = options.at_once,
                                                .queue_max = options.queue_max,
                                                .descriptors_max = options.descriptors_max,
                                                .read_pieces_max = options.read_pieces_max},
                                               arena, calls);
      pool = started->get();
      engine = std::move(*started);
    } else {
      auto started = engine::UringEngine::Start(
          {.data_path = folder.path(),
           .threads = 1,
           .io_depth = options.at_once,
           .queue_max = options.queue_max,
           .descriptors_max = options.descriptors_max,
           .read_pieces_max = options.read_pieces_max},
          arena,
          {.calls = calls, .ring = [this](int) { return std::make_unique<ScriptedRing>(calls); }});
      uring = started->get();
      engine = std::move(*started);
    }
  }

  std::string PathOf(const std::string& name) const { return folder.path() + "/" + name; }
  const engine::EngineCounters& counters() const { return *engine->counters(); }
  int64_t waiting(engine::Lane lane) const {
    return pool != nullptr ? pool->waiting(lane) : uring->waiting(lane);
  }

  TemporaryFolder folder;
  std::shared_ptr<ScriptedCalls> calls = std::make_shared<ScriptedCalls>();
  Arena arena;
  std::unique_ptr<engine::Engine> engine;
  engine::PoolEngine* pool = nullptr;
  engine::UringEngine* uring = nullptr;
};

struct DiskCase {
  Kind kind;
  engine::IoMode mode;
};

class DiskSuite : public testing::TestWithParam<DiskCase> {
 protected:
  engine::Engine& engine() { return *bench_->engine; }
  ScriptedCalls& calls() { return *bench_->calls; }
  const engine::EngineCounters& counters() { return bench_->counters(); }
  engine::IoMode mode() const { return GetParam().mode; }
  bool uring() const { return GetParam().kind == Kind::kUring; }
  // Instead of the default one. Nothing of the old one may be in use.
  void Restart(const DiskBenchOptions& options) {
    bench_.reset();
    bench_ = std::make_unique<DiskBench>(GetParam().kind, options);
  }

  engine::FileRef Create(const std::string& path = "file") {
    Result<engine::FileRef> file = Open(engine(), path, true);
    EXPECT_TRUE(file.has_value());
    return file.value_or(nullptr);
  }
  engine::AppendRequest AppendOf(const engine::FileRef& file, int64_t offset, const Bytes& bytes,
                                 size_t piece = SIZE_MAX) const {
    return {.file = file, .offset = offset, .data = ChainOf(bytes, piece), .mode = mode()};
  }
  engine::ReadRequest ReadOf(const engine::FileRef& file, int64_t offset, int64_t length) const {
    return {.file = file, .offset = offset, .length = length, .mode = mode()};
  }

  std::unique_ptr<DiskBench> bench_ = std::make_unique<DiskBench>(GetParam().kind);
};

inline auto DiskCases() {
  return testing::Values(DiskCase{Kind::kPool, engine::IoMode::kBuffered},
                         DiskCase{Kind::kPool, engine::IoMode::kDirect},
                         DiskCase{Kind::kUring, engine::IoMode::kBuffered},
                         DiskCase{Kind::kUring, engine::IoMode::kDirect});
}
inline std::string NameOfCase(const testing::TestParamInfo<DiskCase>& info) {
  return std::string(info.param.kind == Kind::kPool ? "Pool" : "Uring") +
         (info.param.mode == engine::IoMode::kDirect ? "Direct" : "Buffered");
}

}  // namespace dovetail::contract
