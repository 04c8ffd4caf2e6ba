// Histories and series of numbers: a document or a refusal; what was read is printed and read back
// the same.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "history/event.h"
#include "target.h"

FUZZ_TARGET(history) {
  namespace history = partita::history;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto events = history::parse_history("fuzz.json", text);
  if (events) {
    const auto again = history::parse_history("again.json", history::history_json(*events));
    CHECK(again && *again == *events);
    for (const history::Event& event : *events)
      CHECK(history::fitted(history::fitted(event)) == history::fitted(event));
  } else {
    CHECK(events.error().context.starts_with("fuzz.json"));
  }
  const auto series = history::parse_series("fuzz.json", text);
  if (!series) return 0;
  const auto again = history::parse_series("again.json", history::series_json(*series));
  CHECK(again && *again == *series);
  return 0;
}
