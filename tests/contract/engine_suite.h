// The suite that every engine passes: each case runs on each subject, which is one engine with one
// mode of I/O on one kind of disk. A new engine adds itself in engine_suite.cc and nothing else.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/arena.h"
#include "engine/engine.h"
#include "tests/contract/sync_io.h"

namespace dovetail::contract {

// A folder of its own, removed with all that is in it.
class TemporaryFolder {
 public:
  // below: an existing folder.
  explicit TemporaryFolder(const std::string& below);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// On the disk that the build is on, and in memory.
std::string DiskFolder();
std::string MemoryFolder();

// One engine and what it stands on; the engine ends first.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual engine::Engine& engine() = 0;
};

struct SubjectKind {
  std::string name;  // letters and digits only
  engine::IoMode mode;
  std::unique_ptr<Subject> (*make)();
};

const std::vector<SubjectKind>& SubjectKinds();

class EngineSuite : public testing::TestWithParam<SubjectKind> {
 protected:
  EngineSuite() : subject_(GetParam().make()) {}

  engine::Engine& engine() { return subject_->engine(); }
  engine::IoMode mode() const { return GetParam().mode; }
  // Ends the engine; afterwards only what it gave out is left.
  void EndEngine() { subject_.reset(); }

  // A new file, which must work.
  engine::FileRef Create(const std::string& path = "folder/file");
  // What offsets and sizes of appends must be multiples of in this mode.
  int64_t Unit(const engine::FileRef& file) const;
  int64_t RoundUp(const engine::FileRef& file, int64_t bytes) const;

  engine::AppendRequest AppendOf(const engine::FileRef& file, int64_t offset, const Bytes& bytes,
                                 size_t piece = SIZE_MAX) const;
  engine::ReadRequest ReadOf(const engine::FileRef& file, int64_t offset, int64_t length) const;
  Status AppendNow(const engine::FileRef& file, int64_t offset, const Bytes& bytes,
                   size_t piece = SIZE_MAX);
  Result<Bytes> ReadNow(const engine::FileRef& file, int64_t offset, int64_t length);

 private:
  std::unique_ptr<Subject> subject_;
};

}  // namespace dovetail::contract
