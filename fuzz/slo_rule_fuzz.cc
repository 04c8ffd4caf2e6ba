// SLO rules: a rule or a refusal; a rule survives printing and reading.
#include <string>

#include "base/check.h"
#include "plan/serving.h"
#include "target.h"

FUZZ_TARGET(slo_rule) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto rule = partita::plan::parse_slo_rule(text);
  if (!rule) return 0;
  CHECK(rule->fraction > 0 && rule->fraction <= 1);
  const auto again = partita::plan::parse_slo_rule(partita::plan::to_string(*rule));
  CHECK(again && *again == *rule);
  return 0;
}
