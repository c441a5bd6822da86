// A pool engine on scripted system calls, in one mode of I/O, on the disk that the build is on.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/pool/pool_engine.h"
#include "tests/contract/engine_suite.h"
#include "tests/contract/scripted_calls.h"

namespace dovetail::contract {

// An engine and what it stands on. Hands itself over to be leaked when it cannot be stopped.
struct PoolBench {
  explicit PoolBench(engine::PoolOptions options = {}) : folder(DiskFolder()) {
    options.data_path = folder.path();
    auto started = engine::PoolEngine::Start(std::move(options), arena, calls);
    engine = std::move(*started);
  }

  std::string PathOf(const std::string& name) const { return folder.path() + "/" + name; }

  TemporaryFolder folder;
  std::shared_ptr<ScriptedCalls> calls = std::make_shared<ScriptedCalls>();
  Arena arena;
  std::unique_ptr<engine::PoolEngine> engine;
};

class PoolSuite : public testing::TestWithParam<engine::IoMode> {
 protected:
  engine::Engine& engine() { return *bench_->engine; }
  ScriptedCalls& calls() { return *bench_->calls; }
  // Instead of the default one. Nothing of the old one may be in use.
  void Restart(engine::PoolOptions options) {
    bench_.reset();
    bench_ = std::make_unique<PoolBench>(std::move(options));
  }

  engine::FileRef Create(const std::string& path = "file") {
    Result<engine::FileRef> file = Open(engine(), path, true);
    EXPECT_TRUE(file.has_value());
    return file.value_or(nullptr);
  }
  engine::AppendRequest AppendOf(const engine::FileRef& file, int64_t offset, const Bytes& bytes,
                                 size_t piece = SIZE_MAX) const {
    return {.file = file, .offset = offset, .data = ChainOf(bytes, piece), .mode = GetParam()};
  }
  engine::ReadRequest ReadOf(const engine::FileRef& file, int64_t offset, int64_t length) const {
    return {.file = file, .offset = offset, .length = length, .mode = GetParam()};
  }

  std::unique_ptr<PoolBench> bench_ = std::make_unique<PoolBench>();
};

inline auto BothModes() {
  return testing::Values(engine::IoMode::kBuffered, engine::IoMode::kDirect);
}
inline std::string NameOfMode(const testing::TestParamInfo<engine::IoMode>& info) {
  return info.param == engine::IoMode::kDirect ? "Direct" : "Buffered";
}

}  // namespace dovetail::contract
