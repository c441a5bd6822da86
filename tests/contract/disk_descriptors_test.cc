// An engine with fewer descriptors than files: what was closed is opened again, and is the same
// file or an error.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/contract/disk_suite.h"

namespace dovetail::contract {
namespace {

using engine::FileRef;

constexpr int64_t kPage = 4096;
constexpr int64_t kDescriptors = 4;  // of two files
constexpr int kFiles = 6;

class DiskDescriptors : public DiskSuite {
 protected:
  void SetUp() override { Restart({.descriptors_max = kDescriptors}); }

  static std::string NameOf(int i) { return "folder/file" + std::to_string(i); }

  // Files with two pages each, all but the last two of which are closed then.
  void Fill() {
    for (int i = 0; i < kFiles; ++i) {
      files_.push_back(Create(NameOf(i)));
      ASSERT_TRUE(Append(engine(), AppendOf(files_.back(), 0, Pattern(2 * kPage, Seed(i)))));
    }
  }
  static uint64_t Seed(int i) { return static_cast<uint64_t>(i) + 1; }
  bool ReadsRight(int i) {
    const Result<Bytes> read = Read(engine(), ReadOf(files_[static_cast<size_t>(i)], 0, 2 * kPage));
    return read && *read == Pattern(2 * kPage, Seed(i));
  }
  int64_t reopened() { return engine().counters()->reopened.load(); }

