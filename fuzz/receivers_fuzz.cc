// Who is told of alarms, and what: receivers or a refusal with its line; notices are read back.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "control/notify/notice.h"
#include "target.h"

FUZZ_TARGET(receivers) {
  namespace notify = partita::notify;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto receivers = notify::parse_receivers("fuzz.yaml", text);
  if (!receivers) CHECK(receivers.error().context.starts_with("fuzz.yaml"));
  if (receivers) CHECK(receivers->size() <= notify::kMaxReceivers);
  const auto notice = notify::parse_notice("fuzz.json", text);
  if (!notice) return 0;
  const auto again = notify::parse_notice("again.json", notify::notice_json(*notice));
  CHECK(again && *again == *notice);
  return 0;
}
