// Triton's ensembles as pipelines: the ensemble_scheduling of a config.pbtxt. What a pipeline does
// not keep is refused by name and line; what the plan decides here (batches, versions, warm-up) and
// what workers say of their models themselves (types, sizes) is not looked at. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/pipeline.h"

namespace partita::forms {

// Its steps, and of their outputs those that a step reads or that are the ensemble's own.
// bad_input at FILE:LINE. The steps make a graph (plan::graph_of).
Result<plan::PipelineTerms> parse_ensemble(const std::string& file, std::string_view text);

}  // namespace partita::forms
