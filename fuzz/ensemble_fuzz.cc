// Triton's configurations of ensembles: a pipeline with a graph, whose steps all give something, or
// a refusal with its file.
#include <string_view>

#include "base/check.h"
#include "forms/ensemble_reader.h"
#include "target.h"

FUZZ_TARGET(ensemble) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto pipeline = partita::forms::parse_ensemble("fuzz", text);
  if (!pipeline) {
    CHECK(pipeline.error().context.starts_with("fuzz"));
    return 0;
  }
  CHECK(partita::plan::graph_of(*pipeline));
  CHECK(pipeline->steps.size() <= partita::plan::kMostSteps);
  for (const partita::plan::PipelineStep& step : pipeline->steps)
    CHECK(!step.service.empty() && !step.inputs.empty() && !step.outputs.empty());
  return 0;
}
