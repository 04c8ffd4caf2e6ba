// A client that sends anything, cut anywhere, to a connection of the HTTP door: whatever it does,
// the server says what it says in HTTP, and nothing that was let in is held when the client has
// gone.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/door/door_connection.h"
#include "base/door/testing/test_turn.h"
#include "serve/front/routes.h"
#include "serve/front/testing/fake_backend.h"
#include "target.h"

namespace {

namespace serve = partita::serve;
using serve::test::FakeBackend;
using serve::test::turn;

struct FrontSite final : serve::Site {
  explicit FrontSite(serve::Door& on) : door(on) {}
  std::shared_ptr<serve::Exchange> route(const serve::HttpHead& head,
                                         const serve::Peer& peer) override {
    return serve::route(door, head, peer);
  }
  serve::Reply refusal(int status, std::string_view message) override {
    return serve::error_reply(status, message);
  }
  serve::Door& door;
};

void receive(int fd, std::string& answer) {
  char bytes[16'384];
  for (ssize_t got = 0; (got = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
    answer.append(bytes, static_cast<std::size_t>(got));
}

// The first byte says how the rest is cut, and whether answers come at once.
std::string talk(serve::Loop& loop, FakeBackend& backend, std::string_view text) {
  const serve::FrontOptions options;
  serve::Door door{.backend = backend, .options = options, .shared_memory_on = true};
  FrontSite site(door);
  serve::Desk desk{.site = site, .limits = options.limits, .counts = door.counts};
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  serve::DoorConnection connection(desk, ends[0], nullptr, {.address = "fuzz"});
  connection.start(loop);
  const auto pattern = static_cast<unsigned char>(text.empty() ? 0 : text[0]);
  const std::size_t piece = pattern % 64 == 0 ? text.size() : pattern % 64 * 7;
  backend.at_once = pattern < 128;
  std::string answer;
  text.remove_prefix(std::min<std::size_t>(1, text.size()));
  while (!text.empty() && !connection.dead()) {
    const auto sent = ::send(ends[1], text.data(), std::min(piece, text.size()), MSG_NOSIGNAL);
    if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
    turn(loop);
    receive(ends[1], answer);
    if (!backend.at_once && !backend.requests.empty() && backend.requests.begin()->second.submitted)
      backend.finish(backend.requests.begin()->first, std::nullopt);
    CHECK(backend.requests.size() <= 1);
    if (sent <= 0 && !connection.dead()) break;  // it does not read while it waits
  }
  receive(ends[1], answer);
  CHECK(answer.empty() || answer.starts_with("HTTP/1.1 "));
  connection.expire();
  ::close(ends[1]);
  for (int i = 0; i < 4 && !connection.dead(); ++i) turn(loop);
  return answer;
}

}  // namespace

FUZZ_TARGET(http_connection) {
  static const auto loop = [] {
    auto made = serve::Loop::make().value();
    FakeBackend none;  // a fuzzer of a server that does not answer finds nothing
    const std::string live(" GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(talk(*made, none, live).starts_with("HTTP/1.1 200 "));
    return made;
  }();
  FakeBackend backend;
  backend.add(serve::test::pair_model());
  backend.add({.name = "words",
               .platform = "null",
               .inputs = {{"w", serve::DataType::bytes, {2}, 16}},
               .outputs = {{"v", serve::DataType::bytes, {2}, 16}},
               .max_batch = 8});
  backend.add({.kind = serve::ModelKind::openai, .name = "chat", .platform = "forward"});
  backend.compute = [&backend](serve::RequestId id) {
    if (backend.requests.at(id).service == "pair") serve::test::compute_pair(backend, id);
    if (backend.requests.at(id).service != "words") return;
    for (int item = 0; item < backend.requests.at(id).items; ++item)
      std::ranges::copy(backend.input(id, item, 0), backend.output_place(id, item, 0).begin());
  };
  talk(*loop, backend, {reinterpret_cast<const char*>(data), size});
  CHECK(backend.requests.empty());
  return 0;
}
