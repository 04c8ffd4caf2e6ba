// graph_run_json of graph_forms.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/json_writer.h"
#include "forms/graph_forms.h"

namespace partita::plan {
namespace {

double us(std::int64_t ns) { return static_cast<double>(ns) / 1000; }

void write_task(JsonWriter& out, const GraphTask& task, const GraphTaskRun& run,
                std::int64_t begin) {
  out.raw("{\"name\": ").string(task.name).raw(", \"kind\": ").string(to_string(task.kind));
  out.raw(", \"begin_us\": ").number(us(run.begin_ns - begin));
  out.raw(", \"end_us\": ").number(us(run.end_ns - begin));
  if (run.lane >= 0) {
    out.raw(", \"lane\": ").number(long{run.lane});
    out.raw(", \"units\": ").number(static_cast<long>(run.mask.count()));
    out.raw(", \"mask_hex\": ").string(hw::mask_hex(run.mask));
  } else {
    out.raw(", \"thread\": ").number(long{run.thread});
  }
  out.raw("}");
}

}  // namespace

std::string graph_run_json(const GraphResult& result) {
  const GraphProblem& problem = result.problem;
  const GraphRun& run = result.run;
  const CriticalPath path = critical_path(problem, run);
  JsonWriter out;
  out.raw("{\"api_version\": \"partita/v1\", \"kind\": \"GraphRun\",\n  ");
  out.raw("\"graph\": ").string(problem.name).raw(", \"driver\": ").string(run.driver);
  out.raw(", \"gpu\": ").string(run.topology.name);
  out.raw(", \"total_units\": ").number(long{run.topology.units()});
  out.raw(", \"threads\": ").number(long{run.threads});
  out.raw(", \"lanes\": ").number(long{run.lanes}).raw(",\n  ");
  out.raw("\"policy\": ").string(problem.policy);
  out.raw(", \"overlap_limit\": ").number(long{problem.overlap_limit}).raw(",\n  ");
  out.raw("\"time_us\": ").number(us(run_ns(run)));
  out.raw(", \"critical_path_us\": ").number(us(path.ns));
  out.raw(", \"work_us\": ").number(us(work_ns(run)));
  if (result.sequential) {
    const std::int64_t alone = run_ns(*result.sequential);
    out.raw(", \"sequential_us\": ").number(us(alone));
    out.raw(", \"speed_up\": ")
        .number(static_cast<double>(alone) /
                static_cast<double>(std::max<std::int64_t>(1, run_ns(run))));
  }
  if (result.relative_error) out.raw(", \"relative_error\": ").number(*result.relative_error);
  out.raw(",\n  \"dependencies\": {\"skipped\": ").number(run.waits.skipped);
  out.raw(", \"on_device\": ").number(run.waits.on_device);
  out.raw(", \"on_host\": ").number(run.waits.on_host).raw("},\n  \"critical_path\": ");
  out.list(path.tasks, "    ",
           [&](int task) { out.string(problem.tasks[static_cast<std::size_t>(task)].name); });
  std::int64_t begin = 0;
  if (!run.tasks.empty())
    begin = std::ranges::min_element(run.tasks, {}, &GraphTaskRun::begin_ns)->begin_ns;
  out.raw(",\n  \"tasks\": ");
  const GraphTask* task = problem.tasks.data();
  out.list(run.tasks, "    ",
           [&](const GraphTaskRun& one) { write_task(out, *task++, one, begin); });
  return out.raw("}\n").take();
}

}  // namespace partita::plan
