#include "planners/batch/live.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace partita::planners::batch {
namespace {

constexpr double kLiveWeightSteps = 1048576;  // 2^20
constexpr double kMostLoad = 2;

}  // namespace

Result<LivePlanner> LivePlanner::create(plan::BatchProblem problem, const LiveOptions& options) {
  problem.tasks.clear();
  CHECK(!problem.gpus.empty());
  Result<Forest> forest = make_forest(problem);
  if (!forest) return failed(forest.error());
  return LivePlanner(LiveMachine(std::move(problem), std::move(*forest)), options);
}

void LivePlanner::add(LiveTask task) {
  const long id = task.id;
  came_.emplace_back(task.since, machine_.least_area(task));
  order_.emplace(task.rank, id);
  CHECK(waiting_.emplace(id, std::move(task)).second);
  came_something_ = true;
}

void LivePlanner::change(LiveTask task) {
  const auto found = waiting_.find(task.id);
  CHECK(found != waiting_.end());
  order_.erase({found->second.rank, task.id});
  order_.emplace(task.rank, task.id);
  found->second = std::move(task);
  came_something_ = true;
}

void LivePlanner::remove(long id) {
  const auto found = waiting_.find(id);
  CHECK(found != waiting_.end());
  order_.erase({found->second.rank, id});
  waiting_.erase(found);
  came_something_ = true;
}

std::optional<LivePlanner::Expected> LivePlanner::expected(long id) const {
  const auto found = number_.find(id);
  if (found == number_.end() || !waiting_.contains(id)) return std::nullopt;
  const std::size_t t = at(found->second);
  return Expected{plan_.physical.node[t], planned_at_ + plan_.physical.begin[t],
                  planned_at_ + plan_.physical.end[t]};
}

// ---- planning

void LivePlanner::fill_times(Forest& forest) const {
  forest.tasks = static_cast<int>(planned_.size());
  forest.times.assign(planned_.size() * at(forest.classes), kNever);
  std::vector<int> of_class(at(forest.classes), -1);  // a node of each
  for (std::size_t v = 0; v < forest.nodes.size(); ++v)
    of_class[at(forest.nodes[v].size_class)] = static_cast<int>(v);
  for (std::size_t t = 0; t < planned_.size(); ++t) {
    const LiveTask& task = waiting_.at(planned_[t]);
    for (std::size_t k = 0; k < of_class.size(); ++k) {
      const Nanos time = machine_.time(task, of_class[k]);
      if (time > 0) forest.times[t * at(forest.classes) + k] = time;
    }
  }
}

// The first of what waits, without what comes after something that is not among them.
void LivePlanner::choose_window() {
  planned_.clear();
  number_.clear();
  for (const auto& [rank, id] : order_) {
    if (planned_.size() >= at(options_.window)) break;
    const LiveTask& task = waiting_.at(id);
    const auto known = [&](long before) {
      return !waiting_.contains(before) || number_.contains(before);
    };
    if (!std::ranges::all_of(task.after, known) || !machine_.fits_somewhere(task)) continue;
    number_[id] = static_cast<int>(planned_.size());
    planned_.push_back(id);
  }
}

double LivePlanner::weight(const LiveTask& task, Nanos now) const {
  if (options_.ageing <= 0) return task.weight;
  const auto waited = static_cast<double>(std::max<Nanos>(0, now - task.since));
  return task.weight * (1 + waited / static_cast<double>(options_.ageing));
}

TimedBatch LivePlanner::tail(Nanos now) {
  choose_window();
  TimedBatch batch;
  batch.forest = machine_.forest();
  fill_times(batch.forest);
  double most = 0;
  for (const long id : planned_) most = std::max(most, weight(waiting_.at(id), now));
  batch.weight_unit = most / kLiveWeightSteps;
  batch.before.resize(planned_.size());
  batch.behind.resize(planned_.size());
  for (std::size_t t = 0; t < planned_.size(); ++t) {
    const LiveTask& task = waiting_.at(planned_[t]);
    Nanos release = std::max<Nanos>(0, task.release - now);
    for (const long before : task.after) {
      if (machine_.runs(before))
        release = std::max(release, machine_.expected_end(before, now) - now);
      const auto found = number_.find(before);
      if (found == number_.end()) continue;
      batch.before[t].push_back(found->second);
      batch.behind[at(found->second)].push_back(static_cast<int>(t));
    }
    batch.release.push_back(release);
    batch.deadline.push_back(task.deadline ? *task.deadline - now : kNever);
    const auto steps = static_cast<std::int64_t>(weight(task, now) / batch.weight_unit);
    batch.weight.push_back(std::max<std::int64_t>(1, steps));
    batch.topological.push_back(static_cast<int>(t));
  }
  batch.start = machine_.start(now);
  return batch;
}

