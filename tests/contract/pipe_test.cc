// Files into pipes: exact bytes, their ends, and pages that direct appends have gone past.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <random>
#include <thread>

#include "tests/contract/engine_suite.h"

namespace dovetail::contract {
namespace {

using engine::FileRef;
using engine::IoMode;

ErrorCode CodeOf(const auto& result) { return result.error().code; }

// Both ends, closed at the end.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~Pipe() {
    CloseRead();
    close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int write_end() const { return ends_[1]; }
  int64_t room() const { return fcntl(ends_[1], F_GETPIPE_SZ); }
  void CloseRead() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }
  // What is in it.
  Bytes Drain() const {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    Bytes all;
    Bytes some(64 << 10);
    while (true) {
      const ssize_t count = read(ends_[0], some.data(), some.size());
      if (count <= 0) return all;
      all.insert(all.end(), some.begin(), some.begin() + count);
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

class PipeContract : public EngineSuite {
 protected:
  engine::PipeRequest PipeOf(const FileRef& file, int64_t offset, int64_t length,
                             const Pipe& pipe) const {
    return {.file = file, .offset = offset, .length = length, .pipe = pipe.write_end()};
  }
  Status ToPipe(engine::PipeRequest request) {
    Pending<Status> pending;
    engine().ToPipe(std::move(request), pending.Done());
    return pending.Wait();
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, PipeContract, testing::ValuesIn(SubjectKinds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(PipeContract, ExactlyTheRange) {
  const FileRef file = Create();
  const Bytes bytes = Pattern(RoundUp(file, 300'000), 1);
  ASSERT_TRUE(AppendNow(file, 0, bytes));
  const auto size = static_cast<int64_t>(bytes.size());
  for (const auto& [offset, length] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 1},
                                                {0, 65'536},
                                                {1, 4095},
                                                {4095, 2},
                                                {4096, 4096},
                                                {12'345, 50'001},
                                                {size - 1, 1},
                                                {size - 40'000, 40'000}}) {
    const Pipe pipe;
    ASSERT_TRUE(ToPipe(PipeOf(file, offset, length, pipe))) << offset << " " << length;
    const Bytes moved = pipe.Drain();
    ASSERT_EQ(moved.size(), static_cast<size_t>(length)) << offset;
    ASSERT_TRUE(std::equal(moved.begin(), moved.end(), bytes.begin() + offset)) << offset;
  }
}

TEST_P(PipeContract, AnyLengthInPieces) {
  const FileRef file = Create();
  const Bytes bytes = Pattern(RoundUp(file, 2'000'003), 2);
  ASSERT_TRUE(AppendNow(file, 0, bytes));
  const Pipe pipe;
  Bytes all;
  // Pages of a pipe are not shared between two ranges, so less than its room fits at odd offsets.
  const int64_t step = pipe.room() - 4096;
  for (auto at = int64_t{0}; at < static_cast<int64_t>(bytes.size()); at += step) {
    const int64_t length = std::min(step, static_cast<int64_t>(bytes.size()) - at);
    ASSERT_TRUE(ToPipe(PipeOf(file, at, length, pipe)));
    const Bytes moved = pipe.Drain();
    all.insert(all.end(), moved.begin(), moved.end());
  }
  EXPECT_TRUE(all == bytes);
}

TEST_P(PipeContract, PastTheEndIsAnError) {
  const FileRef file = Create();
  ASSERT_TRUE(Reserve(engine(), file, 1 << 20));
  const Bytes bytes = Pattern(RoundUp(file, 5000), 1);
  ASSERT_TRUE(AppendNow(file, 0, bytes));
  const auto size = static_cast<int64_t>(bytes.size());
  const Pipe pipe;
  for (const auto& [offset, length] :
       std::vector<std::pair<int64_t, int64_t>>{{size, 1}, {0, size + 1}, {size - 1, 2}}) {
    const Status status = ToPipe(PipeOf(file, offset, length, pipe));
    ASSERT_FALSE(status);
    EXPECT_EQ(CodeOf(status), ErrorCode::kCorrupt);
    EXPECT_STREQ(status.error().where, "end");
  }
  EXPECT_TRUE(pipe.Drain().empty());
}

TEST_P(PipeContract, RequestsThatBreakARuleAreInvalid) {
  const FileRef file = Create();
  ASSERT_TRUE(AppendNow(file, 0, Pattern(RoundUp(file, 100), 1)));
  const Pipe pipe;
  EXPECT_EQ(CodeOf(ToPipe(PipeOf(nullptr, 0, 1, pipe))), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(ToPipe(PipeOf(file, -1, 1, pipe))), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(ToPipe(PipeOf(file, 0, 0, pipe))), ErrorCode::kInvalid);
  EXPECT_EQ(CodeOf(ToPipe({.file = file, .offset = 0, .length = 1})), ErrorCode::kInvalid);
}

TEST_P(PipeContract, APipeThatNobodyReadsIsAnErrorAndNoSignal) {
  const FileRef file = Create();
  ASSERT_TRUE(AppendNow(file, 0, Pattern(RoundUp(file, 5000), 1)));
  Pipe pipe;
  pipe.CloseRead();
  for (int i = 0; i < 3; ++i) {
    const Status status = ToPipe(PipeOf(file, 0, 5000, pipe));
    ASSERT_FALSE(status);
    EXPECT_EQ(CodeOf(status), ErrorCode::kIo);
    EXPECT_EQ(status.error().os_error, EPIPE);
  }
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST_P(PipeContract, PastTheDeadlineNothingIsMoved) {
  const FileRef file = Create();
  ASSERT_TRUE(AppendNow(file, 0, Pattern(RoundUp(file, 5000), 1)));
  const Pipe pipe;
  auto request = PipeOf(file, 0, 5000, pipe);
  request.deadline = std::chrono::steady_clock::now() - Milliseconds(1);
  EXPECT_EQ(CodeOf(ToPipe(std::move(request))), ErrorCode::kTimeout);
  EXPECT_TRUE(pipe.Drain().empty());
}

TEST_P(PipeContract, AfterStopItSaysShutdown) {
  const FileRef file = Create();
  ASSERT_TRUE(AppendNow(file, 0, Pattern(RoundUp(file, 10), 1)));
  ASSERT_TRUE(engine().Stop(TimePoint::max()));
  const Pipe pipe;
  EXPECT_EQ(CodeOf(ToPipe(PipeOf(file, 0, 1, pipe))), ErrorCode::kShutdown);
}

// Ranges that are committed are read through the page cache and spliced while appends of this mode
// go on behind them in the same file: whoever reads sees what was written, never an older page.
TEST_P(PipeContract, ReadsAndPipesBesideAppendsOfTheSameFile) {
  constexpr int kGroups = 60;
  const FileRef file = Create();
  const int64_t group = RoundUp(file, 100'000);
  ASSERT_TRUE(Reserve(engine(), file, kGroups * group));
  const Bytes bytes = Pattern(kGroups * group, 5);
  std::atomic<int64_t> committed = 0;
  std::atomic<bool> wrong = false;
  const auto range_of = [&](std::mt19937_64& random, int64_t most) {
    const int64_t end = committed.load();
    // Near the end more often than not, where pages are fresh.
    const int64_t from = random() % 4 == 0 ? 0 : std::max<int64_t>(0, end - 2 * group);
    const auto offset = from + static_cast<int64_t>(random() % static_cast<uint64_t>(end - from));
    return std::pair(offset, std::min(end - offset, most));
  };
  const auto check = [&](const Bytes& seen, int64_t offset, int64_t length) {
    if (seen.size() != static_cast<size_t>(length) ||
        !std::equal(seen.begin(), seen.end(), bytes.begin() + offset)) {
      wrong = true;
    }
  };
  const auto go_on = [&] { return committed.load() < kGroups * group && !wrong; };
  std::thread reader([&] {
    std::mt19937_64 random(1);
    while (go_on()) {
      if (committed == 0) continue;
      const auto [offset, length] = range_of(random, 150'000);
      const Result<Bytes> read = Read(engine(), {.file = file, .offset = offset, .length = length});
      if (!read) wrong = true;
      if (read) check(*read, offset, length);
    }
  });
  std::thread piper([&] {
    std::mt19937_64 random(2);
    while (go_on()) {
      if (committed == 0) continue;
      const Pipe pipe;
      const auto [offset, length] = range_of(random, pipe.room() - 4096);
      if (!ToPipe(PipeOf(file, offset, length, pipe))) wrong = true;
      check(pipe.Drain(), offset, length);
    }
  });
  for (int i = 0; i < kGroups; ++i) {
    const Bytes part(bytes.begin() + i * group, bytes.begin() + (i + 1) * group);
    if (!AppendNow(file, i * group, part, 7000)) wrong = true;
    committed += group;
  }
  reader.join();
  piper.join();
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace dovetail::contract
