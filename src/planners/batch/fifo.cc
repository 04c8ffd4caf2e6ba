#include "planners/batch/fifo.h"

#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <string_view>

#include "base/check.h"

namespace partita::planners::batch {

std::vector<std::vector<int>> predecessors(const plan::BatchProblem& problem) {
  std::map<std::string_view, int> number;
  for (std::size_t t = 0; t < problem.tasks.size(); ++t) {
    number[problem.tasks[t].name] = static_cast<int>(t);
  }
  std::vector<std::vector<int>> before(problem.tasks.size());
  for (std::size_t t = 0; t < problem.tasks.size(); ++t) {
    for (const std::string& name : problem.tasks[t].after) {
      const auto found = number.find(name);
      if (found != number.end()) before[t].push_back(found->second);
    }
  }
  return before;
}

std::vector<int> in_order(const plan::BatchProblem& problem, const std::vector<int>& order) {
  if (!plan::timed(problem)) return order;
  const std::size_t count = problem.tasks.size();
  CHECK(order.size() == count);
  std::vector<std::size_t> rank(count);
  for (std::size_t i = 0; i < count; ++i) rank[static_cast<std::size_t>(order[i])] = i;
  const std::vector<std::vector<int>> before = predecessors(problem);
  std::vector<std::vector<std::size_t>> behind(count);
  std::vector<std::size_t> waits(count);
  for (std::size_t t = 0; t < count; ++t) {
    waits[t] = before[t].size();
    for (const int p : before[t]) behind[static_cast<std::size_t>(p)].push_back(t);
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;  // ranks
  for (std::size_t t = 0; t < count; ++t) {
    if (waits[t] == 0) ready.push(rank[t]);
  }
  std::vector<int> result;
  while (!ready.empty()) {
    const int task = order[ready.top()];
    ready.pop();
    result.push_back(task);
    for (const std::size_t next : behind[static_cast<std::size_t>(task)]) {
      if (--waits[next] == 0) ready.push(rank[next]);
    }
  }
  CHECK(result.size() == count);  // readers refuse cycles
  return result;
}

std::vector<int> fifo_order(const plan::BatchProblem& problem) {
  std::vector<int> order(problem.tasks.size());
  std::iota(order.begin(), order.end(), 0);
  return in_order(problem, order);
}

Visits visits_in_order(const std::vector<int>& assignment, const std::vector<int>& order) {
  Visits visits;
  for (const int task : order) {
    visits.push_back({assignment[static_cast<std::size_t>(task)], {task}});
  }
  return visits;
}

}  // namespace partita::planners::batch
