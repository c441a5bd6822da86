// What may wait for what: full lists, hung calls, deadlines, and a stop that cannot wait.
#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/contract/disk_suite.h"

namespace dovetail::contract {
namespace {

using engine::FileRef;
using engine::Lane;
using DiskThreading = DiskSuite;

constexpr int64_t kPage = 4096;
constexpr int64_t kMiB = 1 << 20;

ErrorCode CodeOf(const auto& result) { return result.error().code; }
TimePoint In(Milliseconds wait) { return std::chrono::steady_clock::now() + wait; }
TimePoint Soon() { return In(Milliseconds(20)); }

INSTANTIATE_TEST_SUITE_P(Cases, DiskThreading, DiskCases(), NameOfCase);

TEST_P(DiskThreading, AFullListIsBusyAndOnlyThatList) {
  Restart({.at_once = 2, .queue_max = 3});
  const FileRef file = Create();
  const Bytes bytes = Pattern(kPage, 1);
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, bytes)));
  calls().Hang(Kernel::kPwritev);
  std::vector<Pending<Status>> taken;
  taken.push_back(StartAppend(engine(), AppendOf(file, kPage, bytes)));
  calls().WaitUntilHung(Kernel::kPwritev, 1);
  for (int i = 2; i < 5; ++i) {
    taken.push_back(StartAppend(engine(), AppendOf(file, i * kPage, bytes)));
  }
  EXPECT_EQ(bench_->waiting(Lane::kAppend), 3);
  const Status refused = Append(engine(), AppendOf(file, 5 * kPage, bytes));
  ASSERT_FALSE(refused);
  EXPECT_EQ(CodeOf(refused), ErrorCode::kBusy);
  EXPECT_EQ(engine().in_flight(), 4);
  EXPECT_TRUE(Read(engine(), ReadOf(file, 0, kPage)));
  EXPECT_TRUE(Reserve(engine(), file, 100 * kPage));
  calls().Release();
  for (auto& append : taken) EXPECT_TRUE(append.Wait());
  EXPECT_FALSE(Read(engine(), ReadOf(file, 5 * kPage, 1)));  // it was not begun
  EXPECT_TRUE(Append(engine(), AppendOf(file, 5 * kPage, bytes)));
}

TEST_P(DiskThreading, NeitherReadsNorAppendsStarveBehindTheOther) {
  Restart({.at_once = 3});
  const FileRef file = Create();
  const Bytes bytes = Pattern(kPage, 1);
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, bytes)));

  calls().Hang(Kernel::kPreadv);
  std::vector<Pending<Result<SliceChain>>> reads;
  for (int i = 0; i < 20; ++i) reads.push_back(StartRead(engine(), ReadOf(file, 0, kPage)));
  calls().WaitUntilHung(Kernel::kPreadv, 2);
  for (int i = 1; i < 10; ++i) {
    EXPECT_TRUE(Append(engine(), AppendOf(file, i * kPage, bytes)));
  }
  calls().Release();
  for (auto& read : reads) EXPECT_TRUE(read.Wait());

  std::vector<FileRef> files;
  for (int i = 0; i < 20; ++i) files.push_back(Create(fmt::format("other{}", i)));
  calls().Hang(Kernel::kPwritev);
  std::vector<Pending<Status>> appends;
  for (const FileRef& other : files) {
    appends.push_back(StartAppend(engine(), AppendOf(other, 0, bytes)));
  }
  calls().WaitUntilHung(Kernel::kPwritev, 2);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Read(engine(), ReadOf(file, 0, kPage)));
  calls().Release();
  for (auto& append : appends) EXPECT_TRUE(append.Wait());
}

TEST_P(DiskThreading, ASlowRemovalHoldsNoTransfer) {
  const FileRef file = Create();
  const Bytes bytes = Pattern(kPage, 1);
  calls().Hang(Kernel::kUnlinkAt);
  std::vector<Pending<Status>> removals(5);
  for (auto& removal : removals) engine().Remove("other", removal.Done());
  calls().WaitUntilHung(Kernel::kUnlinkAt, 2);
  EXPECT_TRUE(Append(engine(), AppendOf(file, 0, bytes)));
  EXPECT_TRUE(Read(engine(), ReadOf(file, 0, kPage)));
  calls().Release();
  for (auto& removal : removals) EXPECT_TRUE(removal.Wait());
}

