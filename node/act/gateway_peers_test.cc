#include "act/gateway_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::actuate {
namespace {

using testing::HasSubstr;

GatewayPeers some_peers() {
  return {.node = "n1",
          .peers = {{"n2", "10.0.0.2:8080", "10.0.0.2:8081", {{"chat", 0.75}, {"rank", 1}}},
                    {"n3", "n3.rack:8080", "", {{"chat", 0.25}}}},
          .wanted = {"chat", "embed", "rank"}};
}

std::string with_peers(const std::string& from, const std::string& to) {
  std::string text = peers_json(some_peers());
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(GatewayPeers, AreReadBack) {
  const auto read = parse_peers("peers.json", peers_json(some_peers()));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, some_peers());
}

TEST(GatewayPeers, RefuseWhatCannotBe) {
  const std::pair<std::string, std::string> cases[] = {
      {with_peers("\"n3\"", "\"n2\""), "listed twice"},
      {with_peers("\"n3\"", "\"n1\""), "the node itself"},
      {with_peers("\"rank\"", "\"chat\""), "service 'chat' is listed twice"},
      {with_peers("n3.rack:8080", "n3.rack:80/x"), "is no HOST:PORT"},
      {with_peers("n3.rack:8080", "n3\\r\\nHost: x"), "is no HOST:PORT"},
      {with_peers("0.75", "1.5"), "share"}};
  for (const auto& [text, why] : cases) {
    const auto read = parse_peers("peers.json", text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(to_string(read.error()), HasSubstr(why));
    EXPECT_THAT(to_string(read.error()), HasSubstr("peers.json:"));
  }
}

}  // namespace
}  // namespace partita::actuate