  std::vector<FileRef> files_;
};

INSTANTIATE_TEST_SUITE_P(Engines, DiskDescriptors, DiskCases(), NameOfCase);

TEST_P(DiskDescriptors, AreOpenedAgainWhenNeeded) {
  Fill();
  EXPECT_EQ(reopened(), 0);
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < kFiles; ++i) EXPECT_TRUE(ReadsRight(i)) << i;
    EXPECT_EQ(reopened(), round * kFiles);
  }
  EXPECT_TRUE(ReadsRight(kFiles - 1));
  EXPECT_EQ(reopened(), 3 * kFiles) << "the latest one is kept";
  // Closing is left to other threads.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (engine().counters()->descriptors.load() > kDescriptors &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_LE(engine().counters()->descriptors.load(), kDescriptors);
  files_.clear();
  while (engine().counters()->descriptors.load() > 0 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(engine().counters()->descriptors.load(), 0);
}

TEST_P(DiskDescriptors, EveryOperationOpensThem) {
  Fill();
  ASSERT_TRUE(Append(engine(), AppendOf(files_[0], 2 * kPage, Pattern(kPage, 99))));
  EXPECT_EQ(*Read(engine(), ReadOf(files_[0], 2 * kPage, kPage)), Pattern(kPage, 99));
  ASSERT_TRUE(Reserve(engine(), files_[1], 16 * kPage));
  EXPECT_EQ(std::filesystem::file_size(bench_->PathOf(NameOf(1))), 16u * kPage);
  ASSERT_TRUE(Truncate(engine(), files_[2], kPage));
  EXPECT_EQ(std::filesystem::file_size(bench_->PathOf(NameOf(2))), 1u * kPage);
  EXPECT_EQ(reopened(), 3);
}

TEST_P(DiskDescriptors, ARemovedNameIsAnError) {
  Fill();
  ASSERT_TRUE(Remove(engine(), NameOf(0)));
  EXPECT_EQ(Read(engine(), ReadOf(files_[0], 0, kPage)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Append(engine(), AppendOf(files_[0], 2 * kPage, Pattern(kPage, 9))).error().code,
            ErrorCode::kNotFound);
  ASSERT_TRUE(Remove(engine(), NameOf(kFiles - 1)));
  EXPECT_TRUE(ReadsRight(kFiles - 1)) << "it is still open";
}

TEST_P(DiskDescriptors, AnotherFileOfThatNameIsAnError) {
  Fill();
  const std::string path = bench_->PathOf(NameOf(0));
  std::filesystem::rename(path, path + ".moved");
  std::ofstream(path) << std::string(2 * kPage, 'x');
  EXPECT_EQ(Read(engine(), ReadOf(files_[0], 0, kPage)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Append(engine(), AppendOf(files_[0], 0, Pattern(kPage, 9))).error().code,
            ErrorCode::kNotFound);
  std::ifstream in(path);
  EXPECT_EQ(in.get(), 'x') << "nothing was written to it";
}

// Rights that are gone now may be back later: it can be read, and nothing says that it is lost.
TEST_P(DiskDescriptors, WhatMayNotBeWrittenAnyMoreIsStillRead) {
  for (const int os_error : {EROFS, EACCES, EPERM}) {
    Restart({.descriptors_max = kDescriptors});
    files_.clear();
    Fill();
    calls().Next(Kernel::kOpenBelow, {.os_error = os_error});
    EXPECT_TRUE(ReadsRight(0)) << os_error;
    calls().Always(Kernel::kOpenBelow, {.os_error = os_error});
    const Result<Bytes> read = Read(engine(), ReadOf(files_[1], 0, kPage));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kBusy) << os_error;
    calls().Heal();
    EXPECT_TRUE(ReadsRight(1)) << os_error;
  }
}

// Somebody cut it from outside: what was there must not become zeros by writing behind it.
TEST_P(DiskDescriptors, NothingIsWrittenBehindAHole) {
  const FileRef file = Create("cut");
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, Pattern(4 * kPage, 1))));
  std::filesystem::resize_file(bench_->PathOf("cut"), kPage);
  const Status behind = Append(engine(), AppendOf(file, 4 * kPage, Pattern(kPage, 2)));
  ASSERT_FALSE(behind);
  EXPECT_EQ(behind.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(Reserve(engine(), file, 64 * kPage).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(std::filesystem::file_size(bench_->PathOf("cut")), static_cast<size_t>(kPage));
  EXPECT_EQ(Read(engine(), ReadOf(file, 2 * kPage, kPage)).error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(Read(engine(), ReadOf(file, 0, kPage)));
}

TEST_P(DiskDescriptors, NoneLeftIsBusyAndPasses) {
  Fill();
  calls().Next(Kernel::kOpenBelow, {.os_error = EMFILE});
  EXPECT_EQ(Read(engine(), ReadOf(files_[0], 0, kPage)).error().code, ErrorCode::kBusy);
  EXPECT_TRUE(ReadsRight(0));
}

TEST_P(DiskDescriptors, AnOperationUnderWayKeepsThem) {
  Fill();
  calls().Hang(Kernel::kPreadv);
  Pending<Result<SliceChain>> read = StartRead(engine(), ReadOf(files_[0], 0, 2 * kPage));
  calls().WaitUntilHung(Kernel::kPreadv, 1);
  for (int i = 1; i < kFiles; ++i) {
    ASSERT_TRUE(Append(
        engine(), AppendOf(files_[static_cast<size_t>(i)], 2 * kPage, Pattern(kPage, Seed(i)))));
  }
  ASSERT_TRUE(Remove(engine(), NameOf(0)));  // so they cannot be had again
  calls().Release();
  const Result<SliceChain> result = read.Wait();
  ASSERT_TRUE(result);
  EXPECT_EQ(Flat(*result), Pattern(2 * kPage, Seed(0)));
}

TEST_P(DiskDescriptors, OpeningAgainHoldsUpNoOther) {
  Fill();
  calls().Hang(Kernel::kOpenBelow);
  Pending<Result<SliceChain>> read = StartRead(engine(), ReadOf(files_[0], 0, 2 * kPage));
  calls().WaitUntilHung(Kernel::kOpenBelow, 1);
  EXPECT_TRUE(ReadsRight(kFiles - 1));
  EXPECT_FALSE(read.Ready());
  calls().Release();
  const Result<SliceChain> result = read.Wait();
  ASSERT_TRUE(result);
  EXPECT_EQ(Flat(*result), Pattern(2 * kPage, Seed(0)));
}

TEST_P(DiskDescriptors, ManyThreadsUseThemAtOnce) {
  Fill();
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 200; ++i) ASSERT_TRUE(ReadsRight((i * (t + 1) + t) % kFiles));
    });
  }
}

}  // namespace
}  // namespace dovetail::contract
