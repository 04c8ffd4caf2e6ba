// LawReport: a report or a refusal with its place; a report survives printing and reading.
#include <string_view>

#include "base/check.h"
#include "llm/law_report.h"
#include "target.h"

FUZZ_TARGET(law_report) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto report = partita::llm::parse_law_report("fuzz.json", text);
  if (!report) {
    CHECK(report.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again =
      partita::llm::parse_law_report("again.json", partita::llm::law_report_json(*report));
  CHECK(again && *again == *report);
  return 0;
}
