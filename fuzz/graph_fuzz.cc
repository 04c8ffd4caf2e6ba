// Task graph files: a graph within the documented bounds without a cycle, or a refusal; what was
// read is written and read back as the same.
#include <set>
#include <string_view>

#include "base/check.h"
#include "base/elements.h"
#include "forms/graph_forms.h"
#include "target.h"

namespace {

namespace forms = partita::forms;
namespace plan = partita::plan;

// What a kernel runs: a file, blocks as many as there are groups, arguments that have a value.
void check(const plan::GraphCode& code, int groups, const std::set<std::string_view>& buffers) {
  CHECK(code.ptx.empty() != code.library.empty());
  CHECK(!code.kernel.empty());
  if (!code.ptx.empty())
    CHECK(std::uint64_t{code.grid[0]} * code.grid[1] * code.grid[2] ==
          static_cast<std::uint64_t>(groups));
  for (const std::string& argument : code.arguments) {
    if (buffers.contains(argument)) continue;
    const std::size_t colon = argument.find(':');
    CHECK(colon != argument.npos);
    const auto type = partita::element_type(argument.substr(0, colon));
    CHECK(type && partita::element_bits(*type, argument.substr(colon + 1)));
  }
}

void check(const plan::GraphProblem& problem) {
  std::set<std::string_view> names, buffers;
  for (const plan::GraphBuffer& buffer : problem.buffers) {
    CHECK(buffers.insert(buffer.name).second);
    const auto type = partita::element_type(buffer.type);
    CHECK(type && buffer.count >= 1);
    CHECK(static_cast<double>(buffer.count * type->bytes) <= plan::kMaxGraphBufferBytes);
    CHECK(buffer.fill.starts_with('@') || partita::fill_elements({}, *type, buffer.fill));
  }
  for (const plan::GraphTask& task : problem.tasks) {
    CHECK(names.insert(task.name).second);
    CHECK(task.work_us >= 0 && task.work_us <= plan::kMaxGraphWorkUs);
    CHECK(task.groups >= 1 && task.groups <= plan::kMaxGraphGroups);
    CHECK(task.bytes >= 0 && task.bytes <= plan::kMaxGraphBytes);
    if (task.code) check(*task.code, task.groups, buffers);
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
  for (plan::GraphProblem* one : {&*problem, &*again}) {
    for (plan::GraphTask& task : one->tasks) task.line = 0;
    for (plan::GraphBuffer& buffer : one->buffers) buffer.line = 0;
  }
  CHECK(*again == *problem);
  return 0;
}
