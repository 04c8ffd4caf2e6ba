#include "base/http/http_stream.h"

#include <gtest/gtest.h>

#include "base/testing/deaf_server.h"

namespace partita::serve {
namespace {

// A connection that stands and is never answered: neither an end nor TCP says that.
TEST(HttpStream, AnAnswerThatDoesNotBeginIsNotWaitedForAsOneThatIsSilent) {
  const DeafServer server;
  const auto url = parse_url_prefix("server", server.url());
  ASSERT_TRUE(url);
  const auto dialer = HttpDialer::to(*url, {});
  ASSERT_TRUE(dialer);
  ManualClock clock;
  const auto done = fetch_pieces(*dialer, dialer->request("GET", "/"), clock, 900'000'000'000,
                                 [&](int, std::string_view) {
                                   clock.now += 5'000'000'000;
                                   return clock.now < 900'000'000'000;
                                 });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "no answer in time");
  EXPECT_EQ(clock.now, kMostUnanswered);
}

}  // namespace
}  // namespace partita::serve
