#include "server/answer_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace dovetail::server {
namespace {

class AnswerWatchTest : public testing::Test {
 protected:
  using Answer = std::shared_ptr<AnswerWatch::Answer>;

  void Pass(int64_t ms) { now_.store(now_.load() + ms); }

  MetricsRegistry registry_;
  Counter& cut_ = registry_.AddCounter("dovetail_answers_cut_total", "Answers given up");
  std::atomic<int64_t> now_{0};
  AnswerWatch watch_{Milliseconds(100), cut_, [this] { return TimePoint(Milliseconds(now_)); }};
};

TEST_F(AnswerWatchTest, OnlyWhatIsOverdueOnce) {
  int first = 0;
  int second = 0;
  const Answer one = watch_.Begin([&] { ++first; });
  Pass(60);
  const Answer two = watch_.Begin([&] { ++second; });
  Pass(40);
  watch_.CutOverdue();
  EXPECT_EQ(first, 0) << "exactly the timeout is not longer";
  Pass(1);
  watch_.CutOverdue();
  watch_.CutOverdue();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  watch_.End(*one);
  Pass(1000);
  watch_.CutOverdue();
  EXPECT_EQ(second, 1);
  EXPECT_EQ(cut_.Value(), 2);
  watch_.End(*two);
}

TEST_F(AnswerWatchTest, WhatIsOverIsLeftAlone) {
  int cut = 0;
  const Answer answer = watch_.Begin([&] { ++cut; });
  watch_.End(*answer);
  Pass(1000);
  watch_.CutOverdue();
  EXPECT_EQ(cut, 0);
  EXPECT_EQ(cut_.Value(), 0);
}

TEST_F(AnswerWatchTest, ACancelMayEndItsOwnAnswer) {
  Answer answer;
  answer = watch_.Begin([&] { watch_.End(*answer); });
  Pass(101);
  watch_.CutOverdue();
  EXPECT_EQ(cut_.Value(), 1);
}

TEST_F(AnswerWatchTest, ACancelMayEndOthersThatAreOverdueToo) {
  int second = 0;
  Answer one;
  Answer two;
  one = watch_.Begin([&] {
    watch_.End(*one);
    watch_.End(*two);
  });
  two = watch_.Begin([&] { ++second; });
  Pass(101);
  watch_.CutOverdue();
  EXPECT_EQ(second, 0) << "what it needs may be gone";
  EXPECT_EQ(cut_.Value(), 1);
}

// What a cancel needs goes with End, so that must not return in the middle of one.
TEST_F(AnswerWatchTest, EndWaitsForACancel) {
  std::promise<void> begun;
  std::promise<void> go_on;
  std::atomic<bool> done{false};
  const Answer answer = watch_.Begin([&] {
    begun.set_value();
    go_on.get_future().wait();
    done.store(true);
  });
  Pass(101);
  std::jthread ticker([&] { watch_.CutOverdue(); });
  begun.get_future().wait();
  auto ended = std::async(std::launch::async, [&] {
    watch_.End(*answer);
    return done.load();
  });
  EXPECT_EQ(ended.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  go_on.set_value();
  EXPECT_TRUE(ended.get());
}

TEST_F(AnswerWatchTest, ManyThreads) {
  std::atomic<bool> stop{false};
  std::jthread ticker([&] {
    while (!stop.load()) {
      Pass(60);
      watch_.CutOverdue();
    }
  });
  std::vector<std::jthread> calls;
  for (int thread = 0; thread < 4; ++thread) {
    calls.emplace_back([&] {
      for (int i = 0; i < 2'000; ++i) {
        // Gone right after End, like the context of a call.
        auto context = std::make_unique<int>(0);
        const Answer answer = watch_.Begin([context = context.get()] { ++*context; });
        if (i % 8 == 0) std::this_thread::yield();
        watch_.End(*answer);
      }
    });
  }
  calls.clear();
  stop.store(true);
}

}  // namespace
}  // namespace dovetail::server
