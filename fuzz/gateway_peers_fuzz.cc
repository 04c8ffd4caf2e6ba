// Where a gateway may hand requests over to: peers or a refusal; what was read is printed and read
// back the same.
#include <cstdint>
#include <string_view>

#include "act/gateway_peers.h"
#include "base/check.h"
#include "target.h"

FUZZ_TARGET(gateway_peers) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto peers = partita::actuate::parse_peers("fuzz.json", text);
  if (!peers) {
    CHECK(peers.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again =
      partita::actuate::parse_peers("again.json", partita::actuate::peers_json(*peers));
  CHECK(again && *again == *peers);
  return 0;
}
