// Names and descriptors on a real folder: links, old kernels, running out.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <tuple>

#include "tests/contract/disk_suite.h"

namespace dovetail::contract {
namespace {

using engine::FileRef;

constexpr int64_t kPage = 4096;

ErrorCode CodeOf(const auto& result) { return result.error().code; }

int64_t OpenDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

// Which engine, and whether paths are walked part by part, as on kernels without openat2.
class DiskFiles : public testing::TestWithParam<std::tuple<Kind, bool>> {
 protected:
  DiskFiles() : outside_(DiskFolder()), bench_(kind()) {
    if (walks()) calls().Always(Kernel::kOpenBelow, {.os_error = ENOSYS});
    std::ofstream(outside_.path() + "/victim") << "victim";
  }

  Kind kind() const { return std::get<0>(GetParam()); }
  bool walks() const { return std::get<1>(GetParam()); }
  engine::Engine& engine() { return *bench_.engine; }
  ScriptedCalls& calls() { return *bench_.calls; }
  bool VictimIsWhole() const {
    std::ifstream in(outside_.path() + "/victim");
    return std::string(std::istreambuf_iterator<char>(in), {}) == "victim";
  }

  TemporaryFolder outside_;
  DiskBench bench_;
};

std::string NameOf(Kind kind) { return kind == Kind::kPool ? "Pool" : "Uring"; }

INSTANTIATE_TEST_SUITE_P(Kernels, DiskFiles,
                         testing::Combine(testing::Values(Kind::kPool, Kind::kUring),
                                          testing::Bool()),
                         [](const auto& info) {
                           return NameOf(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "Walking" : "OpenAt2");
                         });

TEST_P(DiskFiles, WorksAtAll) {
  const Result<FileRef> file = Open(engine(), "a/b/c/file", true);
  ASSERT_TRUE(file);
  EXPECT_GE((*file)->direct_alignment(), 1);
  const Bytes bytes = Pattern(3 * kPage, 1);
  ASSERT_TRUE(
      Append(engine(), {.file = *file, .data = ChainOf(bytes), .mode = engine::IoMode::kDirect}));
  EXPECT_TRUE(*Read(engine(), {.file = *file, .length = 3 * kPage}) == bytes);
  EXPECT_EQ(CodeOf(Open(engine(), "a/b/c/file", true)), ErrorCode::kBusy);
  EXPECT_EQ(CodeOf(Open(engine(), "a/b/none", false)), ErrorCode::kNotFound);
  EXPECT_TRUE(Remove(engine(), "a/b/c/file"));
  for (const char* folder : {"a/b/c", "a/b", "a"}) EXPECT_TRUE(RemoveFolder(engine(), folder));
  EXPECT_TRUE(std::filesystem::is_empty(bench_.folder.path()));
}

TEST_P(DiskFiles, NoLinkIsFollowed) {
  std::filesystem::create_symlink(outside_.path(), bench_.PathOf("link"));
  std::filesystem::create_symlink(outside_.path() + "/victim", bench_.PathOf("file"));
  std::filesystem::create_directory(bench_.PathOf("real"));
  std::filesystem::create_symlink("real", bench_.PathOf("inner"));  // not even one that stays
  std::filesystem::create_symlink(outside_.path() + "/new", bench_.PathOf("dangling"));
  for (const char* path : {"link/victim", "file", "inner/x", "dangling"}) {
    EXPECT_FALSE(Open(engine(), path, false)) << path;
  }
  for (const char* path : {"link/new", "link/sub/new", "file", "inner/x", "dangling"}) {
    EXPECT_FALSE(Open(engine(), path, true)) << path;
  }
  EXPECT_FALSE(Remove(engine(), "link/victim"));
  EXPECT_FALSE(RemoveFolder(engine(), "link"));
  EXPECT_TRUE(Remove(engine(), "file"));  // the link, not what it leads to
  EXPECT_TRUE(VictimIsWhole());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(outside_.path()), {}), 1);
  EXPECT_TRUE(std::filesystem::is_empty(bench_.PathOf("real")));
}

