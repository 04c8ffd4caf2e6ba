#include "base/door/http_head.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace partita::serve
