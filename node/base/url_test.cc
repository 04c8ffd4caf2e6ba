#include "base/url.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

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

TEST(Url, RequestsNameThePathAndTheHost) {
  EXPECT_EQ(request_head("GET", {.host = "::1"}), "GET / HTTP/1.1\r\nHost: [::1]:80\r\n");
  EXPECT_EQ(request_head("PUT", {.host = "h", .port = 8, .path = "/a"}, "/b?c"),
            "PUT /a/b?c HTTP/1.1\r\nHost: h:8\r\n");
  EXPECT_EQ(percent_encoded("GPU-1/ä b"), "GPU-1%2F%C3%A4%20b");
}

TEST(Url, AddressesAreNoNames) {
  for (const char* address : {"127.0.0.1", "::1", "fd00::17"}) EXPECT_TRUE(is_address(address));
  for (const char* name : {"", "localhost", "n17.lan", "[::1]", "10.0.0", "10.0.0.256", "::g"})
    EXPECT_FALSE(is_address(name)) << name;
}

TEST(Url, APrefixHasNoQueryAndNoSlashAtItsEnd) {
  EXPECT_EQ(parse_url_prefix("u", "http://h/a/b//")->path, "/a/b");
  EXPECT_EQ(parse_url_prefix("u", "http://h/")->path, "");
  EXPECT_FALSE(parse_url_prefix("u", "http://h/a?q"));
  EXPECT_FALSE(parse_url_prefix("u", "h"));
}

TEST(Url, AnythingElseIsRefusedAndWhy) {
  constexpr const char* kScheme = "it begins with neither http nor https";
  constexpr const char* kOdd = "too long, or odd characters";
  constexpr const char* kParts = "it has a fragment, a user, or a query without a path";
  constexpr const char* kPort = "its port is not 1 to 65535";
  for (const auto& [bad, why] : std::vector<std::pair<std::string, const char*>>{
           {"", kScheme},
           {"ftp://a", kScheme},
           {"a:80", kScheme},
           {"http://", "it names no host"},
           {"http://:80", "it names no host"},
           {"http://[]", "it names no host"},
           {"http://a:0", kPort},
           {"http://a:65536", kPort},
           {"http://a:1x", kPort},
           {"http://a:", kPort},
           {"http://[::1]x", kPort},
           {"http://[::1", "a bracket is not closed"},
           {"http://a\x7f", kOdd},
           {"http://a b", kOdd},
           {"http://a/\r\nX: y", kOdd},
           {"http://" + std::string(kMaxUrlBytes - 6, 'a'), kOdd},
           {"http://u@a", kParts},
           {"http://a#b", kParts},
           {"http://a/b#c", kParts},
           {"http://a?b", kParts}}) {
    const auto url = parse_url("u", bad);
    ASSERT_FALSE(url) << bad;
    EXPECT_EQ(to_string(url.error()),
              "u: '" + bad.substr(0, kMaxUrlBytes) + "' is not http://HOST[:PORT][/PATH]: " + why);
  }
  EXPECT_TRUE(parse_url("u", "http://" + std::string(kMaxUrlBytes - 7, 'a')));
  EXPECT_TRUE(parse_url("u", "http://~/~")) << "the last that is not odd";
  EXPECT_EQ(parse_url_prefix("u", "http://h/a?q").error().message,
            "'http://h/a?q' has a query; paths are to follow it");
}

}  // namespace
}  // namespace partita
