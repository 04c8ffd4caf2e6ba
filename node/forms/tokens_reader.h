// What a services file says of a service of `kind: llm`: slo, tokens and prefix. The refusals stick
// to the fields (fields.h).
#pragma once

#include "base/fields.h"
#include "plan/terms.h"

namespace partita::forms {

// Reads `slo: {ttft_ms, tpot_ms, e2e_ms, percentile}`, `tokens: {in, out}`, `{trace: FILE}`, which
// is named and not loaded, or `{trace: [[in, out], ...]}`, and `prefix: {share, tokens}`.
void read_tokens(Fields& fields, plan::Terms& terms);

// Percentiles below the median are refused: they are shares, or slips.
double read_percentile(Fields& fields);

}  // namespace partita::forms
