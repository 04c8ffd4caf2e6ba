// A client that sends anything, cut anywhere, to a connection of the HTTP door, for fuzz targets:
// what it hears. Whatever it does, nothing that was let in is held when it has gone.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/door/door_connection.h"
#include "base/door/testing/test_turn.h"
#include "serve/front/routes.h"
#include "serve/front/testing/fake_backend.h"

namespace partita::fuzz {

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

inline void receive(int fd, std::string& answer) {
  char bytes[16'384];
  for (ssize_t got = 0; (got = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
    answer.append(bytes, static_cast<std::size_t>(got));
}

// `pattern` says how the text is cut, and whether answers come at once; `most`: requests under way.
inline std::string talk(serve::Loop& loop, FakeBackend& backend, std::string_view text,
                        std::uint8_t pattern, std::size_t most) {
  const serve::FrontOptions options;
  serve::Door door{.backend = backend, .options = options, .shared_memory_on = true};
  FrontSite site(door);
  serve::Desk desk{.site = site, .limits = options.limits, .counts = door.counts};
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  serve::DoorConnection connection(desk, ends[0], nullptr, {.address = "fuzz"});
  connection.start(loop);
  const std::size_t piece = pattern % 64 == 0 ? text.size() : pattern % 64 * 7u;
  backend.at_once = pattern < 128;
  std::string answer;
  while (!text.empty() && !connection.dead()) {
    const auto sent = ::send(ends[1], text.data(), std::min(piece, text.size()), MSG_NOSIGNAL);
    if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
    turn(loop);
    receive(ends[1], answer);
    if (!backend.at_once && !backend.requests.empty() && backend.requests.begin()->second.submitted)
      backend.finish(backend.requests.begin()->first, std::nullopt);
    CHECK(backend.requests.size() <= most);
    if (sent <= 0 && !connection.dead()) break;  // it does not read while it waits
  }
  receive(ends[1], answer);
  connection.expire();
  ::close(ends[1]);
  for (int i = 0; i < 4 && !connection.dead(); ++i) turn(loop);
  return answer;
}

// With models of numbers and text, and one that answers in pieces.
inline void add_models(FakeBackend& backend) {
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
}

}  // namespace partita::fuzz
