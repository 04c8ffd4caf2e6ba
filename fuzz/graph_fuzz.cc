// Task graph files: a graph within the documented bounds without a cycle, or a refusal; what was
// read is written and read back as the same.
#include <set>
#include <string_view>

#include "base/check.h"
#include "forms/graph_forms.h"
#include "target.h"

namespace {

namespace forms = partita::forms;
namespace plan = partita::plan;

void check(const plan::GraphProblem& problem) {
  std::set<std::string_view> names;
  for (const plan::GraphTask& task : problem.tasks) {
    CHECK(names.insert(task.name).second);
    CHECK(task.work_us >= 0 && task.work_us <= plan::kMaxGraphWorkUs);
    CHECK(task.groups >= 1 && task.groups <= plan::kMaxGraphGroups);
    CHECK(task.bytes >= 0 && task.bytes <= plan::kMaxGraphBytes);
    const int units = plan::wanted_units(task, 60);
    CHECK(units >= 1 && units <= partita::hw::kMaxUnits);
  }
  // Whatever runs for a time has a path at least as long as its longest task, and no longer than
  // all of them: there is no cycle.
  plan::GraphRun run;
  for (std::size_t i = 0; i < problem.tasks.size(); ++i)
    run.tasks.emplace_back().end_ns = static_cast<std::int64_t>(i + 1);
  const plan::CriticalPath path = plan::critical_path(problem, run);
  CHECK(path.ns >= static_cast<std::int64_t>(problem.tasks.size()));
  CHECK(path.ns <= plan::work_ns(run));
}

}  // namespace

FUZZ_TARGET(graph) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const std::vector<std::string> policies{"fair", "packed"};
  auto problem = forms::parse_graph("fuzz.yaml", text, policies);
  if (!problem) {
    CHECK(problem.error().context.starts_with("fuzz.yaml"));
    return 0;
  }
  check(*problem);
  auto again = forms::parse_graph("again.json", forms::graph_json(*problem), policies);
  CHECK(again);
  for (plan::GraphProblem* one : {&*problem, &*again})
    for (plan::GraphTask& task : one->tasks) task.line = 0;
  CHECK(*again == *problem);
  return 0;
}
