#include "tests/contract/engine_suite.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "engine/base/check.h"
#include "engine/pool/pool_engine.h"
#include "engine/uring/uring_engine.h"
#include "tests/fakes/fault_engine.h"
#include "tests/fakes/mem_engine.h"

namespace dovetail::contract {

using engine::AppendRequest;
using engine::Engine;
using engine::FileRef;
using engine::IoMode;
using engine::ReadRequest;

TemporaryFolder::TemporaryFolder(const std::string& below)
    : path_(below + "/dovetail-contract.XXXXXX") {
  DOVETAIL_CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

std::string DiskFolder() { return DOVETAIL_BINARY_DIR; }
std::string MemoryFolder() { return "/dev/shm"; }

namespace {

class PoolSubject : public Subject {
 public:
  explicit PoolSubject(const std::string& below) : folder_(below) {
    auto started = engine::PoolEngine::Start({.data_path = folder_.path()}, arena_);
    DOVETAIL_CHECK(started.has_value());
    engine_ = std::move(*started);
  }
  Engine& engine() override { return *engine_; }

 private:
  TemporaryFolder folder_;
  Arena arena_;  // its end checks that nothing read is still held
  std::unique_ptr<engine::PoolEngine> engine_;
};

// threads, io_depth.
template <int kThreads, int kDepth>
class UringSubject : public Subject {
 public:
  explicit UringSubject(const std::string& below) : folder_(below) {
    auto started = engine::UringEngine::Start(
        {.data_path = folder_.path(), .threads = kThreads, .io_depth = kDepth}, arena_);
    DOVETAIL_CHECK(started.has_value());
    engine_ = std::move(*started);
  }
  Engine& engine() override { return *engine_; }

 private:
  TemporaryFolder folder_;
  Arena arena_;
  std::unique_ptr<engine::UringEngine> engine_;
};

class MemSubject : public Subject {
 public:
  Engine& engine() override { return engine_; }

 private:
  fakes::MemEngine engine_;
};

// No faults but lateness: completions in any order are within the contract.
class FaultSubject : public Subject {
 public:
  FaultSubject() : fault_(mem_, {.seed = 7, .late_per_mille = 300, .late_us_max = 500}) {}
  Engine& engine() override { return fault_; }

 private:
  fakes::MemEngine mem_;
  fakes::FaultEngine fault_;
};

template <class T>
std::unique_ptr<Subject> Make() {
  return std::make_unique<T>();
}
std::unique_ptr<Subject> MakePoolOnDisk() { return std::make_unique<PoolSubject>(DiskFolder()); }
template <int kThreads, int kDepth>
std::unique_ptr<Subject> MakeUringOnDisk() {
  return std::make_unique<UringSubject<kThreads, kDepth>>(DiskFolder());
}
std::unique_ptr<Subject> MakeUringInMemory() {
  return std::make_unique<UringSubject<2, 64>>(MemoryFolder());
}
std::unique_ptr<Subject> MakePoolInMemory() {
  return std::make_unique<PoolSubject>(MemoryFolder());
}

}  // namespace

const std::vector<SubjectKind>& SubjectKinds() {
  static const std::vector<SubjectKind> kinds = {
      {"PoolOnDiskBuffered", IoMode::kBuffered, MakePoolOnDisk},
      {"PoolOnDiskDirect", IoMode::kDirect, MakePoolOnDisk},
      {"PoolOnTmpfsBuffered", IoMode::kBuffered, MakePoolInMemory},
      {"PoolOnTmpfsDirect", IoMode::kDirect, MakePoolInMemory},
      {"UringOnDiskBuffered", IoMode::kBuffered, MakeUringOnDisk<2, 64>},
      {"UringOnDiskDirect", IoMode::kDirect, MakeUringOnDisk<2, 64>},
      {"UringDepthOneBuffered", IoMode::kBuffered, MakeUringOnDisk<2, 1>},
      {"UringDepthOneDirect", IoMode::kDirect, MakeUringOnDisk<2, 1>},
      {"UringOneThreadBuffered", IoMode::kBuffered, MakeUringOnDisk<1, 64>},
      {"UringOneThreadDirect", IoMode::kDirect, MakeUringOnDisk<1, 64>},
      {"UringOnTmpfsBuffered", IoMode::kBuffered, MakeUringInMemory},
      {"UringOnTmpfsDirect", IoMode::kDirect, MakeUringInMemory},
      {"MemBuffered", IoMode::kBuffered, Make<MemSubject>},
      {"MemDirect", IoMode::kDirect, Make<MemSubject>},
      {"FaultOverMemBuffered", IoMode::kBuffered, Make<FaultSubject>},
      {"FaultOverMemDirect", IoMode::kDirect, Make<FaultSubject>},
  };
  return kinds;
}

FileRef EngineSuite::Create(const std::string& path) {
  const Result<FileRef> file = Open(engine(), path, /*create=*/true);
  EXPECT_TRUE(file.has_value()) << path;
  return file.value_or(nullptr);
}

int64_t EngineSuite::Unit(const FileRef& file) const {
  return mode() == IoMode::kDirect ? file->direct_alignment() : 1;
}

int64_t EngineSuite::RoundUp(const FileRef& file, int64_t bytes) const {
  const int64_t unit = Unit(file);
  return (bytes + unit - 1) / unit * unit;
}

AppendRequest EngineSuite::AppendOf(const FileRef& file, int64_t offset, const Bytes& bytes,
                                    size_t piece) const {
  return {.file = file, .offset = offset, .data = ChainOf(bytes, piece), .mode = mode()};
}

ReadRequest EngineSuite::ReadOf(const FileRef& file, int64_t offset, int64_t length) const {
  return {.file = file, .offset = offset, .length = length, .mode = mode()};
}

Status EngineSuite::AppendNow(const FileRef& file, int64_t offset, const Bytes& bytes,
                              size_t piece) {
  return Append(engine(), AppendOf(file, offset, bytes, piece));
}

Result<Bytes> EngineSuite::ReadNow(const FileRef& file, int64_t offset, int64_t length) {
  return Read(engine(), ReadOf(file, offset, length));
}

}  // namespace dovetail::contract
