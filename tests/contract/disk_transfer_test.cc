// What the kernel may do to a transfer: short at any byte, interrupted, refused, failed half-way.
#include <climits>
#include <filesystem>

#include "tests/contract/disk_suite.h"

namespace dovetail::contract {
namespace {

using engine::FileRef;
using engine::IoMode;
using DiskTransfer = DiskSuite;

constexpr int64_t kPage = 4096;

ErrorCode CodeOf(const auto& result) { return result.error().code; }

INSTANTIATE_TEST_SUITE_P(Cases, DiskTransfer, DiskCases(), NameOfCase);

TEST_P(DiskTransfer, AShortWriteIsContinuedAtEveryByte) {
  const int64_t size = 3 * kPage;
  for (const int64_t short_bytes : {int64_t{0}, int64_t{1}, int64_t{511}, int64_t{512}, kPage - 1,
                                    kPage, kPage + 1, 2 * kPage, size - 1}) {
    const FileRef file = Create("file" + std::to_string(short_bytes));
    const int64_t continued = counters().continued;
    calls().Next(Kernel::kPwritev, {.short_bytes = short_bytes});
    const Bytes bytes = Pattern(size, static_cast<uint64_t>(short_bytes));
    ASSERT_TRUE(Append(engine(), AppendOf(file, 0, bytes, 1000))) << short_bytes;
    const Result<Bytes> read = Read(engine(), ReadOf(file, 0, size));
    ASSERT_TRUE(read);
    ASSERT_TRUE(*read == bytes) << short_bytes;
    EXPECT_EQ(counters().continued, continued + 1) << short_bytes;
  }
}

TEST_P(DiskTransfer, ManyShortWritesInARow) {
  const FileRef file = Create();
  const int64_t size = 40 * kPage;
  for (int i = 0; i < 30; ++i) calls().Next(Kernel::kPwritev, {.short_bytes = kPage + i * 7 % 5});
  const Bytes bytes = Pattern(size, 1);
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, bytes, 333)));
  EXPECT_TRUE(*Read(engine(), ReadOf(file, 0, size)) == bytes);
}

TEST_P(DiskTransfer, AShortReadIsContinuedAtEveryByte) {
  const FileRef file = Create();
  const int64_t size = 3 * kPage;
  const Bytes bytes = Pattern(size, 2);
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, bytes)));
  for (const int64_t short_bytes :
       {int64_t{1}, int64_t{511}, int64_t{512}, kPage - 1, kPage, kPage + 1, 2 * kPage, size - 1}) {
    for (const int64_t from : {int64_t{0}, int64_t{100}}) {
      calls().Next(Kernel::kPreadv, {.short_bytes = short_bytes});
      const Result<Bytes> read = Read(engine(), ReadOf(file, from, size - from));
      ASSERT_TRUE(read) << short_bytes;
      ASSERT_TRUE(std::equal(read->begin(), read->end(), bytes.begin() + from)) << short_bytes;
    }
  }
  EXPECT_EQ(counters().direct_refused, 0);  // went on, not all over again
}

TEST_P(DiskTransfer, AReadOfNothingIsTheEnd) {
  const FileRef file = Create();
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, Pattern(2 * kPage, 1))));
  calls().Next(Kernel::kPreadv, {.short_bytes = kPage});
  calls().Next(Kernel::kPreadv, {.short_bytes = 0});
  const Result<Bytes> read = Read(engine(), ReadOf(file, 0, 2 * kPage));
  ASSERT_FALSE(read);
  EXPECT_EQ(CodeOf(read), ErrorCode::kCorrupt);
  EXPECT_STREQ(read.error().where, "end");
}