// How busy what came lately keeps the machine, by least areas.
double LivePlanner::load(Nanos now) {
  std::erase_if(came_, [&](const auto& one) { return one.first < now - options_.load_window; });
  if (came_.size() < 2) return 0;
  double area = 0;
  for (const auto& [time, least] : came_) area += least;
  const auto span = static_cast<double>(std::max<Nanos>(1, now - came_.front().first));
  return std::min(kMostLoad, area / span / machine_.forest().columns());
}

void LivePlanner::replan(Nanos now) {
  // The plan before, as far as it goes, by ids.
  std::map<long, int> node_before;
  std::vector<long> order_before;
  for (const int task : plan_.choice.order) {
    order_before.push_back(planned_[at(task)]);
    node_before[order_before.back()] = plan_.choice.node[at(task)];
  }
  const TimedBatch batch = tail(now);
  Choice before;
  before.node.resize(planned_.size());
  for (const long id : order_before) {
    const auto found = number_.find(id);
    if (found == number_.end()) continue;
    before.order.push_back(found->second);
    before.node[at(found->second)] = node_before.at(id);
  }
  const bool whole = before.order.size() == planned_.size();
  const bool surprised = came_something_ || machine_.surprises() != surprises_;
  TailOptions options{.aim = options_.aim, .appends = options_.appends};
  options.aim.area += options_.area_by_load * load(now);
  options.seed = options_.seed + static_cast<std::uint64_t>(plannings_);
  options.before = whole ? &before : nullptr;
  options.follow = !surprised;
  plannings_ += surprised ? 1 : 0;
  plan_ = plan_tail(batch, options);
  planned_at_ = now;
  came_something_ = false;
  surprises_ = machine_.surprises();
}

// ---- what to do

bool LivePlanner::ready(const LiveTask& task, Nanos now) const {
  return task.release <= now && std::ranges::none_of(task.after, [&](long before) {
           return waiting_.contains(before) || machine_.runs(before);
         });
}

// What the plan begins now; it is of this moment. Where there are no CPUs or no memory for the
// first task of an instance, the next one takes its turn.
void LivePlanner::take_starts(Nanos now, Decisions& decisions) {
  std::set<int> used, skipped;
  for (const int t : plan_.choice.order) {
    const int node = plan_.choice.node[at(t)];
    if (!machine_.idle(node) || used.contains(node)) continue;
    const auto task = waiting_.find(planned_[at(t)]);
    const bool due = plan_.physical.begin[at(t)] <= 0;
    if (!due && !(skipped.contains(node) && ready(task->second, now))) {
      used.insert(node);
      continue;
    }
    if (!machine_.has_room(task->second)) {
      skipped.insert(node);
      continue;
    }
    used.insert(node);
    decisions.starts.push_back({task->first, node});
    order_.erase({task->second.rank, task->first});
    machine_.began(std::move(task->second), node, now);
    waiting_.erase(task);
  }
}

Decisions LivePlanner::decide(Nanos now) {
  Decisions decisions;
  if (waiting_.empty()) return decisions;
  replan(now);
  take_starts(now, decisions);
  for (const Op& op : plan_.physical.ops) {
    if (op.begin > 0) break;
    const LiveChange change{op.op, op.node};
    if (!machine_.can_begin(change)) continue;
    machine_.change_began(change, now);
    decisions.changes.push_back(change);
  }
  // All else that the plan waits for is told.
  decisions.wake = machine_.next_try(now);
  for (const auto& [id, task] : waiting_) {
    if (task.release > now && (!decisions.wake || task.release < *decisions.wake))
      decisions.wake = task.release;
  }
  return decisions;
}

}  // namespace partita::planners::batch
