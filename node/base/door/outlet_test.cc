#include "base/door/outlet.h"

#include <gtest/gtest.h>

#include "base/door/chunked_body.h"
#include "base/door/testing/test_pair.h"

namespace partita::serve {
namespace {

TEST(ReplyHead, HasTheFormOfRfc9112) {
  const Reply reply{.status = 404, .headers = "X: y\r\n", .text = "{}"};
  EXPECT_EQ(reply_head(reply, {.date = "Date: d\r\n"}),
            "HTTP/1.1 404 Not Found\r\nDate: d\r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\nX: y\r\n\r\n");
  EXPECT_EQ(reply_head({.status = 200}, {.keep_alive = false}),
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(reply_head({.status = 304}, {.http10 = true}),
            "HTTP/1.1 304 Not Modified\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(reply_head({.status = 299, .content_type = "text/plain"},
                       {.chunked = true, .with_length = false}),
            "HTTP/1.1 299 Status\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
            "Cache-Control: no-cache\r\n\r\n");
}

TEST(Outlet, WritesTextAndSpansInTheirOrderThoughTheOtherSideIsSlow) {
  test::Pair pair;
  Outlet outlet(pair.transport);
  std::string first(3'000'000, 'a'), second(1'000'000, 'b');
  const std::vector<iovec> spans = {
      {first.data(), first.size()}, {nullptr, 0}, {second.data(), second.size()}};
  EXPECT_EQ(outlet.begin("head", spans), 4'000'004U);
  std::string got;
  for (int turns = 0; outlet.send() != Outlet::Sent::all && turns < 1000; ++turns) {
    EXPECT_TRUE(outlet.blocked());
    got += pair.fetch();
    outlet.ready();
  }
  for (std::string more = pair.fetch(); !more.empty(); more = pair.fetch()) got += more;
  EXPECT_TRUE(got == "head" + first + second);
  EXPECT_EQ(outlet.bytes(), got.size());
}

// The body's reader is the oracle: what was put comes out of its chunks.
TEST(Outlet, AStreamIsWhatWasPutAndEndsWhenItSaysSo) {
  for (const bool chunked : {true, false}) {
    test::Pair pair;
    Outlet outlet(pair.transport);
    std::string got, put;
    for (int i = 0; i < 100; ++i) {
      const std::string piece(static_cast<std::size_t>(i * 37 % 50),
                              static_cast<char>('a' + i % 9));
      put += piece;
      outlet.put_piece(piece, chunked);
      if (i % 3 == 0) {
        EXPECT_EQ(outlet.send_some(), Outlet::Sent::all);
        EXPECT_EQ(outlet.waiting(), 0U);
      }
    }
    outlet.end_stream(chunked);
    EXPECT_EQ(outlet.send(), Outlet::Sent::all);
    got = pair.fetch();
    if (chunked) {
      ChunkedBody body;
      std::string taken(got.size(), '\0');
      taken.resize(body.take(got, taken).body);
      EXPECT_TRUE(body.ended());
      got = taken;
    }
    EXPECT_EQ(got, put);
  }
}

TEST(Outlet, SaysThatTheOtherSideHasGone) {
  test::Pair pair;
  Outlet outlet(pair.transport);
  pair.leave();
  outlet.put("x");
  EXPECT_EQ(outlet.send_some(), Outlet::Sent::broken);
  outlet.begin("x", {});
  EXPECT_EQ(outlet.send(), Outlet::Sent::broken);
}

}  // namespace
}  // namespace partita::serve
