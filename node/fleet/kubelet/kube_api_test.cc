#include "fleet/kubelet/kube_api.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/testing/deaf_server.h"

namespace partita::dra {
namespace {

// What a server says that hangs, or that a proxy still speaks for: a head, an event, and no end.
constexpr const char* kBegun =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"type\":\"ADDED\"}\n";

// How long a watch of so many seconds lasts; 10 s pass between its looks.
std::int64_t watched_s(int seconds) {
  DeafServer server;
  const std::jthread thread([&](const std::stop_token& end) { server.serve(end, kBegun); });
  MemoryFiles files;
  ManualClock clock;
  const auto api = KubeApi::to({server.url(), "", ""}, files, clock);
  EXPECT_TRUE(api) << to_string(api.error());
  int events = 0;
  const auto status =
      api->watch("/things?labelSelector=a%3Db", "7", seconds, [&](std::string_view line) {
        if (!line.empty()) ++events;
        if (events > 0) clock.now += 10'000'000'000;
        return clock.now < 10'000'000'000'000;
      });
  EXPECT_TRUE(status && *status == 200) << "an end, and no fault";
  EXPECT_EQ(events, 1);
  return clock.now / 1'000'000'000;
}

TEST(KubeApi, AWatchEndsWhenItWasToWhoeverSaysSo) { EXPECT_EQ(watched_s(50), 60); }
TEST(KubeApi, AWatchThatSaysNothingEndsBefore) { EXPECT_EQ(watched_s(100'000), 90); }

}  // namespace
}  // namespace partita::dra
