// Identifiers of applications are hostile strings also where they become names of folders: no path
// leads out, nothing of another application is touched, nothing collides.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/disk/disk_suite.h"
#include "tests/e2e/wire/blocks.h"

namespace dovetail::e2e {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kShuffles = 2;
constexpr int32_t kPartitions = 2;

std::vector<std::string> HostileIds() {
  return {"../../x",
          "../../outside",
          "../../../outside/kept",
          "..",
          ".",
          "/",
          "/etc/passwd",
          "apps",
          "marker",
          "lock",
          "a/b",
          "a//b",
          "a",
          "a ",
          "a\t",
          "a\n",
          "A",
          "app-a",
          "-rf",
          "*",
          "%2e%2e%2f",
          "\xc3\xa9",          // one letter, composed
          "e\xcc\x81",         // and decomposed
          "\xf0\x9f\x83\x8f",  // outside the basic plane
          std::string(255, 'x'),
          std::string(254, 'x') + "y",
          std::string(254, '/') + "x",
          std::string(100, 'x'),
          std::string(101, 'x')};
}

// Names below the folder, links not followed, without what is below `except`.
std::vector<std::string> Below(const std::string& folder, const std::string& except) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (!name.starts_with(except + "/")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

bool IsHarmless(const std::string& name) {
  return std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string("-_+./").contains(c);
  });
}

class IdentifierFilesTest : public DiskTest {
 protected:
  void WriteAndFlush(const std::vector<std::string>& ids) {
    int64_t sequence = 0;
    for (const std::string& id : ids) {
      for (int32_t shuffle = 0; shuffle < kShuffles; ++shuffle) {
        const Target target = Registered(id, kPartitions, shuffle);
        for (int32_t partition = 0; partition < kPartitions; ++partition) {
          ledger().WriteInTheEnd(target, {MakeBlocks(partition, sequence++, 2, 70'001)});
        }
      }
    }
    const auto bytes = static_cast<double>(ledger().acked_bytes());
    EXPECT_TRUE(daemon().WaitMetric("dovetail_flushed_bytes_total", bytes)) << daemon().Log();
  }
};

TEST_F(IdentifierFilesTest, StayInTheirFolderAndApart) {
  const std::string path = PlainPath("a/b/c/disk");
  folder_.Write("a/b/c/outside/kept", "1");
  folder_.Write("a/b/c/disk/outside/kept", "1");
  folder_.Write("a/b/c/x", "1");
  folder_.Write("a/b/c/disk/x", "1");
  ASSERT_TRUE(Start({path}, {"memory_store.capacity=64M",
                             "hybrid_store.memory_single_buffer_max_spill_size=64K"}));
  const std::string apps = "a/b/c/disk/dovetail/apps";
  std::vector<std::string> outside = Below(folder_.path(), apps);
  outside.push_back(apps);
  std::ranges::sort(outside);

  const std::vector<std::string> ids = HostileIds();
  WriteAndFlush(ids);
  EXPECT_EQ(Below(folder_.path(), apps), outside);
  for (const std::string& entry : AppsEntries(path)) {
    EXPECT_TRUE(IsHarmless(entry)) << entry;
    EXPECT_LE(fs::path(entry).filename().string().size(), 128u);
  }
  // One after the other goes, and each time only that one.
  for (size_t gone = 0; gone < ids.size(); ++gone) {
    ASSERT_EQ(client().UnregisterApp(ids[gone]), wire::SUCCESS);
    for (size_t i = 0; i < ids.size(); ++i) {
      const Target target{ids[i], static_cast<int32_t>(gone % kShuffles)};
      if (i > gone) {
        ledger().ExpectAll(target);
      } else {
        EXPECT_EQ(ReadIndex(client(), target, 0).status(), wire::NO_REGISTER) << i;
      }
    }
  }
  EXPECT_GT(Metric("dovetail_read_bytes_total", {{"tier", "file"}}), 0);
  Finish();
  EXPECT_EQ(Below(folder_.path(), apps), outside);
}

TEST_F(IdentifierFilesTest, OneShuffleOfManyWithAlikeNamesGoes) {
  const std::string path = PlainPath("disk");
  ASSERT_TRUE(Start({path}, {"memory_store.capacity=64M",
                             "hybrid_store.memory_single_buffer_max_spill_size=64K"}));
  const std::vector<std::string> ids = {"a/b", "a b", "a+b", "a.b"};  // one folder for all
  WriteAndFlush(ids);
  const size_t files = AppsEntries(path).size();
  ASSERT_EQ(client().Unregister({ids[1], 0}), wire::SUCCESS);
  EXPECT_TRUE(daemon().WaitMetric("dovetail_removals_pending", 0));
  EXPECT_LT(AppsEntries(path).size(), files);
  for (const std::string& id : ids) {
    ledger().ExpectAll({id, 1});
    if (id != ids[1]) ledger().ExpectAll({id, 0});
  }
  // A new life of the same name starts empty.
  ASSERT_EQ(client().Register({ids[1], 0}, kPartitions), wire::SUCCESS);
  EXPECT_EQ(ReadPartition(client(), {ids[1], 0}, 0).blocks.size(), 0u);
  Finish();
}

TEST_F(IdentifierFilesTest, WhatNoNameCanBeIsRefused) {
  const std::string path = PlainPath("disk");
  ASSERT_TRUE(Start({path}, {"memory_store.capacity=64M"}));
  for (const std::string& id :
       {std::string(), std::string("a\0b", 3), std::string("\0", 1), std::string(256, 'x')}) {
    EXPECT_EQ(client().Register({id, 0}, 1), wire::INVALID_REQUEST) << id.size();
    EXPECT_EQ(client().UnregisterApp(id), wire::INVALID_REQUEST) << id.size();
  }
  EXPECT_EQ(AppsEntries(path), std::vector<std::string>());
  Finish();
}

}  // namespace
}  // namespace dovetail::e2e
