// Runs of other tools' benchmarks of engines as measured points: vllm bench serve, SGLang's
// bench_serving, genai-perf and aiperf, trtllm-bench. What a file leaves out is told by whoever
// imports it; what nobody says is noted, so that it can be shown. Refusals name the file, and the
// line where there is one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/points.h"

namespace partita::llm {

enum class RunForm {
  vllm,    // vllm bench serve --save-result, --append-result, --save-detailed: JSON, one or more
  sglang,  // python -m sglang.bench_serving --output-file: JSON lines
  aiperf,  // aiperf and genai-perf: profile_export_*.json or .csv, one run
  trtllm,  // trtllm-bench throughput --streaming --report_json
};
// "vllm", "sglang", "aiperf", "genai-perf", "trtllm-bench".
std::optional<RunForm> run_form(std::string_view word);

// Of a folder's files those that hold runs, by the names that the form's tool gives: not what it
// was asked, each request by itself, or a table beside the same in JSON.
std::vector<std::string> files_of_runs(RunForm form, std::vector<std::string> names);

// What the file does not say; what it says stands.
struct ToldOfRuns {
  Configuration configuration = {};
  std::optional<double> concurrency = {};
};
// From "column=value", columns of points_csv: all of the configuration, and concurrency.
Result<ToldOfRuns> parse_told(const std::vector<std::string>& words);

struct ImportedRuns {
  std::vector<Measured> measured;  // that points_csv writes and parse_points reads back
  std::vector<std::string> notes;  // what was worked out or not said, a sentence each
};
// Refused: a run without a model, lengths, TTFT, TPOT or anything that tells how many requests were
// in flight; one of which nothing was completed. In flight is, in this order: what a closed loop
// says, what is told, and the mean by Little's law.
Result<ImportedRuns> import_runs(RunForm form, const std::string& file, std::string_view text,
                                 const ToldOfRuns& told);

}  // namespace partita::llm