TEST_P(DiskThreading, ADeadlineEndsWhatStillWaits) {
  Restart({.at_once = 1});
  const FileRef file = Create();
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, Pattern(kPage, 1))));
  calls().Hang(Kernel::kPwritev);
  auto held = StartAppend(engine(), AppendOf(file, kPage, Pattern(kPage, 2)));
  calls().WaitUntilHung(Kernel::kPwritev, 1);
  const int64_t begun = calls().count(Kernel::kPwritev);
  auto append = AppendOf(file, 2 * kPage, Pattern(kPage, 3));
  append.deadline = Soon();
  auto read = ReadOf(file, 0, kPage);
  read.deadline = Soon();
  auto late_append = StartAppend(engine(), std::move(append));
  auto late_read = StartRead(engine(), std::move(read));
  EXPECT_EQ(CodeOf(late_append.Wait()), ErrorCode::kTimeout);
  EXPECT_EQ(CodeOf(late_read.Wait()), ErrorCode::kTimeout);
  EXPECT_EQ(calls().count(Kernel::kPwritev), begun);
  EXPECT_EQ(engine().in_flight(), 1);
  calls().Release();
  EXPECT_TRUE(held.Wait());
  EXPECT_FALSE(Read(engine(), ReadOf(file, 2 * kPage, 1)));
}

TEST_P(DiskThreading, ADeadlineWaitsForWhatTheKernelHolds) {
  Restart({.at_once = 1});
  FileRef file = Create();
  std::weak_ptr<Bytes> watched;
  Pending<Status> held;
  TimePoint deadline;
  // On a busy machine the deadline may pass before anything has begun.
  for (Milliseconds wait{20};; wait *= 2) {
    calls().Hang(Kernel::kPwritev);
    auto bytes = std::make_shared<Bytes>(Pattern(kPage, 2));
    watched = bytes;
    deadline = In(wait);
    engine::AppendRequest append{.file = file, .mode = mode(), .deadline = deadline};
    append.data.push_back({bytes, *bytes});
    bytes.reset();
    held = StartAppend(engine(), std::move(append));
    if (calls().HangBefore(deadline, Kernel::kPwritev, 1)) break;
    calls().Release();
    static_cast<void>(held.Wait());
    ASSERT_TRUE(Truncate(engine(), file, 0));
  }
  // One with a later deadline that only waits shows that the deadline has passed.
  auto late = AppendOf(file, 0, Pattern(kPage, 3));
  late.deadline = deadline + Milliseconds(20);
  EXPECT_EQ(CodeOf(Append(engine(), std::move(late))), ErrorCode::kTimeout);
  EXPECT_FALSE(held.Ready());
  EXPECT_FALSE(watched.expired());
  // The file is pinned too, whoever lets go of it.
  const int64_t closed = calls().count(Kernel::kClose);
  ASSERT_TRUE(Remove(engine(), "file"));
  const int64_t closed_by_remove = calls().count(Kernel::kClose);
  file.reset();
  ASSERT_TRUE(Remove(engine(), "file"));
  EXPECT_EQ(calls().count(Kernel::kClose) - closed_by_remove, closed_by_remove - closed);
  EXPECT_EQ(counters().descriptors, 2);
  calls().Release();
  // A ring's kernel may not have begun to write, and then it is cancelled.
  const Status ended = held.Wait();
  EXPECT_TRUE(ended || (uring() && CodeOf(ended) == ErrorCode::kTimeout));
  EXPECT_TRUE(watched.expired());
}

TEST_P(DiskThreading, ADeadlineBeginsNoMorePiecesOfARead) {
  Restart({.at_once = 4, .read_pieces_max = 2});
  const FileRef file = Create();
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, Pattern(8 * kMiB, 1))));
  int64_t before = 0;
  Pending<Result<SliceChain>> read;
  TimePoint deadline;
  for (Milliseconds wait{20};; wait *= 2) {
    calls().Hang(Kernel::kPreadv);
    before = calls().count(Kernel::kPreadv);
    deadline = In(wait);
    auto request = ReadOf(file, 0, 8 * kMiB);
    request.deadline = deadline;
    read = StartRead(engine(), std::move(request));
    if (calls().HangBefore(deadline, Kernel::kPreadv, 2)) break;
    calls().Release();
    static_cast<void>(read.Wait());
  }
  std::this_thread::sleep_until(deadline + Milliseconds(20));
  EXPECT_FALSE(read.Ready());
  calls().Release();
  EXPECT_EQ(CodeOf(read.Wait()), ErrorCode::kTimeout);
  EXPECT_EQ(calls().count(Kernel::kPreadv), before + 2);
  EXPECT_EQ(bench_->arena.used_bytes(), 0);
}

