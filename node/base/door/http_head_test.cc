#include "base/door/http_head.h"

#include <gtest/gtest.h>

#include <vector>

namespace partita::serve {
namespace {

// What a head says is a view of its text: nothing else would live as long.
TEST(HttpHead, ViewsAreOfTheTextOrTheHeadIsRefused) {
  const std::string good =
      "PUT /v1/mode HTTP/1.1\r\nHost: a:1\r\nAuthorization: Bearer x\r\nOrigin: http://a:1\r\n"
      "Accept-Encoding: gzip\r\nLast-Event-ID: 7\r\n\r\n";
  const auto head = parse_http_head(good);
  ASSERT_TRUE(head.has_value());
  for (const std::string_view view :
       {head->method_name, head->target, head->host, head->authorization, head->origin,
        head->accept_encoding, std::string_view(head->last_event_id)}) {
    EXPECT_GE(view.data(), good.data());
    EXPECT_LE(view.data() + view.size(), good.data() + good.size());
    EXPECT_FALSE(view.empty());
  }
}

TEST(HttpHead, FoldedHeadersAreRefusedWhereverTheyAre) {
  for (const std::string line :
       {"Host:/1.0\r\n evil.ex", "Host: a\r\n\tb", "Authorization: Bearer\r\n  x", "X: a\r\n b"}) {
    const auto head = parse_http_head("GET / HTTP/1.1\r\n" + line + "\r\n\r\n");
    ASSERT_FALSE(head.has_value()) << line;
    EXPECT_NE(head.error().message.find("folded"), std::string::npos) << line;
  }
}

TEST(HttpHead, OverHttp2ItSaysTheSame) {
  const std::vector<HeadField> asked{
      {":method", "POST"}, {":scheme", "https"}, {":path", "/v2?x"}, {":authority", "a:1"}};
  const auto with = [&](std::vector<HeadField> more, bool body) {
    more.insert(more.begin(), asked.begin(), asked.end());
    return http2_head(more, body);
  };
  const auto told = with({{"content-length", "7"},
                          {"authorization", "Bearer x"},
                          {"host", "b"},
                          {"partita-priority", "3"},
                          {"traceparent", "t"}},
                         true);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->method, Method::post);
  EXPECT_EQ(told->target, "/v2?x");
  EXPECT_EQ(told->host, "a:1");
  EXPECT_EQ(told->content_length, 7U);
  EXPECT_EQ(told->authorization, "Bearer x");
  EXPECT_EQ(told->priority, "3");
  EXPECT_EQ(told->trace_parent, "t");
  EXPECT_FALSE(told->chunked);
  EXPECT_TRUE(with({}, true)->chunked);  // nobody has said how long it is
  EXPECT_FALSE(with({}, false)->chunked);
  EXPECT_FALSE(with({{"content-length", "7x"}}, true).has_value());
  EXPECT_FALSE(with({{"authorization", "a"}, {"authorization", "b"}}, true).has_value());
}

}  // namespace
}  // namespace partita::serve
