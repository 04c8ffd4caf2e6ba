// graph_run_json of graph_forms.h.
#include <algorithm>

#include "base/form_rules.h"
#include "base/index.h"
#include "forms/graph_forms.h"

namespace partita::forms {
namespace {

constexpr Range kGraphTimes{.low = -kMaxQuantity};
constexpr ListForm kGraphLines{.most = kMaxGraphTasks, .indent = "    "};

void describe(Form& f, StatedGraphTask& task) {
  f.name("name", task.name, "of the graph's task");
  f.word("kind", task.kind, {"cpu", "lane", "copy"}, "what it ran on");
  f.number("begin_us", task.begin_us, kGraphTimes, "from the first begin");
  f.number("end_us", task.end_us, kGraphTimes, "from the first begin");
  f.integer("lane", task.lane, kNotNegative, "of a kernel");
  f.integer("units", task.units, {.high = hw::kMaxUnits}, "of a kernel's mask");
  f.optional(!task.mask_hex.empty()).text("mask_hex", task.mask_hex, "of a kernel");
  f.integer("thread", task.thread, kNotNegative, "of a task of the CPU or a copy");
}

void describe(Form& f, GraphWaits& waits) {
  f.whole("skipped", waits.skipped, kNotNegative, "had ended before anybody looked");
  f.whole("on_device", waits.on_device, kNotNegative, "the device waited");
  f.whole("on_host", waits.on_host, kNotNegative, "a task was held back on the host");
}

void describe(Form& f, StatedGraphRun& run) {
  f.document("GraphRun");
  f.line("  ").note("graph", run.graph, "its name");
  f.text("driver", run.driver, "green_ctx, hip_mask, cpu_mask, sim or sequential");
  f.text("gpu", run.gpu, "its topology");
  f.integer("total_units", run.total_units, {.high = hw::kMaxUnits}, "of the GPU");
  f.integer("threads", run.threads, kNotNegative, "of the CPU");
  f.integer("lanes", run.lanes, kNotNegative, "at the same time");
  f.line("  ").text("policy", run.policy, "of masks");
  f.integer("overlap_limit", run.overlap_limit, {.high = hw::kMaxUnits},
            "units of a mask that may run other kernels");
  f.line("  ").number("time_us", run.time_us, kNotNegative, "first begin to last end");
  f.number("critical_path_us", run.critical_path_us, kNotNegative, "with the times of this run");
  f.number("work_us", run.work_us, kNotNegative, "the tasks' times summed");
  f.number("sequential_us", run.sequential_us, kNotNegative, "one task after another");
  f.number("speed_up", run.speed_up, kNotNegative, "against that");
  f.number("relative_error", run.relative_error, kNotNegative, "of the example's product");
  f.line("  ").object("dependencies", run.waits, describe, "what became of them");
  f.line("  ").notes("critical_path", run.critical_path, kGraphLines, "names, first to last");
  f.line("  ").list("tasks", run.tasks, describe, kGraphLines, "in the graph's order");
}

double us(std::int64_t ns) { return static_cast<double>(ns) / 1000; }

StatedGraphTask stated_task(const GraphTask& task, const GraphTaskRun& run, std::int64_t begin) {
  StatedGraphTask stated{task.name, task.kind, us(run.begin_ns - begin), us(run.end_ns - begin),
                         {},        {},        {},                       {}};
  if (run.lane >= 0) {
    stated.lane = run.lane;
    stated.units = static_cast<int>(run.mask.count());
    stated.mask_hex = hw::mask_hex(run.mask);
  } else {
    stated.thread = run.thread;
  }
  return stated;
}

}  // namespace

StatedGraphRun stated_run(const GraphResult& result) {
  const GraphRun& run = result.run;
  const GraphProblem& problem = result.problem;
  const CriticalPath path = critical_path(problem, run);
  StatedGraphRun stated{.graph = problem.name,
                        .driver = run.driver,
                        .gpu = run.topology.name,
                        .total_units = run.topology.units(),
                        .threads = run.threads,
                        .lanes = run.lanes,
                        .policy = problem.policy,
                        .overlap_limit = problem.overlap_limit,
                        .time_us = us(run_ns(run)),
                        .critical_path_us = us(path.ns),
                        .work_us = us(work_ns(run)),
                        .relative_error = result.relative_error,
                        .waits = run.waits};
  if (result.sequential) {
    const std::int64_t alone = run_ns(*result.sequential);
    stated.sequential_us = us(alone);
    stated.speed_up = static_cast<double>(alone) /
                      static_cast<double>(std::max<std::int64_t>(1, run_ns(run)));
  }
  for (const int task : path.tasks) stated.critical_path.push_back(problem.tasks[at(task)].name);
  std::int64_t begin = 0;
  if (!run.tasks.empty())
    begin = std::ranges::min_element(run.tasks, {}, &GraphTaskRun::begin_ns)->begin_ns;
  for (std::size_t i = 0; i < run.tasks.size(); ++i)
    stated.tasks.push_back(stated_task(problem.tasks[i], run.tasks[i], begin));
  return stated;
}

std::string graph_run_json(const StatedGraphRun& run) { return write_form(run, describe); }

std::string graph_run_json(const GraphResult& result) {
  return graph_run_json(stated_run(result));
}

Result<StatedGraphRun> parse_graph_run(const std::string& file, std::string_view text) {
  return read_form<StatedGraphRun>(file, text, describe);
}

DocumentKind graph_run_kind() {
  return document_kind<StatedGraphRun, describe, "GraphRun",
                       "what a run of a task graph came to">();
}

}  // namespace partita::forms
