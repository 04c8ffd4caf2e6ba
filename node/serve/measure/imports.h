// What other profilers measured, as a profile of ours. Their tables say a part of a point; the
// rest (the instance's size, what they leave out) is told by whoever imports. Of several loads of
// one configuration the one with the highest throughput counts: the saturated one, as in our own
// measurements. Runs of engines of language models, whose batches do not begin and end together,
// are imported by llm/runs.h. Pure; refusals name FILE:LINE.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "profile/workload_profile.h"

namespace partita::serve {

enum class ForeignForm {
  perf_analyzer,   // NVIDIA perf_analyzer -f: a row a concurrency; batch and processes are told
  model_analyzer,  // Triton Model Analyzer, metrics-model-inference.csv: rows of many models
};

// "perf-analyzer", "model-analyzer".
std::optional<ForeignForm> foreign_form(std::string_view word);

struct ToldOfImport {
  int gpcs = 0;                   // size of the instance
  std::optional<int> batch = {};  // where the table does not say it
  int processes = 1;              // likewise
  std::optional<std::string> model = {};
};

Result<profile::ProfileTable> import_foreign(ForeignForm form, const std::string& file,
                                             std::string_view text, const ToldOfImport& told);

}  // namespace partita::serve
