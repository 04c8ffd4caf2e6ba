#include "profile/kernel_trace.h"

#include <gtest/gtest.h>

namespace partita::profile {
namespace {

TEST(KernelTrace, RocprofOfBothKinds) {
  const auto older =
      parse_rocprof("r.csv",
                    "\"Index\",\"KernelName\",\"BeginNs\",\"EndNs\"\n"
                    "0,\"gemm(float*, int) [clone .kd]\",2000,5000\n1,_Z4reluPf.kd,0,1500\n");
  ASSERT_TRUE(older) << to_string(older.error());
  EXPECT_EQ(*older, (KernelTrace{{"_Z4reluPf", 0, 1.5}, {"gemm(float*, int)", 2, 3}}));
  const auto newer = parse_rocprof(
      "r.csv", "Kind,Kernel_Name,Start_Timestamp,End_Timestamp\nKERNEL_DISPATCH,relu,0,1500\n");
  ASSERT_TRUE(newer);
  EXPECT_EQ(*newer, (KernelTrace{{"relu", 0, 1.5}}));
}

TEST(KernelTrace, RocprofRefusals) {
  EXPECT_EQ(parse_rocprof("r.csv", "a,b\n1,2\n").error().context, "r.csv:1");
  EXPECT_EQ(parse_rocprof("r.csv", "KernelName,BeginNs,EndNs\nk,5,4\n").error().context, "r.csv:2");
  EXPECT_FALSE(parse_rocprof("r.csv", "KernelName,BeginNs,EndNs\nk,x,4\n"));
}

TEST(KernelTrace, TheRequestThatRepeatsByMedians) {
  KernelTrace trace{{"setup", 0, 100}};
  for (const double us : {1.0, 9.0, 3.0}) {
    trace.push_back({"a", 0, us});
    trace.push_back({"b,c", 0, 2});
  }
  const auto csv = traced_request_csv("t", trace, 32);
  ASSERT_TRUE(csv);
  EXPECT_EQ(*csv, "index,kernel,units,time_us\n0,a,32,3.000\n1,\"b,c\",32,2.000\n");
  EXPECT_FALSE(traced_request_csv("t", {{"a", 0, 1}, {"b", 1, 1}}, 32));
}

}  // namespace
}  // namespace partita::profile
