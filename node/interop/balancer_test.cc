// What a balancer's file cannot hold; what HAProxy and nginx think of the rest is asked of them in
// tests/cli/balancer_test.py.
#include "interop/balancer.h"

#include <gtest/gtest.h>

namespace partita::interop {
namespace {

std::vector<std::string> names_of(const BalancedServices& services) {
  std::vector<std::string> names;
  for (const BalancedService& one : services) names.push_back(one.name);
  return names;
}

TEST(Balancer, WhatOneCannotHoldIsLeftOutAndTheRestIsWritten) {
  const BalancedServices all{{.name = "Chat", .nodes = {{"n1", "10.0.0.1:80", "n1.lan:81", 1}}},
                             {.name = "a b"},
                             {.name = "chat", .nodes = {{"n1", "10.0.0.1", "[fd00::1]:81", 1}}}};
  using enum BalancerKind;
  for (const BalancerKind kind : {haproxy, nginx, envoy}) {
    BalancedServices left = all;
    const auto why = leave_out_unfit(left, kind);
    EXPECT_EQ(why.size(), kind == envoy ? 3U : 2U);
    // nginx compares names without regard to case, and refuses a whole file that has both.
    EXPECT_EQ(names_of(left), kind == nginx ? std::vector<std::string>{"Chat"}
                                            : (std::vector<std::string>{"Chat", "chat"}));
    EXPECT_EQ(left[0].nodes[0].http, "10.0.0.1:80");
    EXPECT_EQ(left[0].nodes[0].grpc, kind == envoy ? "" : "n1.lan:81");
    EXPECT_TRUE(leave_out_unfit(left, kind).empty());
    EXPECT_TRUE(kind == haproxy ? haproxy_config(left, {})
                : kind == nginx ? nginx_config(left, {})
                                : envoy_endpoints(left));
    EXPECT_FALSE(kind == haproxy ? haproxy_config(all, {})
                 : kind == nginx ? nginx_config(all, {})
                                 : envoy_endpoints(all));
  }
}

}  // namespace
}  // namespace partita::interop
