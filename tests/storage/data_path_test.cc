// The claim on a data path: what is refused and why, and that nothing of anybody else is touched.
#include "storage/data_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/config/scratch_folder.h"

namespace dovetail::storage {
namespace {

namespace fs = std::filesystem;
using config::ReadText;
using config::ScratchFolder;

// Relative names of all that is below, links not followed, in order.
std::vector<std::string> Below(const std::string& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    names.push_back(entry.path().lexically_relative(folder).string());
  }
  std::ranges::sort(names);
  return names;
}

std::string Refusal(const std::string& path) {
  const auto claim = DataPathClaim::Take(path);
  return claim ? "" : claim.error();
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(DataPathTest, AFreshFolderIsMarkedAndLocked) {
  const ScratchFolder folder;
  {
    const auto claim = DataPathClaim::Take(folder.path());
    ASSERT_TRUE(claim) << claim.error();
    EXPECT_EQ((*claim)->folder(), folder.path() + "/dovetail");
    EXPECT_EQ(Below(folder.path()),
              (std::vector<std::string>{"dovetail", "dovetail/lock", "dovetail/marker"}));
    EXPECT_TRUE(Has(ReadText(folder.path() + "/dovetail/marker"), "format 1"));
    EXPECT_TRUE(Has(Refusal(folder.path()), "in use by another dovetaild"));
  }
  EXPECT_EQ(Refusal(folder.path()), "") << "the claim was let go";
}

TEST(DataPathTest, WhatIsNoFolderIsRefused) {
  const ScratchFolder folder;
  const std::string missing = folder.path() + "/missing";
  EXPECT_TRUE(Has(Refusal(missing), missing + ": cannot be looked at (No such file"));
  EXPECT_FALSE(fs::exists(missing)) << "it is not made: it may be a mount point's";
  const std::string file = folder.Write("file", "text");
  EXPECT_TRUE(Has(Refusal(file), file + " is not a folder"));
  folder.Write("path/dovetail", "a file where the folder should be");
  EXPECT_TRUE(Has(Refusal(folder.path() + "/path"), "/path/dovetail is not a folder"));
}

TEST(DataPathTest, AStrangersFolderIsRefusedAndNotTouched) {
  const ScratchFolder folder;
  folder.Write("dovetail/apps/valuable", "1");
  const std::vector<std::string> before = Below(folder.path());
  EXPECT_TRUE(Has(Refusal(folder.path()), "has files but no marker"));
  EXPECT_EQ(Below(folder.path()), before);

  for (const char* marker : {"", "dovetail data path, format 2\n", "something else"}) {
    folder.Write("dovetail/marker", marker);
    const std::vector<std::string> marked = Below(folder.path());
    EXPECT_TRUE(Has(Refusal(folder.path()), "is not the marker of this version")) << marker;
    EXPECT_EQ(Below(folder.path()), marked);
    EXPECT_EQ(ReadText(folder.path() + "/dovetail/marker"), marker);
  }
}

TEST(DataPathTest, AMarkerWithMoreBehindItIsNotOurs) {
  const ScratchFolder folder;
  EXPECT_EQ(Refusal(folder.path()), "");
  std::ofstream(folder.path() + "/dovetail/marker", std::ios::app) << "x";
  EXPECT_TRUE(Has(Refusal(folder.path()), "is not the marker of this version"));
}

// A process that ended in the middle of its first claim must not lock the next one out.
TEST(DataPathTest, AnUnfinishedClaimIsFinished) {
  const ScratchFolder folder;
  folder.Write("dovetail/lock", "");
  folder.Write("dovetail/marker.new", "dovetail da");
  EXPECT_EQ(Refusal(folder.path()), "");
  EXPECT_EQ(Below(folder.path() + "/dovetail"), (std::vector<std::string>{"lock", "marker"}));
}

TEST(DataPathTest, WhatAFormerProcessLeftIsRemovedAndNothingElse) {
  const ScratchFolder folder;
  const ScratchFolder outside;
  ASSERT_EQ(Refusal(folder.path()), "");
  const std::string kept = outside.Write("deep/kept", "1");
  folder.Write("beside", "1");
  folder.Write("dovetail/beside", "1");
  folder.Write("dovetail/apps/app/0.1/0.0.seg", "old");
  fs::create_directory_symlink(outside.path(), folder.path() + "/dovetail/apps/link");
  fs::create_directory_symlink(outside.path(), folder.path() + "/dovetail/apps/app/link");
  fs::create_symlink(kept, folder.path() + "/dovetail/apps/app/0.1/1.0.seg");
  fs::create_hard_link(kept, folder.path() + "/dovetail/apps/app/0.1/2.0.seg");
  EXPECT_EQ(Refusal(folder.path()), "");
  EXPECT_EQ(Below(folder.path()), (std::vector<std::string>{"beside", "dovetail", "dovetail/beside",
                                                            "dovetail/lock", "dovetail/marker"}));
  EXPECT_EQ(ReadText(kept), "1");

  fs::create_directory_symlink(outside.path(), folder.path() + "/dovetail/apps");
  EXPECT_EQ(Refusal(folder.path()), "");
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder.path() + "/dovetail/apps")));
  EXPECT_EQ(ReadText(kept), "1");
}

