// What workers ask of the broker's table of shared things, any bytes of any of three sessions, two
// of one client: files go to the client that made them alone, and their number is bounded.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include "base/check.h"
#include "server/shelf.h"
#include "target.h"

namespace server = partita::remote::server;

FUZZ_TARGET(shared_things) {
  constexpr std::uint64_t kMost = 1 << 20;
  const server::SharedThings::Asker askers[] = {{1, "anna"}, {2, "anna"}, {3, "bert"}};
  server::SharedThings things(kMost);
  std::map<server::ShareKey, std::string> owners;
  std::vector<server::ShareKey> keys;
  for (std::size_t at = 0; at + 1 + sizeof(server::ShareRequest) <= size;
       at += 1 + sizeof(server::ShareRequest)) {
    const server::SharedThings::Asker& who = askers[data[at] % 3];
    if (data[at] >= 250) {
      things.ended(who.session);
      continue;
    }
    server::ShareRequest request;
    std::memcpy(&request, data + at + 1, sizeof(request));
    if ((data[at] & 64) != 0 && !keys.empty())  // a key that there is
      request.key = keys[static_cast<std::size_t>(request.bytes % keys.size())];
    const auto [answer, file] = things.take(who, request);
    CHECK((file >= 0) == (answer.status == server::kSuccess));
    CHECK(things.size() <= 3 * server::SharedThings::kMost);
    if (file < 0) continue;
    CHECK(answer.bytes > 0 && answer.bytes <= kMost && answer.session == who.session);
    if (request.kind == server::ShareRequest::Kind::make) {
      CHECK(owners.emplace(answer.key, who.client).second);
      keys.push_back(answer.key);
    } else {
      CHECK(request.kind == server::ShareRequest::Kind::open && answer.key == request.key);
      CHECK(owners.at(answer.key) == who.client);
    }
  }
  return 0;
}
