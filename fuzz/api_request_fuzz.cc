// A client that sends anything, cut anywhere, to the API of an agent: whatever it does, the server
// says what it says in HTTP, nobody without the role is let through to the agent, and nothing is
// held when the client has gone.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/site.h"
#include "api/testing/fake_agent.h"
#include "base/check.h"
#include "base/door/door_connection.h"
#include "base/door/testing/test_turn.h"
#include "target.h"

namespace {

namespace api = partita::api;
namespace serve = partita::serve;
using serve::test::turn;

void fetch(int fd, std::string& answer) {
  char bytes[16'384];
  for (ssize_t got = 0; (got = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
    answer.append(bytes, static_cast<std::size_t>(got));
}

// By two bits of the first byte: root on a socket, another user there, a browser, with tokens.
serve::Peer peer_of(unsigned pattern, api::ApiSite& site) {
  site.rules.owner = 500;
  if (pattern % 4 == 0) return {.address = "uid 0", .user = serve::Peer::User{}};
  if (pattern % 4 == 1) return {.address = "uid 9", .user = serve::Peer::User{9, {}}};
  if (pattern % 4 == 2) return {.address = "127.0.0.1:9"};
  site.rules.tokens = {{"one", api::Role::operator_, api::sha256_hex("token")}};
  return {.address = "127.0.0.1:9"};
}

std::string talk(serve::Loop& loop, std::string_view text) {
  api::test::FakeAgent agent;
  api::ServerOptions options;
  options.limits.calls_per_second = options.limits.burst = 1'000'000;
  api::ApiSite site(loop, agent, options);
  serve::Desk desk{.site = site, .limits = site.door_limits, .counts = site.counts};
  const auto pattern = static_cast<unsigned char>(text.empty() ? 0 : text[0]);
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  serve::DoorConnection connection(desk, ends[0], nullptr, peer_of(pattern, site));
  connection.start(loop);
  const std::size_t piece = pattern / 4 == 0 ? text.size() : std::size_t{pattern} / 4 * 7;
  std::string answer;
  text.remove_prefix(std::min<std::size_t>(1, text.size()));
  while (!text.empty() && !connection.dead()) {
    const auto sent = ::send(ends[1], text.data(), std::min(piece, text.size()), MSG_NOSIGNAL);
    if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
    turn(loop);
    turn(loop);  // the agent's answer comes by the loop
    fetch(ends[1], answer);
    if (sent <= 0 && !connection.dead()) break;
  }
  fetch(ends[1], answer);
  CHECK(answer.empty() || answer.starts_with("HTTP/1.1 "));
  const bool may = pattern % 4 == 0 || pattern % 4 == 3;
  for (const partita::control::Asked& asked : agent.asked()) {
    CHECK(may && !asked.user.empty());
    CHECK(pattern % 4 == 0 ||
          !std::holds_alternative<partita::control::SetMode>(asked.request));  // an admin's
  }
  connection.expire();
  ::close(ends[1]);
  for (int i = 0; i < 4 && !connection.dead(); ++i) turn(loop);
  return answer;
}

// That there is a server which answers: a fuzzer of one that does not finds nothing.
void check_that_it_answers(serve::Loop& loop) {
  const std::string request = " /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  CHECK(talk(loop, "\4GET" + request).starts_with("HTTP/1.1 200 "));
  CHECK(talk(loop, std::string(1, '\0') + "GET" + request + "GET" + request)
            .starts_with("HTTP/1.1 200 "));
  const std::string replan =
      "POST /v1/replan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
  CHECK(talk(loop, std::string(1, '\0') + replan).starts_with("HTTP/1.1 202 "));
  CHECK(talk(loop, "\3" + replan).starts_with("HTTP/1.1 401 "));
}

}  // namespace

FUZZ_TARGET(api_request) {
  static const auto loop = [] {
    auto made = serve::Loop::make().value();
    check_that_it_answers(*made);
    return made;
  }();
  talk(*loop, {reinterpret_cast<const char*>(data), size});
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto tokens = api::parse_token_hashes("t", text)) CHECK(!tokens->empty());
  if (const auto roles = api::parse_certificate_roles("c", text)) CHECK(!roles->empty());
  if (const auto why = api::parse_why(text)) CHECK(why->size() <= size);
  return 0;
}