TEST(DataPathTest, ALinkInThePlaceOfTheFolderIsRefusedAndNotFollowed) {
  const ScratchFolder folder;
  const ScratchFolder outside;
  const std::string link = folder.path() + "/dovetail";
  // Even to an empty folder, to nothing, and to what would pass for ours.
  fs::create_directory(outside.path() + "/empty");
  fs::create_directory(outside.path() + "/claimed");
  ASSERT_EQ(Refusal(outside.path() + "/claimed"), "");
  outside.Write("claimed/dovetail/apps/app/0.1/0.0.seg", "1");
  for (const char* target : {"empty", "missing", "claimed/dovetail"}) {
    const std::vector<std::string> before = Below(outside.path());
    fs::create_directory_symlink(outside.path() + "/" + target, link);
    EXPECT_TRUE(Has(Refusal(folder.path()), link + " is a symbolic link")) << target;
    EXPECT_EQ(Below(outside.path()), before) << target;
    fs::remove(link);
  }
}

TEST(DataPathTest, APathInTheFolderOfAnotherIsRefused) {
  const ScratchFolder folder;
  ASSERT_EQ(Refusal(folder.path()), "");
  const std::string claimed = folder.path() + "/dovetail";
  fs::create_directories(claimed + "/apps/n");
  fs::create_directory_symlink(claimed + "/apps/n", folder.path() + "/link");
  const std::vector<std::string> before = Below(folder.path());
  for (const std::string& path : {claimed, claimed + "/apps", claimed + "/apps/n",
                                  claimed + "/apps/n/", folder.path() + "/link"}) {
    EXPECT_TRUE(Has(Refusal(path), path + " lies in " + claimed + ", which belongs to another"))
        << path;
    EXPECT_EQ(Below(folder.path()), before) << path;
  }
}

TEST(DataPathTest, AFolderThatOnlyHasTheNameIsNoClaim) {
  const ScratchFolder folder;
  fs::create_directories(folder.path() + "/dovetail/disk");
  EXPECT_EQ(Refusal(folder.path() + "/dovetail/disk"), "");
  ASSERT_EQ(Refusal(folder.path() + "/dovetail"), "");
  fs::create_directory(folder.path() + "/beside");
  EXPECT_EQ(Refusal(folder.path() + "/beside"), "");
}

TEST(DataPathTest, PathsThatNestAreRefusedBeforeThereIsAMarker) {
  const ScratchFolder folder;
  const std::string inner = folder.path() + "/dovetail/apps/n";
  fs::create_directories(inner);
  fs::create_directory_symlink(inner, folder.path() + "/link");
  fs::create_directory(folder.path() + "/dovetail2");
  const std::string link = folder.path() + "/link";
  const std::string beside = folder.path() + "/dovetail2";
  const std::vector<std::string> all = {inner, link, beside, folder.path() + "/no", folder.path()};
  const std::string where = " lies in " + folder.path() + "/dovetail, which belongs to another";
  EXPECT_TRUE(Has(NestedDataPath(inner, all), inner + where)) << NestedDataPath(inner, all);
  EXPECT_TRUE(Has(NestedDataPath(link, all), link + where)) << NestedDataPath(link, all);
  EXPECT_TRUE(Has(NestedDataPath(folder.path() + "/dovetail", all), where));
  for (const std::string& path : {beside, folder.path() + "/no", folder.path()}) {
    EXPECT_EQ(NestedDataPath(path, all), "");
  }
}

class MissingMountTest : public testing::Test {
 protected:
  // What is said of a data path when the table of mounts has this text.
  std::string Missing(const std::string& data_path, const std::string& text) {
    return MissingMount(data_path, folder_.Write("fstab", text));
  }
  std::string Folder(const std::string& name) {
    fs::create_directories(folder_.path() + "/" + name);
    return folder_.path() + "/" + name;
  }

  const ScratchFolder folder_;
};

TEST_F(MissingMountTest, AMountPointAboveThatIsNotMounted) {
  const std::string path = Folder("disk/data");
  for (const std::string& mount : {folder_.path() + "/disk", path, path + "/"}) {
    const std::string said = Missing(path, "/dev/sdz1 " + mount + " ext4 defaults 0 2\n");
    EXPECT_TRUE(Has(said, path)) << said;
    EXPECT_TRUE(Has(said, "is not mounted")) << said;
  }
  EXPECT_TRUE(Has(Missing(path, "# a comment\n\n/dev/sda1 / ext4 defaults 0 1\n/dev/sdz1 " +
                                    folder_.path() + "/disk ext4 defaults 0 2\n"),
                  "is not mounted"));
}

TEST_F(MissingMountTest, ThroughALinkAndWithSpacesInItsName) {
  const std::string path = Folder("a disk/data");
  fs::create_directory_symlink(path, folder_.path() + "/link");
  EXPECT_TRUE(Has(Missing(folder_.path() + "/link",
                          "/dev/sdz1 " + folder_.path() + "/a\\040disk ext4 defaults 0 2\n"),
                  "is not mounted"));
}

TEST_F(MissingMountTest, WhatIsElsewhereOrMountedIsNotMissing) {
  const std::string path = Folder("disk/data");
  Folder("dis");
  Folder("disk/data/below");
  for (const std::string& mount : {folder_.path() + "/dis", folder_.path() + "/disk/da",
                                   path + "/below", std::string("/"), std::string("none")}) {
    EXPECT_EQ(Missing(path, "/dev/sdz1 " + mount + " ext4 defaults 0 2\n"), "") << mount;
  }
  EXPECT_EQ(Missing("/proc/self/fd", "proc /proc proc defaults 0 0\n"), "") << "/proc is mounted";
}

TEST_F(MissingMountTest, NoTableAndNoPathAreNoReason) {
  EXPECT_EQ(MissingMount(Folder("disk"), folder_.path() + "/no_table"), "");
  EXPECT_EQ(Missing(folder_.path() + "/no_path", "/dev/sdz1 " + folder_.path() + " ext4 a 0 2\n"),
            "");
}

}  // namespace
}  // namespace dovetail::storage
