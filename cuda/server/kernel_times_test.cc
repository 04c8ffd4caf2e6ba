#include "server/kernel_times.h"

#include <gtest/gtest.h>

namespace partita::remote::server {
namespace {

TEST(KernelTimes, TheRequestThatComesMostOftenByMedians) {
  KernelTimes times;
  EXPECT_TRUE(times.request().empty());
  times.add({"setup", {}, 1000});
  times.request_ended();
  times.request_ended();  // nothing ran
  for (const double us : {3.0, 90.0, 5.0}) {
    times.add({"gemm", "8x1x1", us});
    times.add({"relu", {}, 1});
    times.add({"gemm", "4x1x1", us + 1});
    times.request_ended();
  }
  times.add({"gemm", "8x1x1", 1});
  times.add({"relu", {}, 1});
  times.add({"gemm", "2x1x1", 1});  // another shape: another request
  times.request_ended();
  times.add({"gemm", {}, 1});  // not ended
  const auto request = times.request();
  ASSERT_EQ(request.size(), 3u);
  EXPECT_EQ(request[0].name, "gemm");
  EXPECT_EQ(request[0].us, 5);
  EXPECT_EQ(request[1].name, "relu");
  EXPECT_EQ(request[2].us, 6);
}

TEST(KernelTimes, WhatTheHostNeedsBeforeAKernelIsTheMedianOfThoseKnown) {
  KernelTimes times;
  for (const double gap : {-1.0, 300.0, 250.0, 9000.0}) {
    times.add({"a", {}, 10, gap < 0 ? std::nullopt : std::optional(gap)});
    times.add({"b", {}, 20, 2});
    times.request_ended();
  }
  const auto request = times.request();
  ASSERT_EQ(request.size(), 2u);
  EXPECT_EQ(request[0].gap_us, 300);
  EXPECT_EQ(request[1].gap_us, 2);
}

TEST(KernelTimes, OfLaunchesTheGapIsFromTheEndOfTheOneBefore) {
  std::vector<TimedKernel> told;
  {
    LaunchTimes times([&](const std::vector<TimedKernel>& all) { told = all; });
    std::int64_t now = 5'000;
    for (int request = 0; request < 3; ++request) {
      for (const char* kernel : {"a", "b"}) {
        const auto stamps = times.next(kernel, {});
        stamps->begun = now + (kernel[0] == 'a' ? 40'000 : -1'000);  // b begins before a's end
        now = stamps->begun + 100'000;
        stamps->ended = now;
      }
      times.request_ended();
    }
  }
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].gap_us, 40);
  EXPECT_EQ(told[1].gap_us, 0);
  EXPECT_EQ(told[1].us, 100);
}

}  // namespace
}  // namespace partita::remote::server
