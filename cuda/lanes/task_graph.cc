#include "lanes/task_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "base/append.h"
#include "base/check.h"
#include "base/index.h"

namespace partita::exec {
namespace {

// The names along a cycle among the tasks that are left, each before the next.
std::string cycle_text(const std::vector<GraphTask>& tasks, const std::vector<int>& missing) {
  int task = 0;
  while (missing[at(task)] == 0) ++task;
  std::vector<int> path;
  std::vector<char> seen(tasks.size());
  while (!seen[at(task)]) {
    seen[at(task)] = 1;
    path.push_back(task);
    task = *std::ranges::find_if(tasks[at(task)].after,
                                 [&](int before) { return missing[at(before)] > 0; });
  }
  std::vector<std::string> names;
  for (auto from = std::ranges::find(path, task); from != path.end(); ++from)
    names.push_back(tasks[at(*from)].name);
  names.push_back(tasks[at(task)].name);
  std::ranges::reverse(names);
  return joined(names, " -> ");
}

}  // namespace

int TaskGraph::add(std::string name, Work work) {
  CHECK(tasks_.size() < kMaxGraphTasks);
  tasks_.push_back({std::move(name), std::move(work)});
  return static_cast<int>(tasks_.size()) - 1;
}

void TaskGraph::depend(int task, int before) {
  CHECK(task >= 0 && before >= 0 && at(task) < tasks_.size() && at(before) < tasks_.size());
  tasks_[at(task)].after.push_back(before);
}

Result<std::vector<int>> TaskGraph::order() const {
  std::vector<int> missing(tasks_.size());
  std::vector<std::vector<int>> after(tasks_.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t t = 0; t < tasks_.size(); ++t) {
    missing[t] = static_cast<int>(tasks_[t].after.size());
    for (const int before : tasks_[t].after) after[at(before)].push_back(static_cast<int>(t));
    if (missing[t] == 0) ready.push(static_cast<int>(t));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int next : after[at(order.back())])
      if (--missing[at(next)] == 0) ready.push(next);
  }
  if (order.size() == tasks_.size()) return order;
  return bad_input("graph",
                   "tasks wait for each other in a circle: " + cycle_text(tasks_, missing));
}

}  // namespace partita::exec
