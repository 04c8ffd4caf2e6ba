#include "planners/batch/fifo.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <string_view>

#include "base/check.h"

namespace partita::planners::batch {

Precedence precedence(const std::vector<plan::Task>& tasks) {
  std::map<std::string_view, int> number;
  for (std::size_t t = 0; t < tasks.size(); ++t) number[tasks[t].name] = static_cast<int>(t);
  Precedence result;
  result.before.resize(tasks.size());
  result.behind.resize(tasks.size());
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    std::vector<int>& before = result.before[t];
    for (const std::string& name : tasks[t].after) {
      if (const auto found = number.find(name); found != number.end()) {
        before.push_back(found->second);
      }
    }
    std::ranges::sort(before);
    before.erase(std::ranges::unique(before).begin(), before.end());
    for (const int task : before) result.behind[at(task)].push_back(static_cast<int>(t));
  }
  return result;
}

std::vector<int> in_order(const Precedence& precedence, const std::vector<int>& order) {
  CHECK(order.size() == precedence.before.size());
  std::vector<std::size_t> rank(order.size()), waits(order.size());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;  // ranks
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t task = at(order[i]);
    rank[task] = i;
    waits[task] = precedence.before[task].size();
    if (waits[task] == 0) ready.push(i);
  }
  std::vector<int> result;
  while (!ready.empty()) {
    const int task = order[ready.top()];
    ready.pop();
    result.push_back(task);
    for (const int next : precedence.behind[at(task)]) {
      if (--waits[at(next)] == 0) ready.push(rank[at(next)]);
    }
  }
  return result;
}

std::vector<int> in_order(const plan::BatchProblem& problem, const std::vector<int>& order) {
  if (!plan::timed(problem)) return order;
  std::vector<int> result = in_order(precedence(problem.tasks), order);
  CHECK(result.size() == order.size());
  return result;
}

std::vector<int> fifo_order(const Precedence& precedence) {
  std::vector<int> order(precedence.before.size());
  std::iota(order.begin(), order.end(), 0);
  return in_order(precedence, order);
}

std::vector<int> fifo_order(const plan::BatchProblem& problem) {
  std::vector<int> order = fifo_order(precedence(problem.tasks));
  CHECK(order.size() == problem.tasks.size());
  return order;
}

Visits visits_in_order(const std::vector<int>& assignment, const std::vector<int>& order) {
  Visits visits;
  for (const int task : order) {
    visits.push_back({assignment[at(task)], {task}});
  }
  return visits;
}

}  // namespace partita::planners::batch
