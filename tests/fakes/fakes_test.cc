// The fakes do what the tests above them rely on: faults that replay, crashes that tear, a disk
// that is full to the byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "tests/contract/sync_io.h"
#include "tests/fakes/fault_engine.h"
#include "tests/fakes/mem_engine.h"

namespace dovetail::fakes {
namespace {

using contract::Bytes;
using contract::ChainOf;
using contract::Pattern;
using contract::Pending;
using contract::StartAppend;
using engine::FileRef;

ErrorCode CodeOf(const auto& result) { return result.error().code; }

// A stepped engine with a file.
struct Stepped {
  explicit Stepped(std::shared_ptr<MemDisk> disk = std::make_shared<MemDisk>())
      : engine({.stepped = true}, std::move(disk)) {}

  FileRef Open(const std::string& path, bool create) {
    auto pending = contract::StartOpen(engine, path, create);
    engine.RunAll();
    return pending.Wait().value_or(nullptr);
  }

  MemEngine engine;
};

TEST(MemEngine, SteppedRunsNothingByItself) {
  Stepped stepped;
  auto open = contract::StartOpen(stepped.engine, "file", true);
  bool ran = false;
  ASSERT_TRUE(stepped.engine.Post(0, [&] { ran = true; }));
  EXPECT_FALSE(open.Ready());
  EXPECT_EQ(stepped.engine.in_flight(), 1);
  EXPECT_TRUE(stepped.engine.RunOne());
  EXPECT_TRUE(open.Ready());
  EXPECT_FALSE(ran);
  EXPECT_TRUE(stepped.engine.RunOne());
  EXPECT_TRUE(ran);
  EXPECT_FALSE(stepped.engine.RunOne());
}

TEST(MemEngine, RunRandomReplaysBySeedAndKeepsTheOrderOfAShard) {
  const auto run = [](uint64_t seed) {
    Stepped stepped;
    std::vector<int> order;
    for (int i = 0; i < 10; ++i) {
      stepped.engine.Post(i % 2, [&order, i] { order.push_back(i); });
      stepped.engine.Remove("x", [&order, i](Status) { order.push_back(100 + i); });
    }
    std::mt19937_64 random(seed);
    while (stepped.engine.RunRandom(random)) {
    }
    return order;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
  for (const int shard : {0, 1}) {
    std::vector<int> tasks;
    for (const int i : run(3)) {
      if (i < 100 && i % 2 == shard) tasks.push_back(i);
    }
    EXPECT_EQ(tasks.size(), 5u);
    EXPECT_TRUE(std::is_sorted(tasks.begin(), tasks.end()));
  }
}

TEST(MemEngine, IsFullToTheByteAndFreeAgain) {
  const auto disk = std::make_shared<MemDisk>(MemDiskOptions{.capacity_bytes = 10'000});
  MemEngine engine({}, disk);
  const FileRef file = *contract::Open(engine, "file", true);
  ASSERT_TRUE(contract::Append(engine, {.file = file, .data = ChainOf(Pattern(9000, 1))}));
  EXPECT_EQ(CodeOf(contract::Append(
                engine, {.file = file, .offset = 9000, .data = ChainOf(Pattern(1001, 1))})),
            ErrorCode::kNoSpace);
  EXPECT_EQ(CodeOf(contract::Reserve(engine, file, 10'001)), ErrorCode::kNoSpace);
  EXPECT_TRUE(
      contract::Append(engine, {.file = file, .offset = 9000, .data = ChainOf(Pattern(1000, 1))}));
  EXPECT_EQ(disk->used_bytes(), 10'000);
  const FileRef other = *contract::Open(engine, "other", true);
  EXPECT_FALSE(contract::Reserve(engine, other, 1));
  ASSERT_TRUE(contract::Truncate(engine, file, 4000));
  EXPECT_TRUE(contract::Reserve(engine, other, 6000));
}

TEST(MemEngine, WithoutBytesOnlyLengthsAreKept) {
  const auto disk = std::make_shared<MemDisk>(MemDiskOptions{.keeps_bytes = false});
  MemEngine engine({}, disk);
  const FileRef file = *contract::Open(engine, "file", true);
  const Bytes bytes = Pattern(1 << 20, 1);
  constexpr int64_t kFar = 10LL << 40;
  ASSERT_TRUE(contract::Append(engine, {.file = file, .offset = kFar, .data = ChainOf(bytes)}));
  EXPECT_EQ(*contract::Read(engine, {.file = file, .offset = kFar, .length = 100}), Bytes(100));
  EXPECT_FALSE(contract::Read(engine, {.file = file, .offset = kFar + (1 << 20), .length = 1}));
}

TEST(MemEngine, ACrashTearsWhatWaitsAndForgetsIt) {
  const Bytes before = Pattern(1000, 1);
  const Bytes torn = Pattern(5000, 2);
  std::vector<size_t> lengths;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    bool answered = false;
    std::shared_ptr<MemDisk> disk;
    {
      Stepped stepped;
      const FileRef file = stepped.Open("file", true);
      auto append = StartAppend(stepped.engine, {.file = file, .data = ChainOf(before)});
      stepped.engine.RunAll();
      ASSERT_TRUE(append.Wait());
      stepped.engine.Append({.file = file, .offset = 1000, .data = ChainOf(torn, 700)},
                            [&](Status) { answered = true; });
      stepped.engine.Remove("file", [&](Status) { answered = true; });
      disk = stepped.engine.Crash(seed);
      EXPECT_FALSE(stepped.engine.RunOne());
    }
    EXPECT_FALSE(answered);
    ASSERT_EQ(disk->Files(), std::vector<std::string>{"file"});
    const Bytes left = disk->Contents("file");
    ASSERT_GE(left.size(), 1000u);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), left.begin()));
    EXPECT_TRUE(std::equal(left.begin() + 1000, left.end(), torn.begin()));
    lengths.push_back(left.size());
    Stepped next(disk);  // the next life finds it
    EXPECT_NE(next.Open("file", false), nullptr);
  }
  std::sort(lengths.begin(), lengths.end());
  EXPECT_LT(lengths.front(), lengths.back());
}

TEST(MemDisk, CanLoseNamesAndTurnBytesOver) {
  MemEngine engine;
  const FileRef file = *contract::Open(engine, "a/file", true);
  const Bytes bytes = Pattern(100, 1);
  ASSERT_TRUE(contract::Append(engine, {.file = file, .data = ChainOf(bytes)}));
  engine.disk()->FlipByte("a/file", 50);
  const Bytes read = *contract::Read(engine, {.file = file, .length = 100});
  EXPECT_NE(read[50], bytes[50]);
  EXPECT_EQ(read[49], bytes[49]);
  engine.disk()->LoseNames();
  EXPECT_TRUE(engine.disk()->Folders().empty());
  EXPECT_EQ(CodeOf(contract::Open(engine, "a/file", false)), ErrorCode::kNotFound);
  EXPECT_TRUE(contract::Read(engine, {.file = file, .length = 100}));
}

// What one seed does to a fixed row of calls.
std::vector<std::string> FaultsOf(uint64_t seed) {
  MemEngine memory({.stepped = true});
  FaultOptions options{.seed = seed, .errnos = {EIO, ENOSPC}, .late_per_mille = 200};
  for (int& chance : options.fail_per_mille) chance = 300;
  options.fail_per_mille[static_cast<size_t>(Call::kOpen)] = 0;
  options.rollback_fails_per_mille = 300;
  FaultEngine faults(memory, options);
  auto open = contract::StartOpen(faults, "file", true);
  faults.RunAll();
  const FileRef file = *open.Wait();
  std::vector<std::string> results;
  for (int i = 0; i < 100; ++i) {
    const auto note = [&results, i](const auto& result) {
      results.push_back(std::to_string(i) + (result ? " fine" : ToString(result.error().code)));
    };
    faults.Append({.file = file, .offset = i * 100, .data = ChainOf(Pattern(100, 1))}, note);
    faults.Read({.file = file, .length = 1}, note);
    faults.Reserve(file, i * 200, note);
    if (i % 3 == 0) faults.RunOne();
  }
  faults.RunAll();
  for (std::string& line : faults.Log()) results.push_back(std::move(line));
  return results;
}

TEST(FaultEngine, ReplaysBySeed) {
  EXPECT_EQ(FaultsOf(5), FaultsOf(5));
  EXPECT_NE(FaultsOf(5), FaultsOf(6));
  EXPECT_GT(FaultsOf(5).size(), 350u);  // 300 results and some faults
}

class FaultOverMem : public testing::Test {
 protected:
  Status AppendNow(int64_t offset, const Bytes& bytes) {
    return contract::Append(faults_, {.file = file_, .offset = offset, .data = ChainOf(bytes)});
  }

  MemEngine memory_;
  FaultEngine faults_{memory_, {}};
  const FileRef file_ = *contract::Open(faults_, "file", true);
};

TEST_F(FaultOverMem, ATornAppendIsCutBack) {
  ASSERT_TRUE(AppendNow(0, Pattern(100, 1)));
  faults_.FailNext(Call::kAppend, EIO, 50);
  const Status status = AppendNow(100, Pattern(80, 2));
  EXPECT_EQ(CodeOf(status), ErrorCode::kIo);
  EXPECT_EQ(status.error().os_error, EIO);
  EXPECT_EQ(memory_.disk()->Contents("file"), Pattern(100, 1));
  EXPECT_TRUE(AppendNow(100, Pattern(80, 2)));
  EXPECT_EQ(faults_.Log(), std::vector<std::string>{"append 2: errno 5 after 50 bytes"});
}

TEST_F(FaultOverMem, ARollbackThatFailsLeavesTheBytes) {
  const Bytes bytes = Pattern(80, 2);
  faults_.FailNext(Call::kAppend, ENOSPC, 50, /*rollback_fails=*/true);
  const Status status = AppendNow(0, bytes);
  EXPECT_EQ(CodeOf(status), ErrorCode::kNoSpace);
  EXPECT_STREQ(status.error().where, "rollback");
  EXPECT_EQ(memory_.disk()->Contents("file"), Bytes(bytes.begin(), bytes.begin() + 50));
}

TEST_F(FaultOverMem, IsFullAfterSoManyBytes) {
  faults_.SetSpace(250);
  EXPECT_TRUE(AppendNow(0, Pattern(100, 1)));
  EXPECT_TRUE(AppendNow(100, Pattern(100, 2)));
  EXPECT_EQ(CodeOf(AppendNow(200, Pattern(51, 3))), ErrorCode::kNoSpace);
  EXPECT_EQ(memory_.disk()->Contents("file").size(), 200u);
  EXPECT_TRUE(AppendNow(200, Pattern(50, 3)));
  faults_.Heal();
  EXPECT_TRUE(AppendNow(250, Pattern(1000, 4)));
}

TEST_F(FaultOverMem, EveryKindOfCallCanFailAndLeavesNoTrace) {
  ASSERT_TRUE(AppendNow(0, Pattern(100, 1)));
  for (size_t call = 0; call < kCalls; ++call) faults_.FailAll(static_cast<Call>(call), EIO);
  EXPECT_EQ(CodeOf(contract::Open(faults_, "new", true)), ErrorCode::kIo);
  EXPECT_EQ(CodeOf(AppendNow(100, Pattern(10, 1))), ErrorCode::kIo);
  EXPECT_EQ(CodeOf(contract::Read(faults_, {.file = file_, .length = 1})), ErrorCode::kIo);
  EXPECT_EQ(CodeOf(contract::Reserve(faults_, file_, 1000)), ErrorCode::kIo);
  EXPECT_EQ(CodeOf(contract::Truncate(faults_, file_, 0)), ErrorCode::kIo);
  EXPECT_EQ(CodeOf(contract::Remove(faults_, "file")), ErrorCode::kIo);
  EXPECT_EQ(CodeOf(contract::RemoveFolder(faults_, "x")), ErrorCode::kIo);
  contract::Pending<Result<engine::SpaceInfo>> space;
  faults_.Space(space.Done());
  const Result<engine::SpaceInfo> answer = space.Wait();
  EXPECT_EQ(CodeOf(answer), ErrorCode::kIo);
  EXPECT_STREQ(answer.error().where, "space");
  EXPECT_EQ(memory_.disk()->Files(), std::vector<std::string>{"file"});
  EXPECT_EQ(memory_.disk()->Contents("file"), Pattern(100, 1));
  EXPECT_EQ(faults_.in_flight(), 0);
  faults_.Heal();
  EXPECT_TRUE(contract::Open(faults_, "new", true));
}

TEST_F(FaultOverMem, WhatHangsWaitsForItsDeadlineOrForBeingLetGo) {
  faults_.HangAll(Call::kAppend);
  auto hung = StartAppend(faults_, {.file = file_, .data = ChainOf(Pattern(10, 1))});
  engine::AppendRequest timed{.file = file_, .data = ChainOf(Pattern(10, 2))};
  timed.deadline = std::chrono::steady_clock::now() + Milliseconds(5);
  EXPECT_EQ(CodeOf(contract::Append(faults_, std::move(timed))), ErrorCode::kTimeout);
  EXPECT_FALSE(hung.Ready());
  EXPECT_EQ(faults_.hanging(), 1);
  EXPECT_EQ(faults_.in_flight(), 1);
  faults_.LetGo();
  EXPECT_TRUE(hung.Wait());
  EXPECT_EQ(memory_.disk()->Contents("file"), Pattern(10, 1));
}

TEST(FaultEngine, WhatStillHangsAtTheStopIsLeftBehind) {
  static MemEngine* const memory = new MemEngine();  // leaked with the engine on it
  static FaultEngine* const faults = new FaultEngine(*memory, {});
  const FileRef file = *contract::Open(*faults, "file", true);
  faults->HangAll(Call::kRead);
  bool answered = false;
  faults->Read({.file = file, .length = 1}, [&](const auto&) { answered = true; });
  EXPECT_FALSE(faults->Stop(std::chrono::steady_clock::now()));
  EXPECT_EQ(faults->in_flight(), 1);
  faults->LetGo();
  EXPECT_FALSE(answered);
}

TEST(FaultEngine, LateCompletionsChangeTheOrder) {
  MemEngine memory({.stepped = true});
  FaultEngine faults(memory, {.late_per_mille = 500});
  std::vector<int> order;
  for (int i = 0; i < 50; ++i) {
    faults.Remove("x", [&order, i](Status) { order.push_back(i); });
  }
  memory.RunAll();  // in order, but for those held back
  EXPECT_GT(order.size(), 5u);
  EXPECT_LT(order.size(), 45u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  faults.RunAll();
  ASSERT_EQ(order.size(), 50u);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

}  // namespace
}  // namespace dovetail::fakes