TEST_P(DiskThreading, PiecesOfOneReadRunAtOnceUpToTheLimit) {
  Restart({.at_once = 5, .read_pieces_max = 3});
  const FileRef file = Create();
  const Bytes bytes = Pattern(8 * kMiB, 1);
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, bytes)));
  calls().Hang(Kernel::kPreadv);
  const int64_t before = calls().count(Kernel::kPreadv);
  auto read = StartRead(engine(), ReadOf(file, 0, 8 * kMiB));
  calls().WaitUntilHung(Kernel::kPreadv, 3);
  // A small read gets the fourth thread, not a fourth piece.
  auto small = StartRead(engine(), ReadOf(file, 0, 10));
  calls().WaitUntilHung(Kernel::kPreadv, 4);
  EXPECT_EQ(calls().count(Kernel::kPreadv), before + 4);
  calls().Release();
  EXPECT_TRUE(small.Wait());
  const Result<SliceChain> chain = read.Wait();
  ASSERT_TRUE(chain);
  EXPECT_TRUE(Flat(*chain) == bytes);
}

TEST_P(DiskThreading, StopWaitsForWhatRuns) {
  const FileRef file = Create();
  calls().Hang(Kernel::kPwritev);
  std::vector<Pending<Status>> appends;
  for (int i = 0; i < 10; ++i) {
    appends.push_back(StartAppend(engine(), AppendOf(file, i * kPage, Pattern(kPage, 1))));
  }
  calls().WaitUntilHung(Kernel::kPwritev, 1);
  std::atomic<bool> stopped = false;
  std::thread stopper([&] {
    EXPECT_TRUE(engine().Stop(TimePoint::max()));
    stopped = true;
  });
  EXPECT_FALSE(stopped);
  calls().Release();
  stopper.join();
  for (auto& append : appends) EXPECT_TRUE(append.Wait());
}

TEST_P(DiskThreading, AHungDiskIsLeftBehind) {
  // Leaked on purpose, and still reachable.
  static auto* const leaked = new std::vector<std::unique_ptr<DiskBench>>();
  Restart({.at_once = 2});
  FileRef file = Create();
  calls().Hang(Kernel::kPwritev);
  auto owned = std::make_shared<Bytes>(Pattern(kPage, 1));
  const std::weak_ptr<Bytes> watched = owned;
  const auto late = std::make_shared<std::atomic<int>>(0);
  engine::AppendRequest append{.file = file, .mode = mode()};
  append.data.push_back({owned, *owned});
  owned.reset();
  engine().Append(std::move(append), [late](Status) { ++*late; });
  calls().WaitUntilHung(Kernel::kPwritev, 1);
  auto waiting = StartAppend(engine(), AppendOf(file, kPage, Pattern(kPage, 2)));
  std::atomic<int> tasks = 0;
  ASSERT_TRUE(engine().Post(0, [&] { ++tasks; }));
  while (tasks == 0) std::this_thread::yield();

  EXPECT_FALSE(engine().Stop(Soon()));
  ASSERT_TRUE(waiting.Ready());  // before Stop returned
  EXPECT_EQ(CodeOf(waiting.Wait()), ErrorCode::kShutdown);
  EXPECT_EQ(tasks, 1);
  EXPECT_EQ(engine().in_flight(), 1);
  EXPECT_FALSE(watched.expired());
  EXPECT_FALSE(engine().Stop(TimePoint::max()));  // says the same, and does not wait
  EXPECT_EQ(CodeOf(Append(engine(), AppendOf(file, 0, {}))), ErrorCode::kShutdown);

  // The disk comes back: the bytes may be used to the end, and nobody is called any more.
  const int64_t before = counters().appends;
  calls().Release();
  if (uring()) {
    while (engine().ring_counters(0)->in_kernel != 0) std::this_thread::yield();
  } else {
    while (counters().appends == before) std::this_thread::yield();
  }
  EXPECT_EQ(*late, 0);
  EXPECT_FALSE(watched.expired());
  file.reset();
  std::filesystem::remove_all(bench_->folder.path());
  leaked->push_back(std::move(bench_));
}

TEST_P(DiskThreading, ClosingDoesNotBlockWhoLetsGo) {
  FileRef file = Create();
  ASSERT_TRUE(Append(engine(), AppendOf(file, 0, Pattern(kPage, 1))));
  EXPECT_EQ(counters().descriptors, 2);
  calls().Hang(Kernel::kClose);
  file.reset();  // comes back although close hangs
  calls().WaitUntilHung(Kernel::kClose, 1);
  EXPECT_EQ(counters().descriptors, 2);
  calls().Release();
  EXPECT_TRUE(engine().Stop(TimePoint::max()));
  EXPECT_EQ(counters().descriptors, 0);
}

}  // namespace
}  // namespace dovetail::contract
