#include "planners/batch/timed_starts.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "planners/batch/timed_places.h"

namespace partita::planners::batch {
namespace {

using Key = std::pair<double, int>;  // urgency, least first; then the task
using Heap = std::priority_queue<Key, std::vector<Key>, std::greater<>>;

// Deadlines handed on to predecessors: they must leave time for what follows.
std::vector<Nanos> inherited_deadlines(const TimedBatch& batch, const TimedBounds& bounds) {
  std::vector<Nanos> due = batch.deadline;
  for (std::size_t i = due.size(); i-- > 0;) {
    const std::size_t t = at(batch.topological[i]);
    for (const int next : batch.behind[t]) {
      due[t] = std::min(due[t], due[at(next)] - bounds.least[at(next)]);
    }
  }
  return due;
}

std::vector<double> urgencies(const TimedBatch& batch, const TimedBounds& bounds, Urgency urgency) {
  const std::vector<Nanos> due = inherited_deadlines(batch, bounds);
  std::vector<double> keys;
  for (std::size_t t = 0; t < due.size(); ++t) {
    const auto least = static_cast<double>(bounds.least[t]);
    const auto weight = static_cast<double>(batch.weight[t]);
    const auto path = least + static_cast<double>(bounds.tail[t]);
    switch (urgency) {
      case Urgency::path:
        keys.push_back(-path);
        break;
      case Urgency::due:
        keys.push_back(static_cast<double>(due[t]));
        break;
      case Urgency::slack:
        keys.push_back(static_cast<double>(due[t]) - least);
        break;
      case Urgency::smith:
        keys.push_back(least / weight);
        break;
      case Urgency::release:
        keys.push_back(static_cast<double>(bounds.ready[t]));
        break;
      case Urgency::area:
        keys.push_back(-static_cast<double>(least_area(batch.forest, static_cast<int>(t))));
        break;
    }
  }
  return keys;
}

}  // namespace

Choice list_schedule(const TimedBatch& batch, const TimedBounds& bounds, const ListRule& rule) {
  const std::vector<double> keys = urgencies(batch, bounds, rule.urgency);
  Choice choice;
  choice.node.resize(keys.size());
  TimedPlaces places(batch);
  Heap urgent, later;  // later: by the time at which they become ready
  std::vector<std::size_t> waits;
  const auto release = [&](int task) {
    if (rule.waiting) {
      urgent.emplace(keys[at(task)], task);
    } else {
      later.emplace(static_cast<double>(places.ready(task)), task);
    }
  };
  for (std::size_t t = 0; t < keys.size(); ++t) {
    waits.push_back(batch.before[t].size());
    if (waits[t] == 0) release(static_cast<int>(t));
  }
  while (choice.order.size() < keys.size()) {
    auto now = static_cast<double>(later.empty() ? 0 : places.now());
    if (urgent.empty()) now = std::max(now, later.top().first);
    while (!later.empty() && later.top().first <= now) {
      const int task = later.top().second;
      later.pop();
      urgent.emplace(keys[at(task)], task);
    }
    const int task = urgent.top().second;
    urgent.pop();
    choice.node[at(task)] = places.put(task, rule.waste);
    choice.order.push_back(task);
    for (const int next : batch.behind[at(task)]) {
      if (--waits[at(next)] == 0) release(next);
    }
  }
  return choice;
}

Choice choice_of(const TimedBatch& batch, const std::vector<int>& assignment) {
  using Rank = std::tuple<int, Nanos, int>;
  std::priority_queue<Rank, std::vector<Rank>, std::greater<>> free;
  const auto release = [&](int task) {
    const int node = assignment[at(task)];
    free.emplace(node, -batch.forest.time(task, node), task);
  };
  Choice choice{.order = {}, .node = assignment};
  std::vector<std::size_t> waits;
  for (std::size_t t = 0; t < assignment.size(); ++t) {
    waits.push_back(batch.before[t].size());
    if (waits[t] == 0) release(static_cast<int>(t));
  }
  while (!free.empty()) {
    const int task = std::get<2>(free.top());
    free.pop();
    choice.order.push_back(task);
    for (const int next : batch.behind[at(task)]) {
      if (--waits[at(next)] == 0) release(next);
    }
  }
  return choice;
}

}  // namespace partita::planners::batch
