// Measured points of language models: points or a refusal with its place; what is read survives
// writing, and a law learned from it says finite times.
#include <cmath>
#include <string_view>

#include "base/check.h"
#include "llm/law.h"
#include "target.h"

FUZZ_TARGET(llm_points) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto all = partita::llm::parse_points("fuzz.csv", text);
  if (!all) {
    CHECK(all.error().context.starts_with("fuzz.csv"));
    return 0;
  }
  const auto again = partita::llm::parse_points("again.csv", partita::llm::points_csv(*all));
  CHECK(again && *again == *all);
  for (const partita::llm::Measured& one : *all) {
    if (one.points.size() > 30) continue;  // for the speed of fuzzing
    const auto law = partita::llm::learn(one.points);
    if (!law) continue;
    for (const partita::llm::Point& point : one.points) {
      const auto e = partita::llm::expect(*law, point.shape, point.concurrency);
      CHECK(std::isfinite(e.ttft.value) && e.ttft.value > 0);
      CHECK(std::isfinite(e.tpot.value) && e.tpot.value > 0);
    }
  }
  return 0;
}
