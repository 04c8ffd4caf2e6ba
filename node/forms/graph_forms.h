// Forms of the vocabulary of task graphs: the graph's file, and what a run comes to as text, JSON
// and pictures: lanes and threads against time, with the units of every lane.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "forms/vocabulary.h"
#include "plan/graph.h"

namespace partita::forms {

// Task graph, YAML or JSON, kind TaskGraph (docs/formats.md); `policies` are the words that
// `policy` may be. Refused with FILE:LINE: unknown keys and names, duplicates, values out of
// bounds, keys that belong to another kind of task, a cycle in `after`, whose tasks are named.
Result<GraphProblem> parse_graph(const std::string& file, std::string_view text,
                                 const std::vector<std::string>& policies);
// The problem as JSON that parse_graph reads back to the same, lines excepted.
std::string graph_json(const GraphProblem& problem);

// A graph that ran, and what was said of it beside.
struct GraphResult {
  const GraphProblem& problem;
  const GraphRun& run;
  std::optional<GraphRun> sequential = {};    // the same graph, one task after another
  std::optional<double> relative_error = {};  // of the example's product
};

// For people: one line per lane and thread against time, a table of the tasks, the time of the
// graph with its bounds. Draws kMaxGraphRows lanes and threads, lists kMaxGraphLines tasks and says
// how many more there are.
inline constexpr int kMaxGraphRows = 40;
inline constexpr int kMaxGraphLines = 60;
struct GraphTextOptions {
  bool colour = false;  // ANSI colours (terminals only)
  int width = 100;      // columns of the terminal
};
std::string graph_run_text(const GraphResult& result, const GraphTextOptions& options);

// What a document of kind GraphRun says (docs/formats.md).
struct StatedGraphTask {
  std::string name;
  GraphTaskKind kind = GraphTaskKind::lane;
  double begin_us = 0, end_us = 0;
  std::optional<int> lane, units;  // of a kernel
  std::string mask_hex;            // of a kernel
  std::optional<int> thread;       // of the others
  bool operator==(const StatedGraphTask&) const = default;
};
struct StatedGraphRun {
  std::string graph, driver, gpu;
  int total_units = 0, threads = 0, lanes = 0;
  std::string policy;
  int overlap_limit = 0;
  double time_us = 0, critical_path_us = 0, work_us = 0;
  std::optional<double> sequential_us = {}, speed_up = {}, relative_error = {};
  GraphWaits waits;
  std::vector<std::string> critical_path = {};
  std::vector<StatedGraphTask> tasks = {};
  bool operator==(const StatedGraphRun&) const = default;
};
StatedGraphRun stated_run(const GraphResult& result);
std::string graph_run_json(const StatedGraphRun& run);
std::string graph_run_json(const GraphResult& result);
Result<StatedGraphRun> parse_graph_run(const std::string& file, std::string_view text);
DocumentKind graph_run_kind();

// A self-contained SVG: time across, one row per lane, with the map of its units, and per thread;
// all facts on hover. Draws kMaxGraphSvgRows rows and kMaxGraphBoxes tasks, and says how many more
// there are.
inline constexpr int kMaxGraphSvgRows = 200;
inline constexpr int kMaxGraphBoxes = 5'000;
std::string graph_run_svg(const GraphResult& result);

}  // namespace partita::forms
