// Bytes in, the same bytes out: appends, reads, their sizes, ranges and ends.
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>

#include "tests/contract/engine_suite.h"

namespace dovetail::contract {
namespace {

using engine::FileRef;
using engine::IoMode;
using DataContract = EngineSuite;

ErrorCode CodeOf(const auto& result) { return result.error().code; }

INSTANTIATE_TEST_SUITE_P(Engines, DataContract, testing::ValuesIn(SubjectKinds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(DataContract, ReadsBackWhatWasAppended) {
  const FileRef file = Create();
  int64_t end = 0;
  Bytes all;
  for (const int64_t size : {1, 40, 511, 4095, 4096, 4097, 65'536, 300'001, 1'048'577}) {
    const Bytes bytes = Pattern(RoundUp(file, size), static_cast<uint64_t>(size));
    ASSERT_TRUE(AppendNow(file, end, bytes)) << size;
    all.insert(all.end(), bytes.begin(), bytes.end());
    end = static_cast<int64_t>(all.size());
  }
  const Result<Bytes> read = ReadNow(file, 0, end);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, all);
}

TEST_P(DataContract, TakesMorePiecesThanOneCallCan) {
  const FileRef file = Create();
  for (const int64_t pieces : {IOV_MAX - 1, IOV_MAX, IOV_MAX + 1, 3 * IOV_MAX, 3 * IOV_MAX + 1}) {
    const Bytes bytes = Pattern(RoundUp(file, pieces * 97), static_cast<uint64_t>(pieces));
    ASSERT_TRUE(AppendNow(file, 0, bytes, 97)) << pieces;
    const Result<Bytes> read = ReadNow(file, 0, static_cast<int64_t>(bytes.size()));
    ASSERT_TRUE(read);
    ASSERT_EQ(*read, bytes) << pieces;
  }
}

TEST_P(DataContract, PiecesMayBeEmpty) {
  const FileRef file = Create();
  const Bytes bytes = Pattern(RoundUp(file, 5000), 1);
  auto request = AppendOf(file, 0, bytes, 1000);
  for (size_t i = 0; i < request.data.size(); i += 2) {
    request.data.insert(request.data.begin() + static_cast<int64_t>(i), Slice{});
  }
  request.data.push_back({});
  ASSERT_TRUE(Append(engine(), std::move(request)));
  const Result<Bytes> read = ReadNow(file, 0, static_cast<int64_t>(bytes.size()));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, bytes);
}

TEST_P(DataContract, TakesMemoryThatIsAlignedAsItIs) {
  const FileRef file = Create();
  constexpr size_t kBytes = 768 * 4096;
  const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(4096, kBytes)),
                                          std::free);
  const Bytes bytes = Pattern(kBytes, 4);
  std::copy(bytes.begin(), bytes.end(), memory.get());
  // Pages of it in another order, so that no piece is one stretch.
  engine::AppendRequest request{.file = file, .mode = mode()};
  Bytes wanted;
  for (size_t at = kBytes; at > 0; at -= 3 * 4096) {
    const ConstBytes part(memory.get() + at - 3 * 4096, 3 * 4096);
    request.data.push_back({memory, part});
    wanted.insert(wanted.end(), part.begin(), part.end());
  }
  ASSERT_TRUE(Append(engine(), std::move(request)));
  const Result<Bytes> read = ReadNow(file, 0, kBytes);
  ASSERT_TRUE(read);
  EXPECT_TRUE(*read == wanted);
}

TEST_P(DataContract, AnAppendOfNothingSucceedsAndWritesNothing) {
  const FileRef file = Create();
  ASSERT_TRUE(AppendNow(file, 0, {}));
  const Result<Bytes> read = ReadNow(file, 0, 1);
  ASSERT_FALSE(read);
  EXPECT_EQ(CodeOf(read), ErrorCode::kCorrupt);
}

