// What the kubelet and the API server say: claims, lists, events of a watch, slices, messages of
// the two sockets. What is read of a slice is what was written.
#include <string>
#include <string_view>

#include "base/check.h"
#include "fleet/dra/cdi.h"
#include "fleet/dra/claims.h"
#include "fleet/dra/kubelet_messages.h"
#include "fleet/dra/resource_slices.h"
#include "target.h"

namespace dra = partita::dra;

FUZZ_TARGET(dra) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto claim = dra::parse_claim("claim", text)) CHECK(dra::is_uid(claim->uid));
  static_cast<void>(dra::parse_claims("list", text));
  static_cast<void>(dra::parse_claim_event("event", text));
  static_cast<void>(dra::parse_slices("slices", text, "n1"));
  static_cast<void>(dra::parse_standing_shares("cdi", text));
  const std::string_view pieces[] = {std::string_view(text).substr(0, size / 3),
                                     std::string_view(text).substr(size / 3)};
  if (const auto names = dra::parse_claim_names(pieces))
    for (const dra::ClaimName& name : *names) CHECK(dra::is_uid(name.uid));
  static_cast<void>(dra::parse_registration_status(pieces));
  return 0;
}