TEST_P(DiskTransfer, AFileCutBehindOurBackIsAnErrorNotPadding) {
  const FileRef file = Create();
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, Pattern(4 * kPage, 1))));
  std::filesystem::resize_file(bench_->PathOf("file"), 2 * kPage + 100);
  EXPECT_TRUE(Read(engine(), ReadOf(file, 0, 2 * kPage + 100)));
  for (const int64_t length : {2 * kPage + 101, 3 * kPage, 4 * kPage}) {
    const Result<Bytes> read = Read(engine(), ReadOf(file, 0, length));
    ASSERT_FALSE(read) << length;
    EXPECT_EQ(CodeOf(read), ErrorCode::kCorrupt);
  }
  EXPECT_FALSE(Read(engine(), ReadOf(file, 3 * kPage, 10)));
}

TEST_P(DiskTransfer, InterruptedCallsAreRepeated) {
  const FileRef file = Create();
  const Bytes bytes = Pattern(5 * kPage, 3);
  for (const int os_error : {EINTR, EAGAIN, EINTR, EINTR, EAGAIN}) {
    calls().Next(Kernel::kPwritev, {.os_error = os_error});
    calls().Next(Kernel::kPreadv, {.os_error = os_error});
  }
  calls().Next(Kernel::kFallocate, {.os_error = EINTR});
  ASSERT_TRUE(Reserve(engine(), file, 5 * kPage));
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, bytes)));
  EXPECT_TRUE(*Read(engine(), ReadOf(file, 0, 5 * kPage)) == bytes);
  calls().Next(Kernel::kFtruncate, {.os_error = EINTR});
  ASSERT_TRUE(Truncate(engine(), file, kPage));
  EXPECT_EQ(std::filesystem::file_size(bench_->PathOf("file")), static_cast<uint64_t>(kPage));
}

TEST_P(DiskTransfer, WhatNeverGetsOnIsADeviceError) {
  const FileRef file = Create();
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, Pattern(kPage, 1))));
  calls().Always(Kernel::kPwritev, {.short_bytes = 0});
  calls().Always(Kernel::kPreadv, {.os_error = EAGAIN});
  auto append = StartAppend(engine(), AppendOf(file, kPage, Pattern(kPage, 1)));
  auto read = StartRead(engine(), ReadOf(file, 0, kPage));
  EXPECT_EQ(CodeOf(append.Wait()), ErrorCode::kIo);
  EXPECT_EQ(CodeOf(read.Wait()), ErrorCode::kIo);
}

TEST_P(DiskTransfer, FullAtAnyByteLeavesTheFileAsItWas) {
  const FileRef file = Create();
  const Bytes before = Pattern(2 * kPage, 1);
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, before)));
  const int64_t size = 6 * kPage;
  for (const int64_t written :
       {int64_t{0}, int64_t{1}, int64_t{511}, kPage - 1, kPage, 3 * kPage + 5, size - 1}) {
    calls().Next(Kernel::kPwritev, {.short_bytes = written});
    calls().Next(Kernel::kPwritev, {.os_error = ENOSPC});
    const Status status = Append(engine(), AppendOf(file, 2 * kPage, Pattern(size, 77), 700));
    ASSERT_FALSE(status) << written;
    EXPECT_EQ(CodeOf(status), ErrorCode::kNoSpace);
    EXPECT_EQ(status.error().os_error, ENOSPC);
    EXPECT_EQ(std::filesystem::file_size(bench_->PathOf("file")), static_cast<uint64_t>(2 * kPage))
        << written;
    EXPECT_FALSE(Read(engine(), ReadOf(file, 2 * kPage, 1)));

    // What comes next at the same place is right, and shorter than what was left.
    const Bytes after = Pattern(kPage, static_cast<uint64_t>(written));
    ASSERT_TRUE(Append(engine(), AppendOf(file, 2 * kPage, after)));
    EXPECT_TRUE(*Read(engine(), ReadOf(file, 0, 2 * kPage)) == before);
    EXPECT_TRUE(*Read(engine(), ReadOf(file, 2 * kPage, kPage)) == after);
    EXPECT_FALSE(Read(engine(), ReadOf(file, 2 * kPage, kPage + 1)));
    ASSERT_TRUE(Truncate(engine(), file, 2 * kPage));
  }
  EXPECT_EQ(counters().rollbacks, 7);
}

