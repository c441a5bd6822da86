// The errno table, and what a data path is found to be able to do.
#include <cerrno>
#include <filesystem>

#include "engine/errno.h"
#include "engine/probe.h"
#include "tests/contract/disk_suite.h"

namespace dovetail::contract {
namespace {

using engine::CodeOfErrno;
using engine::Probe;

TEST(Errno, FullIsNotBroken) {
  for (const int full : {ENOSPC, EDQUOT}) EXPECT_EQ(CodeOfErrno(full), ErrorCode::kNoSpace);
  for (const int broken : {EIO, EROFS, EACCES, EPERM, ENODEV, ENXIO, ENOTCONN, ESTALE, EBADF}) {
    EXPECT_EQ(CodeOfErrno(broken), ErrorCode::kIo) << broken;
  }
  for (const int passing : {EMFILE, ENFILE, ENOMEM, EEXIST, EBUSY, EAGAIN}) {
    EXPECT_EQ(CodeOfErrno(passing), ErrorCode::kBusy) << passing;
  }
  EXPECT_EQ(CodeOfErrno(ENOENT), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOfErrno(ECANCELED), ErrorCode::kTimeout);
  EXPECT_EQ(CodeOfErrno(EINVAL), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOfErrno(EOPNOTSUPP), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOfErrno(99'999), ErrorCode::kIo);  // not known is not trusted
  EXPECT_EQ(engine::FailErrno("here", ENOSPC).error().os_error, ENOSPC);
}

TEST(Probe, SaysWhatARealFolderCanDo) {
  const TemporaryFolder folder(DiskFolder());
  const auto facts = Probe(folder.path());
  ASSERT_TRUE(facts);
  EXPECT_FALSE(facts->file_system.empty());
  EXPECT_GT(facts->free_bytes, 0);
  EXPECT_GE(facts->total_bytes, facts->free_bytes);
  EXPECT_EQ(facts->direct_io, facts->direct_alignment > 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Probe, KnowsTmpfs) {
  const TemporaryFolder folder(MemoryFolder());
  const auto facts = Probe(folder.path());
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->file_system, "tmpfs");
  EXPECT_TRUE(facts->reserve);
}

TEST(Probe, SaysWhatIsMissing) {
  const TemporaryFolder folder(DiskFolder());
  const auto calls = std::make_shared<ScriptedCalls>();
  calls->Next(Kernel::kFallocate, {.os_error = EOPNOTSUPP});
  calls->After(Kernel::kOpenBelow, 1, {.os_error = EINVAL});
  const auto less = Probe(folder.path(), calls);
  ASSERT_TRUE(less);
  EXPECT_FALSE(less->reserve);
  EXPECT_FALSE(less->direct_io);
  EXPECT_EQ(less->direct_alignment, 1);

  calls->Next(Kernel::kPwritev, {.os_error = EINVAL});  // opened, but not written
  const auto refused = Probe(folder.path(), calls);
  ASSERT_TRUE(refused);
  EXPECT_FALSE(refused->direct_io);
  EXPECT_TRUE(refused->reserve);
}

TEST(Probe, AFolderOfNoUseIsAnError) {
  const TemporaryFolder folder(DiskFolder());
  const auto nothing = Probe(folder.path() + "/nothing");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kNotFound);
  const auto calls = std::make_shared<ScriptedCalls>();
  calls->Next(Kernel::kOpenBelow, {.os_error = EROFS});
  const auto read_only = Probe(folder.path(), calls);
  ASSERT_FALSE(read_only);
  EXPECT_EQ(read_only.error().code, ErrorCode::kIo);
  calls->Next(Kernel::kFallocate, {.os_error = ENOSPC});
  const auto full = Probe(folder.path(), calls);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kNoSpace);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace dovetail::contract
