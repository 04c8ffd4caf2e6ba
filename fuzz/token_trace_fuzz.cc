// Traces of tokens: a trace in which times do not fall, or a refusal with its place.
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
  for (std::size_t i = 0; i < trace->size(); ++i)
    CHECK((*trace)[i].in >= 1 && (i == 0 || (*trace)[i].at >= (*trace)[i - 1].at));
  return 0;
}