TEST_P(DiskTransfer, AFailureInALaterCallCutsBackToTheBeginning) {
  const FileRef file = Create();
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, Pattern(kPage, 1))));
  // Three calls in either mode: 3 * IOV_MAX pieces, or 3 MiB gathered.
  const Bytes bytes = Pattern(3 << 20, 2);
  for (const int good : {1, 2}) {
    calls().After(Kernel::kPwritev, good, {.os_error = EIO});
    const Status status = Append(engine(), AppendOf(file, kPage, bytes, 1024));
    ASSERT_FALSE(status);
    EXPECT_EQ(CodeOf(status), ErrorCode::kIo);
    EXPECT_EQ(std::filesystem::file_size(bench_->PathOf("file")), static_cast<uint64_t>(kPage));
  }
  ASSERT_TRUE(Append(engine(), AppendOf(file, kPage, bytes, 1024)));
  EXPECT_TRUE(*Read(engine(), ReadOf(file, kPage, 3 << 20)) == bytes);
}

TEST_P(DiskTransfer, ACutThatFailsIsSaidAndHarmsNothing) {
  const FileRef file = Create();
  const Bytes before = Pattern(kPage, 1);
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, before)));
  calls().Next(Kernel::kPwritev, {.short_bytes = 2 * kPage});
  calls().Next(Kernel::kPwritev, {.os_error = EIO});
  calls().Next(Kernel::kFtruncate, {.os_error = EIO});
  const Status status = Append(engine(), AppendOf(file, kPage, Pattern(4 * kPage, 9)));
  ASSERT_FALSE(status);
  EXPECT_EQ(CodeOf(status), ErrorCode::kIo);
  EXPECT_STREQ(status.error().where, "rollback");
  EXPECT_EQ(CodeOf(Read(engine(), ReadOf(file, kPage, kPage))), ErrorCode::kCorrupt);
  const Bytes after = Pattern(kPage, 2);
  ASSERT_TRUE(Append(engine(), AppendOf(file, kPage, after)));
  EXPECT_TRUE(*Read(engine(), ReadOf(file, 0, kPage)) == before);
  EXPECT_TRUE(*Read(engine(), ReadOf(file, kPage, kPage)) == after);
  EXPECT_FALSE(Read(engine(), ReadOf(file, kPage, kPage + 1)));
  EXPECT_EQ(counters().rollback_failures, 1);
}

TEST_P(DiskTransfer, OneCallForAsManyPiecesAsItTakes) {
  const FileRef file = Create();
  const int64_t size = 4 * IOV_MAX * 16;
  const int64_t before = calls().count(Kernel::kPwritev);
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, Pattern(size, 1), 16)));
  const int64_t made = calls().count(Kernel::kPwritev) - before;
  EXPECT_EQ(made, mode() == IoMode::kDirect ? 1 : 4);
}

TEST_P(DiskTransfer, AFailedPieceFailsItsReadOnceAndLeavesNothing) {
  const FileRef file = Create();
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, Pattern(8 << 20, 1))));
  for (const int good : {0, 2, 5}) {
    calls().After(Kernel::kPreadv, good, {.os_error = EIO});
    const Result<Bytes> read = Read(engine(), ReadOf(file, 0, 8 << 20));
    ASSERT_FALSE(read);
    EXPECT_EQ(CodeOf(read), ErrorCode::kIo);
    EXPECT_EQ(bench_->arena.used_bytes(), 0);
    calls().Heal();
  }
  EXPECT_TRUE(Read(engine(), ReadOf(file, 0, 8 << 20)));
}

