// Runs of benchmarks of language models: points that our own reader takes back, or a refusal.
#include <string_view>

#include "base/check.h"
#include "llm/runs.h"
#include "target.h"

FUZZ_TARGET(llm_runs) {
  using partita::llm::RunForm;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto told = partita::llm::parse_told({"model=m"});
  CHECK(told);
  for (const RunForm form : {RunForm::vllm, RunForm::sglang, RunForm::aiperf, RunForm::trtllm}) {
    const auto runs = partita::llm::import_runs(form, "fuzz", text, *told);
    if (!runs) {
      CHECK(!runs.error().message.empty());
      continue;
    }
    const auto again =
        partita::llm::parse_points("again.csv", partita::llm::points_csv(runs->measured));
    CHECK(again && *again == runs->measured);
  }
  return 0;
}
