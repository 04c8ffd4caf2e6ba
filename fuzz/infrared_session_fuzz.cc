// Infrared sessions: a session or a refusal; what was read is printed and read back the same.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "heat/floorplan/session_forms.h"
#include "target.h"

FUZZ_TARGET(infrared_session) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto session = partita::floorplan::parse_session("fuzz.json", text);
  if (!session) {
    CHECK(session.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again =
      partita::floorplan::parse_session("again.json", partita::floorplan::session_json(*session));
  CHECK(again && *again == *session);
  return 0;
}
