// A session of remote execution reads whatever a client sends after its hello.
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/testing/test_client.h"
#include "target.h"

namespace remote = partita::remote;
using partita::remote::server::TestClient;
using partita::remote::server::TestServer;

FUZZ_TARGET(remote_session) {
  TestServer server({}, {.memory = 1 << 20}, {.memory = 1 << 20, .patience = remote::Nanos(0)});
  auto channel = *server.net.connect("sim", std::chrono::seconds(1));
  TestClient client(*channel, std::chrono::milliseconds(10));
  if (!client.ask(remote::Hello{.table = remote::protocol_hash()}).came) return 0;
  const std::span<const std::byte> part(reinterpret_cast<const std::byte*>(data), size);
  static_cast<void>(channel->write({&part, 1}, std::chrono::milliseconds(10)));
  while (client.read()) continue;
  channel->shut();
  server.net.run_for(std::chrono::seconds(1));
  return 0;
}
