// Traces of tokens: a trace or a refusal with its place; a trace survives writing and reading.
#include <string_view>

#include "base/check.h"
#include "llm/engine/workload.h"
#include "target.h"

FUZZ_TARGET(token_trace) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto trace = partita::llm::parse_token_trace("fuzz.csv", text);
  if (!trace) {
    CHECK(trace.error().context.starts_with("fuzz.csv"));
    return 0;
  }
  const auto again =
      partita::llm::parse_token_trace("again.csv", partita::llm::token_trace_csv(*trace));
  CHECK(again && *again == *trace);
  return 0;
}
