// Who owns what and for how long, in which order things run, deadlines, and the end.
#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

#include "tests/contract/engine_suite.h"

namespace dovetail::contract {
namespace {

using engine::Engine;
using engine::FileRef;
using LifeContract = EngineSuite;

ErrorCode CodeOf(const auto& result) { return result.error().code; }
TimePoint Past() { return std::chrono::steady_clock::now() - Milliseconds(1); }

INSTANTIATE_TEST_SUITE_P(Engines, LifeContract, testing::ValuesIn(SubjectKinds()),
                         [](const auto& info) { return info.param.name; });

// Waits until so many have called Arrive.
class Counter {
 public:
  void Arrive() {
    std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void WaitFor(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }
  int count() {
    std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

TEST_P(LifeContract, CompletionsRunOnAnotherThread) {
  const FileRef file = Create();
  const auto caller = std::this_thread::get_id();
  std::atomic<int> on_caller = 0;
  Counter done;
  const auto note = [&](const auto&) {
    if (std::this_thread::get_id() == caller) ++on_caller;
    done.Arrive();
  };
  engine().Append(AppendOf(file, 0, Pattern(RoundUp(file, 10), 1)), note);
  engine().Append(AppendOf(file, -1, {}), note);  // what is refused too
  engine().Append(AppendOf(nullptr, 0, {}), note);
  engine().Read(ReadOf(file, 0, 0), note);
  engine().Open("../x", true, note);
  engine().Open("other", true, note);
  engine().Reserve(file, 4096, note);
  engine().Truncate(nullptr, 0, note);
  engine().Remove("", note);
  engine().RemoveFolder("x", note);
  done.WaitFor(10);
  EXPECT_EQ(on_caller, 0);
}

TEST_P(LifeContract, DoneMayCallTheEngineAgain) {
  const FileRef file = Create();
  const int64_t unit = RoundUp(file, 1000);
  Counter ended;
  std::atomic<bool> fine = true;
  std::function<void(int64_t)> next = [&](int64_t round) {
    if (round == 50) return ended.Arrive();
    engine().Append(AppendOf(file, round * unit, Pattern(unit, static_cast<uint64_t>(round))),
                    [&, round](Status status) {
                      if (!status) fine = false;
                      next(round + 1);
                    });
  };
  next(0);
  ended.WaitFor(1);
  EXPECT_TRUE(fine);
  EXPECT_TRUE(ReadNow(file, 0, 50 * unit));
}

TEST_P(LifeContract, AnAppendOwnsItsBytesUntilItIsDoneAndNotLonger) {
  const FileRef file = Create();
  auto bytes = std::make_shared<Bytes>(Pattern(RoundUp(file, 3'000'000), 1));
  const auto copy = *bytes;
  const std::weak_ptr<Bytes> watched = bytes;
  engine::AppendRequest request{.file = file, .mode = mode()};
  for (size_t at = 0; at < bytes->size(); at += 4096) {
    request.data.push_back(
        {bytes, ConstBytes(*bytes).subspan(at, std::min<size_t>(4096, bytes->size() - at))});
  }
  bytes.reset();
  Pending<bool> let_go;
  engine().Append(std::move(request), [&, done = let_go.Done()](Status status) {
    EXPECT_TRUE(status);
    done(watched.expired());
  });
  EXPECT_TRUE(let_go.Wait());
  const Result<Bytes> read = ReadNow(file, 0, static_cast<int64_t>(copy.size()));
  ASSERT_TRUE(read);
  EXPECT_TRUE(*read == copy);
}

TEST_P(LifeContract, ALateCompletionFindsItsOwnerGone) {
  // The caller keeps nothing: not the file, not the bytes, not what done refers to.
  Counter done;
  for (int i = 0; i < 20; ++i) {
    FileRef file = Create(fmt::format("gone/{}", i));
    const int64_t size = RoundUp(file, 500'000);
    engine().Append(AppendOf(file, 0, Pattern(size, 1), 9999), [&](Status) { done.Arrive(); });
    engine().Reserve(file, size * 2, [&](Status) { done.Arrive(); });
    engine().Read(ReadOf(file, 0, size), [&](const auto&) { done.Arrive(); });
    engine().Remove(fmt::format("gone/{}", i), [&](Status) { done.Arrive(); });
    file.reset();
  }
  done.WaitFor(80);
  EXPECT_EQ(done.count(), 80);
}

TEST_P(LifeContract, WhatWasReadOutlivesItsFile) {
  const Bytes bytes = Pattern(1 << 20, 4);
  Result<SliceChain> chain;
  {
    const FileRef file = Create();
    ASSERT_TRUE(AppendNow(file, 0, bytes));
    chain = StartRead(engine(), ReadOf(file, 0, 1 << 20)).Wait();
    ASSERT_TRUE(Truncate(engine(), file, 0));
    ASSERT_TRUE(AppendNow(file, 0, Pattern(1 << 20, 5)));
    ASSERT_TRUE(Remove(engine(), "folder/file"));
  }
  ASSERT_TRUE(chain);
  EXPECT_TRUE(Flat(*chain) == bytes);
}

TEST_P(LifeContract, PastTheDeadlineNothingIsStarted) {
  const FileRef file = Create();
  const Bytes first = Pattern(RoundUp(file, 5000), 1);
  ASSERT_TRUE(AppendNow(file, 0, first));
  auto append = AppendOf(file, 0, Pattern(RoundUp(file, 5000), 2));
  append.deadline = Past();
  EXPECT_EQ(CodeOf(Append(engine(), std::move(append))), ErrorCode::kTimeout);
  auto read = ReadOf(file, 0, 100);
  read.deadline = Past();
  EXPECT_EQ(CodeOf(Read(engine(), std::move(read))), ErrorCode::kTimeout);
  EXPECT_EQ(*ReadNow(file, 0, static_cast<int64_t>(first.size())), first);
}

TEST_P(LifeContract, ADeadlineFarAwayChangesNothing) {
  const FileRef file = Create();
  const TimePoint later = std::chrono::steady_clock::now() + std::chrono::hours(1);
  auto append = AppendOf(file, 0, Pattern(RoundUp(file, 3'000'000), 2));
  append.deadline = later;
  EXPECT_TRUE(Append(engine(), std::move(append)));
  auto read = ReadOf(file, 0, 3'000'000);
  read.deadline = later;
  EXPECT_TRUE(Read(engine(), std::move(read)));
}

TEST_P(LifeContract, TasksOfAShardRunInOrderOneAtATime) {
  constexpr int kTasks = 2000;
  const int shards = std::min(2, engine().shards());
  ASSERT_GE(shards, 1);
  std::vector<int> order[2];
  std::atomic<int> inside[2] = {};
  std::atomic<bool> overlapped = false;
  Counter done;
  for (int i = 0; i < kTasks; ++i) {
    for (int shard = 0; shard < shards; ++shard) {
      ASSERT_TRUE(engine().Post(shard, [&, i, shard] {
        if (inside[shard].fetch_add(1) != 0) overlapped = true;
        order[shard].push_back(i);
        inside[shard].fetch_sub(1);
        done.Arrive();
      }));
    }
  }
  done.WaitFor(shards * kTasks);
  EXPECT_FALSE(overlapped);
  for (const auto& ran : std::span(order).first(static_cast<size_t>(shards))) {
    ASSERT_EQ(ran.size(), static_cast<size_t>(kTasks));
    EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
  }
}

TEST_P(LifeContract, WhatComesWhileAShardFallsAsleepWakesIt) {
  constexpr int kTasks = 20'000;
  std::atomic<int> ran = 0;
  // Fewer on a busy machine.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int i = 0; i < kTasks && std::chrono::steady_clock::now() < until; ++i) {
    ASSERT_TRUE(engine().Post(0, [&] { ++ran; }));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (ran <= i && std::chrono::steady_clock::now() < deadline) {
    }
    ASSERT_EQ(ran, i + 1) << "asleep";
    // A little earlier or later each time.
    const auto later = std::chrono::steady_clock::now() + std::chrono::nanoseconds(i * 37 % 5000);
    while (std::chrono::steady_clock::now() < later) {
    }
  }
}

TEST_P(LifeContract, ATaskMayPostAndCall) {
  const FileRef file = Create();
  Counter done;
  ASSERT_TRUE(engine().Post(0, [&] {
    engine().Append(AppendOf(file, 0, Pattern(RoundUp(file, 100), 1)), [&](Status status) {
      EXPECT_TRUE(status);
      EXPECT_TRUE(engine().Post(engine().shards() - 1, [&] { done.Arrive(); }));
    });
    EXPECT_TRUE(engine().Post(0, [&] { done.Arrive(); }));
  }));
  done.WaitFor(2);
}

TEST_P(LifeContract, StopCompletesEverythingThatWasAccepted) {
  std::vector<FileRef> files;
  for (int i = 0; i < 8; ++i) files.push_back(Create(fmt::format("f{}", i)));
  const int64_t size = RoundUp(files[0], 700'000);
  std::vector<std::unique_ptr<std::atomic<int>>> times;
  std::atomic<int> tasks = 0;
  for (int round = 0; round < 10; ++round) {
    for (const FileRef& file : files) {
      std::atomic<int>* count = times.emplace_back(std::make_unique<std::atomic<int>>(0)).get();
      engine().Append(AppendOf(file, round * size, Pattern(size, 1), 5000), [count](Status status) {
        EXPECT_TRUE(status);
        count->fetch_add(1);
      });
      ASSERT_TRUE(engine().Post(round % engine().shards(), [&] { ++tasks; }));
    }
  }
  EXPECT_TRUE(engine().Stop(TimePoint::max()));
  for (const auto& count : times) EXPECT_EQ(count->load(), 1);
  EXPECT_EQ(tasks, 80);
  EXPECT_EQ(engine().in_flight(), 0);
}

TEST_P(LifeContract, AfterStopEveryCallSaysShutdown) {
  const FileRef file = Create();
  ASSERT_TRUE(AppendNow(file, 0, Pattern(RoundUp(file, 10), 1)));
  ASSERT_TRUE(engine().Stop(TimePoint::max()));
  EXPECT_EQ(CodeOf(Open(engine(), "new", true)), ErrorCode::kShutdown);
  EXPECT_EQ(CodeOf(AppendNow(file, 0, Pattern(RoundUp(file, 10), 1))), ErrorCode::kShutdown);
  EXPECT_EQ(CodeOf(AppendNow(nullptr, 0, {})), ErrorCode::kShutdown);
  EXPECT_EQ(CodeOf(ReadNow(file, 0, 1)), ErrorCode::kShutdown);
  EXPECT_EQ(CodeOf(Reserve(engine(), file, 1)), ErrorCode::kShutdown);
  EXPECT_EQ(CodeOf(Truncate(engine(), file, 0)), ErrorCode::kShutdown);
  EXPECT_EQ(CodeOf(Remove(engine(), "folder/file")), ErrorCode::kShutdown);
  EXPECT_EQ(CodeOf(RemoveFolder(engine(), "folder")), ErrorCode::kShutdown);
  EXPECT_FALSE(engine().Post(0, [] { ADD_FAILURE() << "ran after Stop"; }));
  EXPECT_EQ(engine().in_flight(), 0);
  EXPECT_TRUE(engine().Stop(TimePoint::max()));  // once more is no harm
}

TEST_P(LifeContract, StopRacesWithCalls) {
  const FileRef file = Create();
  const int64_t size = RoundUp(file, 1000);
  std::atomic<int> made = 0;
  std::atomic<int> answered = 0;
  std::atomic<bool> odd = false;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) {
        ++made;
        engine().Append(AppendOf(file, (i * 200 + round) * size, Pattern(size, 1)),
                        [&](Status status) {
                          if (!status && CodeOf(status) != ErrorCode::kShutdown) odd = true;
                          ++answered;
                        });
        engine().Post(0, [] {});
      }
    });
  }
  EXPECT_TRUE(engine().Stop(TimePoint::max()));
  for (std::thread& caller : callers) caller.join();
  EndEngine();  // answers what was refused
  EXPECT_FALSE(odd);
  EXPECT_EQ(answered, made);
}

TEST_P(LifeContract, AFileMayOutliveItsEngine) {
  FileRef file = Create();
  ASSERT_TRUE(AppendNow(file, 0, Pattern(RoundUp(file, 10), 1)));
  ASSERT_TRUE(engine().Stop(TimePoint::max()));
  EndEngine();
  EXPECT_GE(file->direct_alignment(), 1);
}

TEST_P(LifeContract, NothingIsInFlightWhenEverythingIsDone) {
  const FileRef file = Create();
  const int64_t size = RoundUp(file, 300'000);
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(AppendNow(file, round * size, Pattern(size, 1)));
    ASSERT_TRUE(ReadNow(file, 0, size));
    ASSERT_FALSE(ReadNow(file, 0, 1LL << 40));
    ASSERT_EQ(engine().in_flight(), 0);
  }
}

}  // namespace
}  // namespace dovetail::contract
