#include "base/url.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

TEST(Url, IsReadWhole) {
  const auto read = [](std::string_view text) { return parse_url("u", text); };
  EXPECT_EQ(*read("http://a"), (Url{.host = "a"}));
  EXPECT_EQ(*read("http://localhost:8080"), (Url{.host = "localhost", .port = 8080}));
  EXPECT_EQ(*read("https://h/a/b/"), (Url{.tls = true, .host = "h", .port = 443, .path = "/a/b/"}));
  EXPECT_EQ(*read("http://[::1]:7/"), (Url{.host = "::1", .port = 7, .path = "/"}));
  EXPECT_EQ(*read("http://1.2.3.4/ready?x=1"), (Url{.host = "1.2.3.4", .path = "/ready?x=1"}));
  EXPECT_EQ(read("http://a:1")->port, 1);
  EXPECT_EQ(read("http://a:65535")->port, 65'535);
  EXPECT_EQ(authority_of(*read("http://[::1]:9")), "[::1]:9");
  EXPECT_EQ(authority_of(*read("https://a/b")), "a:443");
}

TEST(Url, APrefixHasNoQueryAndNoSlashAtItsEnd) {
  EXPECT_EQ(parse_url_prefix("u", "http://h/a/b//")->path, "/a/b");
  EXPECT_EQ(parse_url_prefix("u", "http://h/")->path, "");
  EXPECT_FALSE(parse_url_prefix("u", "http://h/a?q"));
  EXPECT_FALSE(parse_url_prefix("u", "h"));
}

TEST(Url, AnythingElseIsRefused) {
  for (const std::string& bad :
       {std::string(), std::string("http://"), std::string("ftp://a"), std::string("a:80"),
        std::string("http://a:0"),
        std::string("http://a:65536"), std::string("http://a\x7f"),
        std::string("http://a:99999"), std::string("http://a:1x"),
        std::string("http://[::1"), std::string("http://[::1]x"), std::string("http://a b"),
        std::string("http://a/\r\nX: y"), std::string("http://u@a"), std::string("http://a#b"),
        std::string("http://a/b#c"), std::string("http://a?b"),
        "http://" + std::string(3000, 'a')}) {
    const auto url = parse_url("u", bad);
    ASSERT_FALSE(url) << bad;
    EXPECT_EQ(url.error().context, "u");
  }
}

}  // namespace
}  // namespace partita
