#include "base/door/loop.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

namespace partita::serve {
namespace {

constexpr std::int64_t kMs = 1'000'000;

struct LoopPair {
  std::array<int, 2> ends{-1, -1};
  LoopPair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0); }
  ~LoopPair() {
    for (const int fd : ends) ::close(fd);
  }
};

TEST(LoopTest, TimersFireInOrderOfTheirTimesAndNeverEarly) {
  const auto loop = Loop::make().value();
  const std::int64_t start = Loop::now_ns();
  std::vector<std::int64_t> fired;
  const auto note = [&](std::int64_t due) {
    EXPECT_GE(Loop::now_ns(), due);
    fired.push_back((due - start) / kMs);
    if (fired.size() == 3) loop->stop();
  };
  Loop::Timer a(*loop, note), b(*loop, note), c(*loop, note), d(*loop, note);
  a.at(start + 6 * kMs);
  b.at(start + 2 * kMs);
  c.at(start + 1 * kMs);
  c.at(start + 4 * kMs);  // moved
  d.at(start + 3 * kMs);
  d.cancel();
  EXPECT_FALSE(d.pending());
  loop->run();
  EXPECT_EQ(fired, (std::vector<std::int64_t>{2, 4, 6}));
  EXPECT_GE(Loop::now_ns(), start + 6 * kMs);
}

TEST(LoopTest, ATimerMaySetItselfAgainAndEndsWithItsHandle) {
  const auto loop = Loop::make().value();
  int count = 0;
  std::optional<Loop::Timer> timer;
  timer.emplace(*loop, [&](std::int64_t due) {
    if (++count < 5) return timer->at(due + 100'000);
    timer.reset();
    loop->post([&] { loop->stop(); });
  });
  timer->at(0);  // gone by: at once
  loop->run();
  EXPECT_EQ(count, 5);
}

TEST(LoopTest, RunUntilReturnsAtItsTime) {
  const auto loop = Loop::make().value();
  const std::int64_t end = Loop::now_ns() + 3 * kMs;
  loop->run_until(end);
  EXPECT_GE(Loop::now_ns(), end);
}

TEST(LoopTest, ItIsNotAwakeWhileItStandsStill) {
  const auto loop = Loop::make().value();
  Loop::Timer timer(*loop, [&](std::int64_t) { timer.at(Loop::now_ns() + 10 * kMs); });
  timer.at(0);  // long gone by: nobody stood still since
  loop->run_until(Loop::now_ns() + 20 * kMs);
  const std::int64_t begin = Loop::now_ns(), awake = loop->awake_ns();
  EXPECT_GT(awake, begin - 10'000 * kMs);
  loop->post([] { std::this_thread::sleep_for(std::chrono::milliseconds(600)); });
  loop->run_until(begin + 650 * kMs);
  EXPECT_LE(loop->awake_ns() - awake, Loop::now_ns() - begin - 550 * kMs);
}

TEST(LoopTest, AWatchIsCalledUntilItEndsAlsoFromInside) {
  const auto loop = Loop::make().value();
  LoopPair first, second;
  std::string seen;
  Loop::Watch a, b;
  // Both are readable in the same turn; whoever comes first ends the other, and itself.
  a = loop->watch(first.ends[0], [&](Readiness) { seen += 'a', b.reset(), a.reset(); });
  b = loop->watch(second.ends[0], [&](Readiness) { seen += 'b', a.reset(), b.reset(); });
  ASSERT_EQ(::write(first.ends[1], "x", 1), 1);
  ASSERT_EQ(::write(second.ends[1], "x", 1), 1);
  loop->run_until(Loop::now_ns() + 3 * kMs);
  EXPECT_EQ(seen.size(), 1u);
}

TEST(LoopTest, WantSaysWhatAWatchIsCalledFor) {
  const auto loop = Loop::make().value();
  LoopPair pair;
  int readable = 0, writable = 0;
  Loop::Watch watch = loop->watch(pair.ends[0], [&](Readiness is) {
    readable += is.readable;
    writable += is.writable;
    if (is.writable) watch.want(true, false);
    if (is.readable) watch.want(false, false);
  });
  ASSERT_EQ(::write(pair.ends[1], "x", 1), 1);
  watch.want(false, true);
  for (int i = 0; i < 10'000 && readable == 0; ++i) loop->run_until(Loop::now_ns() + kMs);
  loop->run_until(Loop::now_ns() + 3 * kMs);  // and not once more
  EXPECT_EQ(writable, 1);
  EXPECT_EQ(readable, 1);
}

TEST(LoopTest, PostedFunctionsOfOtherThreadsRunInOrder) {
  const auto loop = Loop::make().value();
  std::vector<int> seen;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) loop->post([&seen, i] { seen.push_back(i); });
    loop->post([&] { loop->stop(); });
  });
  loop->run();
  other.join();
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST(LoopTest, SignalsArriveAsCalls) {
  const auto loop = Loop::make().value();
  int got = 0;
  ASSERT_TRUE(loop->on_signals({SIGUSR1}, [&](int signal) {
    got = signal;
    loop->stop();
  }));
  ASSERT_EQ(::pthread_kill(::pthread_self(), SIGUSR1), 0);
  loop->run();
  EXPECT_EQ(got, SIGUSR1);
}

}  // namespace
}  // namespace partita::serve
