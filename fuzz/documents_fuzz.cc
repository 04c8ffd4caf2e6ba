// Documents that programs read: a refusal with the file, or a value that is written and read back
// as the same.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "forms/graph_forms.h"
#include "forms/kernel_forms.h"
#include "forms/reason_forms.h"
#include "serve/load/load_report.h"
#include "sim/report_forms.h"
#include "target.h"

namespace {

template <class Parse, class Write>
void check_document(std::string_view text, Parse parse, Write write) {
  const auto value = parse("fuzz.json", text);
  if (!value) {
    CHECK(value.error().context.starts_with("fuzz.json"));
    return;
  }
  const auto again = parse("again.json", write(*value));
  CHECK(again && *again == *value);
}

}  // namespace

FUZZ_TARGET(documents) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_document(text, partita::forms::parse_kernel_plan, partita::forms::kernel_plan_json);
  check_document(text, partita::forms::parse_refusal, partita::forms::refusal_json);
  check_document(text, partita::forms::parse_verdict, partita::forms::verdict_json);
  check_document(text, partita::forms::parse_graph_run,
                 [](const auto& run) { return partita::forms::graph_run_json(run); });
  const auto report = [](const auto& one) { return partita::sim::report_json(one); };
  check_document(text, partita::sim::parse_serving_report, report);
  check_document(text, partita::sim::parse_day_report, report);
  check_document(text, partita::sim::parse_batch_report, report);
  check_document(text, partita::serve::parse_load_report, partita::serve::load_report_json);
  return 0;
}
