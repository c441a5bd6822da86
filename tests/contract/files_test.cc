// Names, folders, space: open, remove, reserve, truncate.
#include <cerrno>

#include "tests/contract/engine_suite.h"

namespace dovetail::contract {
namespace {

using engine::FileRef;
using FilesContract = EngineSuite;

ErrorCode CodeOf(const auto& result) { return result.error().code; }

INSTANTIATE_TEST_SUITE_P(Engines, FilesContract, testing::ValuesIn(SubjectKinds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(FilesContract, CreatingMakesTheFoldersAbove) {
  EXPECT_NE(Create("a/b/c/d/file"), nullptr);
  EXPECT_NE(Create("a/b/other"), nullptr);
  EXPECT_NE(Create("top"), nullptr);
}

TEST_P(FilesContract, CreatingWhatExistsIsBusy) {
  Create("folder/file");
  for (const char* path : {"folder/file", "folder"}) {
    const Result<FileRef> again = Open(engine(), path, true);
    ASSERT_FALSE(again);
    EXPECT_EQ(CodeOf(again), ErrorCode::kBusy);
    EXPECT_EQ(again.error().os_error, EEXIST);
  }
}

TEST_P(FilesContract, OpeningWhatIsNotThereIsNotFound) {
  for (const char* path : {"nothing", "no/folder/file"}) {
    const Result<FileRef> file = Open(engine(), path, false);
    ASSERT_FALSE(file);
    EXPECT_EQ(CodeOf(file), ErrorCode::kNotFound);
  }
}

TEST_P(FilesContract, AFileOpenedAgainHasItsBytes) {
  Bytes bytes;
  {
    const FileRef file = Create("folder/file");
    bytes = Pattern(RoundUp(file, 70'000), 3);
    ASSERT_TRUE(AppendNow(file, 0, bytes));
  }
  const Result<FileRef> again = Open(engine(), "folder/file", false);
  ASSERT_TRUE(again);
  const Result<Bytes> read = ReadNow(*again, 0, static_cast<int64_t>(bytes.size()));
  ASSERT_TRUE(read);
  EXPECT_TRUE(*read == bytes);
}

TEST_P(FilesContract, PathsThatLeadElsewhereAreInvalid) {
  Create("a/file");
  const std::string with_nul("a/fi\0le", 7);
  for (const std::string& path :
       {std::string(), std::string("/"), std::string("/etc/passwd"), std::string("."),
        std::string(".."), std::string("../x"), std::string("a/../b"), std::string("a/.."),
        std::string("./a"), std::string("a/./b"), std::string("a//b"), std::string("a/"),
        std::string("a/file/b"), std::string(300, 'x'), std::string(5000, '/'), with_nul}) {
    for (const bool create : {true, false}) {
      const Result<FileRef> file = Open(engine(), path, create);
      ASSERT_FALSE(file) << path;
      // A file in the place of a folder may also be said to lead to nothing.
      const bool through_file = path == "a/file/b" && CodeOf(file) == ErrorCode::kNotFound;
      EXPECT_TRUE(through_file || CodeOf(file) == ErrorCode::kInvalid) << path;
    }
    if (path == "a/file/b") continue;
    EXPECT_EQ(CodeOf(Remove(engine(), path)), ErrorCode::kInvalid) << path;
    EXPECT_EQ(CodeOf(RemoveFolder(engine(), path)), ErrorCode::kInvalid) << path;
  }
}

TEST_P(FilesContract, NamesThatOnlyLookOddAreFine) {
  for (const char* path : {"...", "..a/b..", "a b/\xc3\xa9%2F", "-rf", "a\\b", ".hidden"}) {
    EXPECT_NE(Create(path), nullptr) << path;
  }
}

TEST_P(FilesContract, RemovingWhatIsNotThereIsNoError) {
  EXPECT_TRUE(Remove(engine(), "nothing"));
  EXPECT_TRUE(Remove(engine(), "no/folder/file"));
  EXPECT_TRUE(RemoveFolder(engine(), "nothing"));
  EXPECT_TRUE(RemoveFolder(engine(), "no/folder"));
}

TEST_P(FilesContract, AFolderGoesOnlyWhenItIsEmpty) {
  Create("a/b/file");
  EXPECT_TRUE(RemoveFolder(engine(), "a/b"));
  EXPECT_TRUE(RemoveFolder(engine(), "a"));
  EXPECT_TRUE(Open(engine(), "a/b/file", false));
  EXPECT_TRUE(Remove(engine(), "a/b/file"));
  EXPECT_TRUE(RemoveFolder(engine(), "a"));  // still holds b
  EXPECT_TRUE(RemoveFolder(engine(), "a/b"));
  EXPECT_TRUE(RemoveFolder(engine(), "a"));
  EXPECT_TRUE(Open(engine(), "a", true));  // the name is free again
}

TEST_P(FilesContract, RemoveTakesNoFolderAndRemoveFolderNoFile) {
  Create("a/file");
  EXPECT_FALSE(Remove(engine(), "a"));
  EXPECT_FALSE(RemoveFolder(engine(), "a/file"));
  EXPECT_TRUE(Open(engine(), "a/file", false));
}

TEST_P(FilesContract, ARemovedFileWorksUntilItIsLetGo) {
  const FileRef file = Create("folder/file");
  const Bytes bytes = Pattern(RoundUp(file, 2'000'000), 1);
  const auto size = static_cast<int64_t>(bytes.size());
  ASSERT_TRUE(AppendNow(file, 0, bytes));
  auto append = StartAppend(engine(), AppendOf(file, size, bytes));
  auto read = StartRead(engine(), ReadOf(file, 0, size));
  ASSERT_TRUE(Remove(engine(), "folder/file"));
  ASSERT_TRUE(append.Wait());
  const Result<SliceChain> early = read.Wait();
  ASSERT_TRUE(early);
  EXPECT_TRUE(Flat(*early) == bytes);
  const Result<Bytes> late = ReadNow(file, size, size);
  ASSERT_TRUE(late);
  EXPECT_TRUE(*late == bytes);
  EXPECT_EQ(CodeOf(Open(engine(), "folder/file", false)), ErrorCode::kNotFound);
}

TEST_P(FilesContract, ANameUsedAgainIsANewFile) {
  const FileRef old_file = Create("folder/file");
  const Bytes old_bytes = Pattern(RoundUp(old_file, 9000), 1);
  ASSERT_TRUE(AppendNow(old_file, 0, old_bytes));
  ASSERT_TRUE(Remove(engine(), "folder/file"));
  const FileRef file = Create("folder/file");
  EXPECT_EQ(CodeOf(ReadNow(file, 0, 1)), ErrorCode::kCorrupt);
  const Bytes bytes = Pattern(RoundUp(file, 5000), 2);
  ASSERT_TRUE(AppendNow(file, 0, bytes));
  EXPECT_EQ(*ReadNow(old_file, 0, static_cast<int64_t>(old_bytes.size())), old_bytes);
  EXPECT_EQ(*ReadNow(file, 0, static_cast<int64_t>(bytes.size())), bytes);
}

TEST_P(FilesContract, ReservingChangesNoBytes) {
  const FileRef file = Create();
  Bytes all;
  for (const int64_t end : {65'536, 1'000'000, 500'000, 1'000'000, 4'000'000}) {
    ASSERT_TRUE(Reserve(engine(), file, end));
    const Bytes bytes = Pattern(RoundUp(file, 100'000), static_cast<uint64_t>(end));
    ASSERT_TRUE(AppendNow(file, static_cast<int64_t>(all.size()), bytes));
    all.insert(all.end(), bytes.begin(), bytes.end());
    const Result<Bytes> read = ReadNow(file, 0, static_cast<int64_t>(all.size()));
    ASSERT_TRUE(read);
    ASSERT_TRUE(*read == all);
  }
  EXPECT_TRUE(Reserve(engine(), file, 0));
}

TEST_P(FilesContract, TruncateCutsAndTheNextAppendGoesOnThere) {
  const FileRef file = Create();
  const int64_t unit = RoundUp(file, 10'000);
  ASSERT_TRUE(Reserve(engine(), file, 20 * unit));
  const Bytes first = Pattern(3 * unit, 1);
  ASSERT_TRUE(AppendNow(file, 0, first));
  ASSERT_TRUE(Truncate(engine(), file, unit));
  EXPECT_EQ(CodeOf(ReadNow(file, 0, unit + 1)), ErrorCode::kCorrupt);
  const Bytes second = Pattern(unit, 2);
  ASSERT_TRUE(AppendNow(file, unit, second));
  const Result<Bytes> read = ReadNow(file, 0, 2 * unit);
  ASSERT_TRUE(read);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + unit, read->begin()));
  EXPECT_TRUE(std::equal(second.begin(), second.end(), read->begin() + unit));
  EXPECT_EQ(CodeOf(ReadNow(file, 0, 2 * unit + 1)), ErrorCode::kCorrupt);
  // Sealing: nothing is cut but the excess of the reservation.
  ASSERT_TRUE(Truncate(engine(), file, 2 * unit));
  EXPECT_TRUE(ReadNow(file, 0, 2 * unit));
}

TEST_P(FilesContract, TruncateNeverMakesAFileLonger) {
  const FileRef file = Create();
  ASSERT_TRUE(AppendNow(file, 0, Pattern(4096, 1)));
  EXPECT_EQ(CodeOf(Truncate(engine(), file, 4097)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(ReadNow(file, 0, 4097)), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace dovetail::contract
