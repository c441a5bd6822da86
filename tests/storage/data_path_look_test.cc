// A look at a data path finds what taking it would, and leaves everything as it is.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "storage/data_path.h"

namespace dovetail::storage {
namespace {

namespace fs = std::filesystem;

class DataPathLookTest : public testing::Test {
 protected:
  DataPathLookTest() : path_(testing::TempDir() + "dovetail_look_XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~DataPathLookTest() override {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path_ + "/" + name).parent_path());
    std::ofstream(path_ + "/" + name) << text;
  }

  // Everything below the path, with what files hold.
  std::map<std::string, std::string> Tree() const {
    std::map<std::string, std::string> tree;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path_)) {
      std::string& text = tree[entry.path()];
      if (entry.is_regular_file()) std::getline(std::ifstream(entry.path()), text, '\0');
    }
    return tree;
  }

  // The look's refusal, which must be that of Take, after which nothing has changed.
  std::string Refusal(const std::string& path) const {
    const auto before = Tree();
    const DataPathLook look = DataPathClaim::Look(path);
    EXPECT_EQ(Tree(), before);
    const auto taken = DataPathClaim::Take(path);
    EXPECT_EQ(look.refusal, taken ? "" : taken.error());
    return look.refusal;
  }

  std::string path_;
};

TEST_F(DataPathLookTest, AFreshPathStaysEmpty) {
  const DataPathLook look = DataPathClaim::Look(path_);
  EXPECT_EQ(look.refusal, "");
  EXPECT_EQ(look.probe_folder, path_);
  EXPECT_FALSE(look.has_old_files);
  EXPECT_TRUE(Tree().empty());
}

TEST_F(DataPathLookTest, OldFilesAreSeenAndLeft) {
  ASSERT_TRUE(DataPathClaim::Take(path_));
  Write("dovetail/apps/a/0.1/0.0.seg", "old");
  const auto before = Tree();
  const DataPathLook look = DataPathClaim::Look(path_);
  EXPECT_EQ(look.refusal, "");
  EXPECT_EQ(look.probe_folder, path_ + "/dovetail");
  EXPECT_TRUE(look.has_old_files);
  EXPECT_EQ(Tree(), before);
}

TEST_F(DataPathLookTest, RefusesWhatTakeRefusesWithItsWords) {
  EXPECT_NE(Refusal(path_ + "/missing").find("cannot be looked at"), std::string::npos);
  Write("file", "");
  EXPECT_NE(Refusal(path_ + "/file").find("is not a folder"), std::string::npos);
  Write("unmarked/dovetail/something", "");
  EXPECT_NE(Refusal(path_ + "/unmarked").find("no marker"), std::string::npos);
  Write("foreign/dovetail/marker", "someone else's");
  EXPECT_NE(Refusal(path_ + "/foreign").find("is not the marker"), std::string::npos);
  EXPECT_EQ(DataPathClaim::Look(path_ + "/foreign").probe_folder, "") << "nothing is written there";
  Write("blocked/dovetail", "a file");
  EXPECT_NE(Refusal(path_ + "/blocked").find("is not a folder"), std::string::npos);
}

TEST_F(DataPathLookTest, RefusesALinkAndAPathInAnothersFolder) {
  fs::create_directories(path_ + "/linked");
  fs::create_directory_symlink(path_ + "/nothing", path_ + "/linked/dovetail");
  EXPECT_NE(Refusal(path_ + "/linked").find("is a symbolic link"), std::string::npos);
  EXPECT_EQ(DataPathClaim::Look(path_ + "/linked").probe_folder, "");
  fs::create_directories(path_ + "/nothing");
  EXPECT_NE(Refusal(path_ + "/linked").find("is a symbolic link"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(path_ + "/nothing"));
  ASSERT_TRUE(DataPathClaim::Take(path_));
  fs::create_directories(path_ + "/dovetail/apps/n");
  EXPECT_NE(Refusal(path_ + "/dovetail/apps/n").find("lies in"), std::string::npos);
  EXPECT_EQ(DataPathClaim::Look(path_ + "/dovetail/apps/n").probe_folder, "");
}

TEST_F(DataPathLookTest, TheLockOfAnotherIsSeenAndKept) {
  const auto claim = DataPathClaim::Take(path_);
  ASSERT_TRUE(claim);
  const DataPathLook look = DataPathClaim::Look(path_);
  EXPECT_NE(look.refusal.find("in use by another dovetaild"), std::string::npos) << look.refusal;
  EXPECT_EQ(look.probe_folder, path_ + "/dovetail") << "a test file hurts nobody there";
  const auto second = DataPathClaim::Take(path_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), look.refusal);
}

// A look holds the lock, shared, for a moment: two looks do not meet, a start waits it out.
TEST_F(DataPathLookTest, AStartOutlastsALook) {
  ASSERT_TRUE(DataPathClaim::Take(path_));
  const int fd = open((path_ + "/dovetail/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_SH | LOCK_NB), 0);
  EXPECT_EQ(DataPathClaim::Look(path_).refusal, "");
  std::thread look([fd] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    close(fd);
  });
  const auto claim = DataPathClaim::Take(path_);
  look.join();
  EXPECT_TRUE(claim) << claim.error();
}

}  // namespace
}  // namespace dovetail::storage