TEST_P(DiskFiles, OnlyFilesAreOpened) {
  std::filesystem::create_directory(bench_.PathOf("folder"));
  ASSERT_EQ(mkfifo(bench_.PathOf("pipe").c_str(), 0600), 0);
  EXPECT_EQ(CodeOf(Open(engine(), "folder", false)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(Open(engine(), "pipe", false)), ErrorCode::kInvalid);
}

TEST_P(DiskFiles, NoDescriptorIsLeaked) {
  const int64_t before = OpenDescriptors();
  {
    DiskBench bench(kind());
    if (walks()) bench.calls->Always(Kernel::kOpenBelow, {.os_error = ENOSYS});
    engine::Engine& engine = *bench.engine;
    std::vector<FileRef> files;
    for (int i = 0; i < 10; ++i) {
      const Result<FileRef> file = Open(engine, fmt::format("a/b/{}", i), true);
      ASSERT_TRUE(file);
      files.push_back(*file);
      ASSERT_FALSE(Open(engine, fmt::format("a/b/{}", i), true));
      ASSERT_FALSE(Open(engine, "a/none", false));
      ASSERT_FALSE(Open(engine, "a/b", false));
      ASSERT_TRUE(RemoveFolder(engine, "a/b"));
    }
    EXPECT_EQ(bench.counters().descriptors, 20);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(Remove(engine, fmt::format("a/b/{}", i)));
    files.resize(3);
    ASSERT_TRUE(engine.Stop(TimePoint::max()));
    EXPECT_EQ(bench.counters().descriptors, 6);
    files.clear();
    EXPECT_EQ(bench.counters().descriptors, 0);
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

// The rest does not depend on how paths are walked.
class DiskOpening : public testing::TestWithParam<Kind> {
 protected:
  engine::Engine& engine() { return *bench_.engine; }
  ScriptedCalls& calls() { return *bench_.calls; }

  DiskBench bench_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Engines, DiskOpening, testing::Values(Kind::kPool, Kind::kUring),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(DiskOpening, WithoutDirectIoAFileTakesEverythingBuffered) {
  calls().After(Kernel::kOpenBelow, 1, {.os_error = EINVAL});  // the one with O_DIRECT
  const Result<FileRef> file = Open(engine(), "file", true);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->direct_alignment(), 1);
  EXPECT_EQ(bench_.counters().descriptors, 1);
  const Bytes bytes = Pattern(1001, 1);
  for (const auto mode : {engine::IoMode::kDirect, engine::IoMode::kBuffered}) {
    ASSERT_TRUE(Append(engine(), {.file = *file, .data = ChainOf(bytes, 10), .mode = mode}));
    EXPECT_TRUE(*Read(engine(), {.file = *file, .length = 1001, .mode = mode}) == bytes);
  }
}

TEST_P(DiskOpening, OutOfDescriptorsIsBusyAndLeavesNothing) {
  const int64_t before = OpenDescriptors();
  for (const int good : {0, 1}) {
    calls().After(Kernel::kOpenBelow, good, {.os_error = EMFILE});
    const Result<FileRef> file = Open(engine(), "file", true);
    ASSERT_FALSE(file);
    EXPECT_EQ(CodeOf(file), ErrorCode::kBusy);
    EXPECT_EQ(file.error().os_error, EMFILE);
    EXPECT_FALSE(std::filesystem::exists(bench_.PathOf("file")));
    EXPECT_EQ(OpenDescriptors(), before);
  }
  EXPECT_TRUE(Open(engine(), "file", true));
}

TEST_P(DiskOpening, AFolderRemovedMeanwhileIsMadeAgain) {
  // Both are passing answers of the kernel.
  calls().Next(Kernel::kOpenBelow, {.os_error = EAGAIN});
  calls().Next(Kernel::kOpenBelow, {.os_error = EINTR});
  calls().Next(Kernel::kOpenBelow, {.os_error = ENOENT});
  EXPECT_TRUE(Open(engine(), "file", true));
}

TEST_P(DiskOpening, AFolderThatIsGoneOrUnwritableIsSaid) {
  Arena arena;
  const std::string path = bench_.PathOf("nothing");
  Status nothing;
  if (GetParam() == Kind::kPool) {
    const auto started = engine::PoolEngine::Start({.data_path = path}, arena);
    if (!started) nothing = std::unexpected(started.error());
  } else {
    const auto started = engine::UringEngine::Start({.data_path = path}, arena);
    if (!started) nothing = std::unexpected(started.error());
  }
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kNotFound);
  calls().Next(Kernel::kOpenBelow, {.os_error = EROFS});
  EXPECT_EQ(CodeOf(Open(engine(), "file", true)), ErrorCode::kIo);
}

TEST_P(DiskOpening, TheFolderMayBeMovedOrDeletedUnderIt) {
  const Result<FileRef> file = Open(engine(), "a/file", true);
  ASSERT_TRUE(file);
  std::filesystem::remove_all(bench_.PathOf("a"));
  const Bytes bytes = Pattern(kPage, 1);
  EXPECT_TRUE(Append(engine(), {.file = *file, .data = ChainOf(bytes)}));
  EXPECT_TRUE(*Read(engine(), {.file = *file, .length = kPage}) == bytes);
  EXPECT_TRUE(Remove(engine(), "a/file"));
  std::filesystem::remove_all(bench_.folder.path());
  EXPECT_EQ(CodeOf(Open(engine(), "b", true)), ErrorCode::kNotFound);
  std::filesystem::create_directory(bench_.folder.path());  // another one of the same name
  EXPECT_FALSE(Open(engine(), "b", true));
  EXPECT_TRUE(std::filesystem::is_empty(bench_.folder.path()));
}

}  // namespace
}  // namespace dovetail::contract
