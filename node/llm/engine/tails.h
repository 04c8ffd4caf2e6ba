// How an engine that was learned from means does at the percentiles that were measured, and by how
// much it is to be taken for slower, so that it says at no measured point less than was measured.
#pragma once

#include <optional>
#include <vector>

#include "llm/engine/learned.h"
#include "llm/law_report.h"
#include "llm/points.h"
#include "profile/token_engine.h"

namespace partita::llm {

struct Tails {
  profile::TailMargin ttft, tpot;
  std::optional<TailErrors> errors;  // none where no point has a percentile
};
bool has_percentiles(const std::vector<Point>& points);
// Points that the engine cannot play tell nothing.
Tails tails_of(const LearnedEngine& engine, const std::vector<Point>& points);

}  // namespace partita::llm