TEST_P(DataContract, ReadsAnyRange) {
  const FileRef file = Create();
  const Bytes bytes = Pattern(RoundUp(file, 3'000'000), 5);
  ASSERT_TRUE(AppendNow(file, 0, bytes, 70'001));
  std::mt19937_64 random(11);
  const auto size = static_cast<int64_t>(bytes.size());
  for (int i = 0; i < 60; ++i) {
    const auto from = static_cast<int64_t>(random() % static_cast<uint64_t>(size));
    const auto most = static_cast<uint64_t>(size - from);
    const auto length = static_cast<int64_t>(1 + random() % (i % 2 == 0 ? most : most % 5000 + 1));
    const int64_t cut = std::min(length, size - from);
    const Result<Bytes> read = ReadNow(file, from, cut);
    ASSERT_TRUE(read) << from << " " << cut;
    ASSERT_TRUE(
        std::equal(read->begin(), read->end(), bytes.begin() + from, bytes.begin() + from + cut))
        << from << " " << cut;
  }
}

TEST_P(DataContract, StitchesALargeRead) {
  const FileRef file = Create();
  const Bytes bytes = Pattern(RoundUp(file, (9 << 20) + 123), 6);
  ASSERT_TRUE(AppendNow(file, 0, bytes));
  const auto size = static_cast<int64_t>(bytes.size());
  const Result<Bytes> whole = ReadNow(file, 0, size);
  ASSERT_TRUE(whole);
  EXPECT_TRUE(*whole == bytes);
  const Result<Bytes> inner = ReadNow(file, 777, size - 1554);
  ASSERT_TRUE(inner);
  EXPECT_TRUE(std::equal(inner->begin(), inner->end(), bytes.begin() + 777, bytes.end() - 777));
}

TEST_P(DataContract, ReadingPastTheEndIsAnError) {
  const FileRef file = Create();
  const Bytes bytes = Pattern(RoundUp(file, 5000), 1);
  ASSERT_TRUE(AppendNow(file, 0, bytes));
  const auto size = static_cast<int64_t>(bytes.size());
  for (const auto& [offset, length] : std::vector<std::pair<int64_t, int64_t>>{
           {size, 1}, {0, size + 1}, {size - 1, 2}, {size + (1 << 20), 10}, {0, 1LL << 50}}) {
    const Result<Bytes> read = ReadNow(file, offset, length);
    ASSERT_FALSE(read) << offset << " " << length;
    EXPECT_EQ(CodeOf(read), ErrorCode::kCorrupt);
    EXPECT_STREQ(read.error().where, "end");
  }
  EXPECT_TRUE(ReadNow(file, size - 1, 1));
}

TEST_P(DataContract, WhatIsOnlyReservedCannotBeRead) {
  const FileRef file = Create();
  ASSERT_TRUE(Reserve(engine(), file, 1 << 20));
  const Bytes bytes = Pattern(RoundUp(file, 100), 1);
  ASSERT_TRUE(AppendNow(file, 0, bytes));
  const auto size = static_cast<int64_t>(bytes.size());
  EXPECT_TRUE(ReadNow(file, 0, size));
  const Result<Bytes> read = ReadNow(file, 0, size + 1);
  ASSERT_FALSE(read);
  EXPECT_EQ(CodeOf(read), ErrorCode::kCorrupt);
}

TEST_P(DataContract, RequestsThatBreakARuleAreInvalid) {
  const FileRef file = Create();
  const Bytes bytes = Pattern(RoundUp(file, 4096), 1);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(CodeOf(AppendNow(nullptr, 0, bytes)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(AppendNow(file, -4096, bytes)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(AppendNow(file, kMax - 4095, bytes)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(ReadNow(nullptr, 0, 1)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(ReadNow(file, -1, 1)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(ReadNow(file, 0, 0)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(ReadNow(file, 0, -1)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(ReadNow(file, kMax, kMax)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(Reserve(engine(), nullptr, 1)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(Reserve(engine(), file, -1)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(Truncate(engine(), nullptr, 0)), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(Truncate(engine(), file, -1)), ErrorCode::kInvalid);
  EXPECT_EQ(engine().in_flight(), 0);
}

TEST_P(DataContract, DirectAppendsKeepTheAlignment) {
  const FileRef file = Create();
  const int64_t unit = Unit(file);
  if (unit == 1) return;  // nothing to break
  EXPECT_EQ(CodeOf(AppendNow(file, 0, Pattern(unit - 1, 1))), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(AppendNow(file, unit / 2, Pattern(unit, 1))), ErrorCode::kInvalid);
  EXPECT_TRUE(AppendNow(file, unit, Pattern(unit, 1)));
}

TEST_P(DataContract, OneModeReadsWhatTheOtherWrote) {
  const FileRef file = Create();
  const IoMode other = mode() == IoMode::kDirect ? IoMode::kBuffered : IoMode::kDirect;
  int64_t end = 0;
  Bytes all;
  for (uint64_t round = 0; round < 20; ++round) {
    const Bytes bytes = Pattern(8192, round);
    auto append = AppendOf(file, end, bytes);
    append.mode = round % 2 == 0 ? mode() : other;
    ASSERT_TRUE(Append(engine(), std::move(append)));
    all.insert(all.end(), bytes.begin(), bytes.end());
    end += 8192;
    for (const IoMode reading : {mode(), other}) {
      auto read = ReadOf(file, 0, end);
      read.mode = reading;
      const Result<Bytes> back = Read(engine(), std::move(read));
      ASSERT_TRUE(back);
      ASSERT_TRUE(*back == all) << round;
    }
  }
}

TEST_P(DataContract, OffsetsBeyondFourGiB) {
  const FileRef file = Create();
  const int64_t start = (4LL << 30) - 65'536;
  const Bytes bytes = Pattern(RoundUp(file, 200'000), 9);
  ASSERT_TRUE(AppendNow(file, start, bytes, 1000));
  const Result<Bytes> read = ReadNow(file, start, static_cast<int64_t>(bytes.size()));
  ASSERT_TRUE(read);
  EXPECT_TRUE(*read == bytes);
  const Result<Bytes> tail = ReadNow(file, 4LL << 30, 100);
  ASSERT_TRUE(tail);
  EXPECT_TRUE(std::equal(tail->begin(), tail->end(), bytes.begin() + 65'536));
}

TEST_P(DataContract, AnAppendOverwritesWhatAFailedOneMayHaveLeft) {
  const FileRef file = Create();
  const Bytes first = Pattern(RoundUp(file, 30'000), 1);
  const Bytes second = Pattern(RoundUp(file, 10'000), 2);
  ASSERT_TRUE(AppendNow(file, 0, first));
  ASSERT_TRUE(AppendNow(file, 0, second));
  const Result<Bytes> read = ReadNow(file, 0, static_cast<int64_t>(second.size()));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, second);
}

TEST_P(DataContract, TwoAppendsToOneFileAtOnce) {
  const FileRef file = Create();
  const int64_t half = RoundUp(file, 2'500'000);
  const Bytes low = Pattern(half, 1);
  const Bytes high = Pattern(half, 2);
  for (int round = 0; round < 5; ++round) {
    auto second = StartAppend(engine(), AppendOf(file, half, high, 50'000));
    auto first = StartAppend(engine(), AppendOf(file, 0, low, 30'000));
    ASSERT_TRUE(first.Wait());
    ASSERT_TRUE(second.Wait());
    const Result<Bytes> read = ReadNow(file, 0, 2 * half);
    ASSERT_TRUE(read);
    ASSERT_TRUE(std::equal(low.begin(), low.end(), read->begin()));
    ASSERT_TRUE(std::equal(high.begin(), high.end(), read->begin() + half));
  }
}

TEST_P(DataContract, ManyFilesAtOnce) {
  constexpr int kFiles = 12;
  constexpr int kRounds = 6;
  std::vector<FileRef> files;
  for (int i = 0; i < kFiles; ++i) files.push_back(Create("many/" + std::to_string(i)));
  const int64_t size = RoundUp(files[0], 100'000);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Pending<Status>> appends;
    std::vector<Pending<Result<SliceChain>>> reads;
    for (int i = 0; i < kFiles; ++i) {
      const auto seed = static_cast<uint64_t>(round * 100 + i);
      appends.push_back(StartAppend(engine(), AppendOf(files[static_cast<size_t>(i)], round * size,
                                                       Pattern(size, seed), 10'000)));
      if (round > 0) {
        reads.push_back(
            StartRead(engine(), ReadOf(files[static_cast<size_t>(i)], (round - 1) * size, size)));
      }
    }
    for (auto& append : appends) ASSERT_TRUE(append.Wait());
    for (size_t i = 0; i < reads.size(); ++i) {
      const Result<SliceChain> read = reads[i].Wait();
      ASSERT_TRUE(read);
      ASSERT_TRUE(Flat(*read) == Pattern(size, static_cast<uint64_t>(round - 1) * 100 + i));
    }
  }
}

}  // namespace
}  // namespace dovetail::contract
