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

}  // namespace
}  // namespace partita::remote::server
