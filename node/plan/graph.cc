#include "plan/graph.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"

namespace partita::plan {
namespace {

std::int64_t time_of(const GraphTaskRun& task) { return task.end_ns - task.begin_ns; }

// The tasks in an order in which each comes after those before it.
std::vector<int> in_order(const GraphProblem& problem) {
  std::vector<int> missing(problem.tasks.size()), order;
  std::vector<std::vector<int>> after(problem.tasks.size());
  for (std::size_t task = 0; task < problem.tasks.size(); ++task) {
    missing[task] = static_cast<int>(problem.tasks[task].after.size());
    for (const int before : problem.tasks[task].after)
      after[at(before)].push_back(static_cast<int>(task));
    if (missing[task] == 0) order.push_back(static_cast<int>(task));
  }
  for (std::size_t next = 0; next < order.size(); ++next) {
    const int task = order[next];
    for (const int later : after[at(task)])
      if (--missing[at(later)] == 0) order.push_back(later);
  }
  return order;
}

}  // namespace

const char* to_string(GraphTaskKind kind) {
  switch (kind) {
    case GraphTaskKind::cpu:
      return "cpu";
    case GraphTaskKind::lane:
      return "lane";
    case GraphTaskKind::copy:
      break;
  }
  return "copy";
}

int wanted_units(const GraphTask& task, int units) {
  if (task.units > 0) return task.units;
  return std::max(1, static_cast<int>(std::lround(task.share * units)));
}

std::int64_t run_ns(const GraphRun& run) {
  if (run.tasks.empty()) return 0;
  const auto first = std::ranges::min_element(run.tasks, {}, &GraphTaskRun::begin_ns);
  const auto last = std::ranges::max_element(run.tasks, {}, &GraphTaskRun::end_ns);
  return last->end_ns - first->begin_ns;
}

std::int64_t work_ns(const GraphRun& run) {
  std::int64_t sum = 0;
  for (const GraphTaskRun& task : run.tasks) sum += time_of(task);
  return sum;
}

CriticalPath critical_path(const GraphProblem& problem, const GraphRun& run) {
  // Per task the longest path that ends with it, and the task before it there.
  std::vector<std::int64_t> longest(problem.tasks.size());
  std::vector<int> before(problem.tasks.size(), -1);
  int last = -1;
  for (const int task : in_order(problem)) {
    for (const int other : problem.tasks[at(task)].after) {
      if (before[at(task)] >= 0 && longest[at(other)] <= longest[at(before[at(task)])]) continue;
      before[at(task)] = other;
    }
    longest[at(task)] = time_of(run.tasks[at(task)]);
    if (before[at(task)] >= 0) longest[at(task)] += longest[at(before[at(task)])];
    if (last < 0 || longest[at(task)] > longest[at(last)]) last = task;
  }
  CriticalPath path;
  if (last >= 0) path.ns = longest[at(last)];
  for (; last >= 0; last = before[at(last)]) path.tasks.push_back(last);
  std::ranges::reverse(path.tasks);
  return path;
}

}  // namespace partita::plan
