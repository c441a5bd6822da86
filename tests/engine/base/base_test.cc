#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/executor.h"
#include "engine/base/gate.h"
#include "engine/base/ticker.h"

namespace dovetail {
namespace {

TEST(Arena, CellsAreLargeEnoughAndWasteAtMostAQuarter) {
  for (size_t bytes = 1; bytes <= Arena::kCellBytesMax; bytes += 37) {
    const size_t cell = Arena::CellBytes(bytes);
    ASSERT_GE(cell, bytes);
    if (bytes >= Arena::kCellBytesMin) {
      ASSERT_LE(cell, bytes + bytes / 4 + 1) << bytes;
    }
  }
  EXPECT_EQ(Arena::CellBytes(Arena::kCellBytesMax), Arena::kCellBytesMax);
  EXPECT_EQ(Arena::CellBytes(1024), 1024u);
  EXPECT_EQ(Arena::CellBytes(1025), 1280u);
}

TEST(Arena, LiveCellsNeverOverlap) {
  Arena arena;
  std::mt19937 random(3);
  struct Live {
    Arena::Cell cell;
    unsigned char mark;
  };
  std::vector<Live> live;
  for (int i = 0; i < 20'000; ++i) {
    if (live.size() < 300 && random() % 2) {
      const Arena::Cell cell = arena.Allocate(1 + random() % Arena::kCellBytesMax);
      const auto mark = static_cast<unsigned char>(random());
      std::memset(cell.data, mark, cell.size);
      live.push_back({cell, mark});
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      const Live& last = live.back();
      for (size_t at = 0; at < last.cell.size; at += 509) {
        ASSERT_EQ(std::to_integer<unsigned char>(last.cell.data[at]), last.mark);
      }
      arena.Free(last.cell);
      live.pop_back();
    }
  }
  for (const Live& left : live) arena.Free(left.cell);
  EXPECT_EQ(arena.used_bytes(), 0);
}

TEST(Arena, SlabsAreRecycledAcrossClasses) {
  Arena arena;
  for (int round = 0; round < 20; ++round) {
    std::vector<Arena::Cell> cells;
    const size_t bytes = Arena::kCellBytesMin << (round % 9);
    for (size_t taken = 0; taken < (60u << 20); taken += bytes)
      cells.push_back(arena.Allocate(bytes));
    for (const Arena::Cell& cell : cells) arena.Free(cell);
  }
  // One round fits into one region of 64 MiB; a few slabs stay with their former classes.
  EXPECT_LE(arena.reserved_bytes(), 128 << 20);
}

TEST(Arena, ThreadsMayFreeWhatOthersTook) {
  Arena arena;
  std::vector<Arena::Cell> cells(4000);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < cells.size(); i += 4) cells[i] = arena.Allocate(1 + i * 7 % 9000);
    });
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = (t + 1) % 4; i < cells.size(); i += 4) arena.Free(cells[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.used_bytes(), 0);
}

TEST(ArenaDeathTest, FreeingTwiceIsCaught) {
  EXPECT_DEATH(
      {
        Arena arena;
        const Arena::Cell cell = arena.Allocate(5000);
        arena.Free(cell);
        arena.Free(cell);
      },
      "CHECK failed");
}

TEST(Gate, ExactlyOnePartyIsTheLast) {
  Gate quiet;
  EXPECT_EQ(quiet.Close(), Gate::Closing::kEmpty);
  EXPECT_EQ(quiet.Close(), Gate::Closing::kAlreadyClosed);
  EXPECT_FALSE(quiet.Enter());

  for (int round = 0; round < 200; ++round) {
    Gate gate;
    std::atomic<int> last{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        while (gate.Enter()) {
          if (gate.Leave()) ++last;
        }
      });
    }
    threads.emplace_back([&] {
      if (gate.Close() == Gate::Closing::kEmpty) ++last;
    });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(last.load(), 1);
  }
}

TEST(Executor, RunsEverythingThatWasPostedBeforeStop) {
  std::atomic<int> ran{0};
  Executor executor("test", 3);
  for (int i = 0; i < 1000; ++i) executor.Post([&] { ++ran; });
  executor.Stop();
  EXPECT_EQ(ran.load(), 1000);
  executor.Post([&] { ++ran; });
  EXPECT_EQ(ran.load(), 1001);
}

TEST(Ticker, RunsInOrderOfTimeAndAgainAndAgain) {
  std::mutex mutex;
  std::vector<int> order;
  std::atomic<int> beats{0};
  Ticker ticker;
  const TimePoint now = std::chrono::steady_clock::now();
  const auto note = [&](int value) {
    return [&, value] {
      std::lock_guard lock(mutex);
      order.push_back(value);
    };
  };
  ticker.RunAt(now + Milliseconds(60), note(3));
  ticker.RunAt(now + Milliseconds(20), note(1));
  ticker.RunAt(now + Milliseconds(40), note(2));
  ticker.RunEvery(Milliseconds(5), [&] { ++beats; });
  while (beats.load() < 20) std::this_thread::sleep_for(Milliseconds(1));
  ticker.Stop();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

}  // namespace
}  // namespace dovetail