TEST_P(DiskTransfer, AFileThatRefusesDirectTransfersIsUsedBuffered) {
  const FileRef file = Create();
  const Bytes bytes = Pattern(3 * kPage, 1);
  calls().Next(Kernel::kPwritev, {.os_error = EINVAL});
  const Status status = Append(engine(), AppendOf(file, 0, bytes));
  if (mode() == IoMode::kBuffered) {
    EXPECT_EQ(CodeOf(status), ErrorCode::kInvalid);
    return;
  }
  ASSERT_TRUE(status);
  EXPECT_TRUE(*Read(engine(), ReadOf(file, 0, 3 * kPage)) == bytes);
  EXPECT_EQ(counters().direct_refused, 1);
}

TEST_P(DiskTransfer, ARefusalAmongShortPiecesBeginsAllOfItAgain) {
  if (mode() == IoMode::kBuffered) return;
  const FileRef file = Create();
  const Bytes bytes = Pattern(3 << 20, 1);
  // The third is still being written when the first wants to go on and the second is refused.
  calls().Next(Kernel::kPwritev, {.short_bytes = 0});
  calls().Next(Kernel::kPwritev, {.os_error = EINVAL});
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, bytes)));
  EXPECT_TRUE(*Read(engine(), ReadOf(file, 0, 3 << 20)) == bytes);
  EXPECT_EQ(counters().direct_refused, 1);
}

TEST_P(DiskTransfer, ReservingAsksOnlyForWhatIsMissing) {
  const FileRef file = Create();
  ASSERT_TRUE(Reserve(engine(), file, 100'000));
  EXPECT_EQ(calls().reserve_offset(), 0);
  ASSERT_TRUE(Reserve(engine(), file, 300'000));
  EXPECT_EQ(calls().reserve_offset(), 100'000);
  EXPECT_EQ(calls().reserve_length(), 200'000);
  const int64_t made = calls().count(Kernel::kFallocate);
  ASSERT_TRUE(Reserve(engine(), file, 250'000));
  EXPECT_EQ(calls().count(Kernel::kFallocate), made);
  EXPECT_EQ(std::filesystem::file_size(bench_->PathOf("file")), 300'000u);

  // A cut takes the reservation with it, so it is asked for again.
  calls().Next(Kernel::kPwritev, {.os_error = EIO});
  ASSERT_FALSE(Append(engine(), AppendOf(file, 0, Pattern(kPage, 1))));
  ASSERT_TRUE(Reserve(engine(), file, 250'000));
  EXPECT_EQ(calls().reserve_offset(), 0);
  EXPECT_EQ(calls().reserve_length(), 250'000);
}

TEST_P(DiskTransfer, ACutFreesWhatIsReservedBehind) {
  const FileRef file = Create();
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, Pattern(kPage, 1))));
  ASSERT_TRUE(Reserve(engine(), file, 100 * kPage));
  ASSERT_TRUE(Truncate(engine(), file, kPage));  // no written byte goes
  EXPECT_EQ(std::filesystem::file_size(bench_->PathOf("file")), static_cast<uint64_t>(kPage));
  ASSERT_TRUE(Reserve(engine(), file, 50 * kPage));
  EXPECT_EQ(calls().reserve_offset(), kPage);
  EXPECT_EQ(std::filesystem::file_size(bench_->PathOf("file")), 50u * kPage);
}

TEST_P(DiskTransfer, AReservationThatFailsChangesNothing) {
  const FileRef file = Create();
  const Bytes bytes = Pattern(2 * kPage, 1);
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, bytes)));
  calls().Next(Kernel::kFallocate, {.os_error = ENOSPC});
  const Status full = Reserve(engine(), file, 1 << 20);
  ASSERT_FALSE(full);
  EXPECT_EQ(CodeOf(full), ErrorCode::kNoSpace);
  EXPECT_EQ(full.error().os_error, ENOSPC);
  calls().Next(Kernel::kFallocate, {.os_error = EOPNOTSUPP});
  EXPECT_TRUE(Reserve(engine(), file, 1 << 20));
  EXPECT_EQ(counters().unreserved, 1);
  EXPECT_TRUE(*Read(engine(), ReadOf(file, 0, 2 * kPage)) == bytes);
}

}  // namespace
}  // namespace dovetail::contract
