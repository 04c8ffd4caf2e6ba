#include "planners/batch/live.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "planners/batch/fifo.h"

namespace partita::planners::batch {
namespace {

// What has not ended when it was expected to, is expected to take this share of its time longer.
constexpr double kOverdue = 0.2;
constexpr Nanos kLeastLeft = 1'000'000;  // 1 ms
constexpr Nanos kChangeOverdue = 100'000'000;

}  // namespace

Result<LivePlanner> LivePlanner::create(plan::BatchProblem problem, const LiveOptions& options) {
  problem.tasks.clear();
  CHECK(!problem.gpus.empty());
  Result<Forest> forest = make_forest(problem);
  if (!forest) return failed(forest.error());
  return LivePlanner(std::move(problem), std::move(*forest), options);
}

LivePlanner::LivePlanner(plan::BatchProblem problem, Forest forest, const LiveOptions& options)
    : options_(options), gpus_(std::move(problem)), forest_(std::move(forest)) {
  for (const Node& node : forest_.nodes) {
    const auto model = at(gpus_.gpus[at(node.gpu)]);
    gpcs_.push_back(gpus_.models[model].profiles[at(node.profile)].gpcs);
  }
  closed_.resize(at(forest_.columns()), 0);
  reconfiguring_.resize(at(forest_.reconfigurers()), 0);
}

// ---- what happens

void LivePlanner::add(LiveTask task) {
  const long id = task.id;
  came_.emplace_back(task.since, least_area_of(task));
  order_.emplace(task.rank, id);
  CHECK(waiting_.emplace(id, std::move(task)).second);
  stale_ = true;
}

void LivePlanner::change(LiveTask task) {
  const auto found = waiting_.find(task.id);
  CHECK(found != waiting_.end());
  order_.erase({found->second.rank, task.id});
  order_.emplace(task.rank, task.id);
  found->second = std::move(task);
  stale_ = true;
}

void LivePlanner::remove(long id) {
  const auto found = waiting_.find(id);
  CHECK(found != waiting_.end());
  order_.erase({found->second.rank, id});
  waiting_.erase(found);
  stale_ = true;
}

void LivePlanner::ended(long id, Nanos) {
  const auto found = running_.find(id);
  CHECK(found != running_.end());
  Instance& instance = instances_.at(found->second.node);
  CHECK(instance.task == id);
  instance = {};
  running_.erase(found);
  stale_ = true;
}

void LivePlanner::found(int node) {
  CHECK(instances_.emplace(node, Instance{}).second);
  stale_ = true;
}

void LivePlanner::found_running(const LiveTask& task, int node, Nanos began) {
  Instance& instance = instances_.at(node);
  CHECK(instance.state == Instance::State::idle);
  instance = {Instance::State::busy, 0, task.id};
  const auto model = at(gpus_.gpus[at(forest_.nodes[at(node)].gpu)]);
  running_[task.id] = {task, node, began, task.times[model][gpcs_[at(node)]]};
  stale_ = true;
}

void LivePlanner::changed(const Decisions::Change& change, bool done, Nanos) {
  reconfiguring_[at(forest_.reconfigurer_of(change.node))] = 0;
  Instance& instance = instances_.at(change.node);
  const bool create = change.op == LiveOp::create;
  CHECK(instance.state == (create ? Instance::State::creating : Instance::State::destroying));
  if (create == done) {
    instance = {};
  } else {
    instances_.erase(change.node);
  }
  if (!done) stale_ = true;
}

void LivePlanner::vanished(int node) {
  CHECK(idle(node));
  instances_.erase(node);
  stale_ = true;
}

void LivePlanner::close(int node, bool closed) {
  const Node& closing = forest_.nodes[at(node)];
  for (int c = closing.first_column; c < closing.first_column + closing.columns; ++c)
    closed_[at(c)] += closed ? 1 : -1;
  stale_ = true;
}

void LivePlanner::avoid(int node, Nanos until) {
  avoided_[node] = until;
  stale_ = true;
}

bool LivePlanner::retire(int node, Nanos now) {
  char& busy = reconfiguring_[at(forest_.reconfigurer_of(node))];
  if (busy || !idle(node)) return false;
  const auto avoided = avoided_.find(node);
  if (avoided != avoided_.end() && avoided->second > now) return false;
  busy = 1;
  instances_[node] = {Instance::State::destroying, now + forest_.nodes[at(node)].destroy, 0};
  return true;
}

// ---- planning

double LivePlanner::least_area_of(const LiveTask& task) const {
  double least = 0;
  for (std::size_t v = 0; v < forest_.nodes.size(); ++v) {
    const Node& node = forest_.nodes[v];
    const Nanos time = task.times[at(gpus_.gpus[at(node.gpu)])][gpcs_[v]];
    const double area = static_cast<double>(time) * node.columns;
    if (time > 0 && (least == 0 || area < least)) least = area;
  }
  return least;
}

bool LivePlanner::fits(long waiting, int node) const {
  const auto model = at(gpus_.gpus[at(forest_.nodes[at(node)].gpu)]);
  return waiting_.at(waiting).times[model][gpcs_[at(node)]] > 0;
}

// Beside what runs.
bool LivePlanner::has_room(const LiveTask& task) const {
  if (task.cpus == 0 && task.ram_gib == 0) return true;
  int cpus = task.cpus;
  double ram = task.ram_gib;
  for (const auto& [id, running] : running_) {
    cpus += running.task.cpus;
    ram += running.task.ram_gib;
  }
  return (cpus_ == 0 || cpus <= cpus_) && (ram_gib_ == 0 || ram <= ram_gib_ + 1e-9);
}

bool LivePlanner::idle(int node) const {
  const auto found = instances_.find(node);
  return found != instances_.end() && found->second.state == Instance::State::idle;
}

std::vector<int> LivePlanner::instances() const {
  std::vector<int> nodes;
  for (const auto& [node, instance] : instances_) nodes.push_back(node);
  return nodes;
}

std::optional<int> LivePlanner::node_of(long running) const {
  const auto found = running_.find(running);
  if (found == running_.end()) return std::nullopt;
  return found->second.node;
}

std::optional<LivePlanner::Expected> LivePlanner::expected(long id) const {
  for (std::size_t t = 0; t < planned_.size(); ++t) {
    if (planned_[t] != id || !waiting_.contains(id)) continue;
    return Expected{plan_.physical.node[t], planned_at_ + plan_.physical.begin[t],
                    planned_at_ + plan_.physical.end[t]};
  }
  return std::nullopt;
}

Nanos LivePlanner::expected_end(const Running& running, Nanos now) const {
  const Nanos end = running.began + running.time;
  if (end > now) return end;
  const double more = std::max(kOverdue, running.task.cv) * static_cast<double>(running.time);
  return now + std::max(kLeastLeft, static_cast<Nanos>(more));
}

// Relative to now. Columns of instances being destroyed are free once they are gone.
Start LivePlanner::start(Nanos now) const {
  Start start;
  start.column.resize(at(forest_.columns()), 0);
  start.reconfigurer.resize(at(forest_.reconfigurers()), 0);
  const auto left = [&](Nanos until) { return until > now ? until - now : kChangeOverdue; };
  for (const auto& [index, instance] : instances_) {
    const Node& node = forest_.nodes[at(index)];
    Nanos& reconfigurer = start.reconfigurer[at(forest_.reconfigurer_of(index))];
    switch (instance.state) {
      case Instance::State::idle:
        start.alive.push_back({index, 0});
        break;
      case Instance::State::busy:
        start.alive.push_back({index, expected_end(running_.at(instance.task), now) - now});
        break;
      case Instance::State::creating:
        reconfigurer = left(instance.until);
        start.alive.push_back({index, reconfigurer});
        break;
      case Instance::State::destroying:
        reconfigurer = left(instance.until);
        for (int c = node.first_column; c < node.first_column + node.columns; ++c)
          start.column[at(c)] = reconfigurer;
        break;
    }
  }
  // Where the driver has refused: later, whatever is there.
  for (const auto& [index, until] : avoided_) {
    if (until <= now) continue;
    const Node& node = forest_.nodes[at(index)];
    for (int c = node.first_column; c < node.first_column + node.columns; ++c)
      start.column[at(c)] = std::max(start.column[at(c)], until - now);
    for (Start::Alive& there : start.alive) {
      if (there.node == index) there.free = std::max(there.free, until - now);
    }
  }
  for (std::size_t c = 0; c < closed_.size(); ++c) {
    if (closed_[c] > 0) start.column[c] = kNever;
  }
  return start;
}

bool LivePlanner::fits_somewhere(const LiveTask& task) const {
  for (std::size_t v = 0; v < forest_.nodes.size(); ++v) {
    const Node& node = forest_.nodes[v];
    if (task.times[at(gpus_.gpus[at(node.gpu)])][gpcs_[v]] == 0) continue;
    bool open = true;
    for (int c = node.first_column; c < node.first_column + node.columns; ++c)
      open = open && closed_[at(c)] == 0;
    if (open) return true;
  }
  return false;
}

void LivePlanner::fill_times(Forest& forest) const {
  forest.tasks = static_cast<int>(planned_.size());
  forest.times.assign(planned_.size() * at(forest.classes), kNever);
  std::vector<int> of_class(at(forest.classes), -1);  // a node of each
  for (std::size_t v = 0; v < forest.nodes.size(); ++v)
    of_class[at(forest.nodes[v].size_class)] = static_cast<int>(v);
  for (std::size_t t = 0; t < planned_.size(); ++t) {
    const LiveTask& task = waiting_.at(planned_[t]);
    for (std::size_t k = 0; k < of_class.size(); ++k) {
      const Node& node = forest.nodes[at(of_class[k])];
      const Nanos time = task.times[at(gpus_.gpus[at(node.gpu)])][gpcs_[at(of_class[k])]];
      if (time > 0) forest.times[t * at(forest.classes) + k] = time;
    }
  }
}

// What waits, as far as it can be planned: the window, without what comes after something that is
// not planned itself.
TimedBatch LivePlanner::tail(Nanos now) {
  planned_.clear();
  std::map<long, int> number;
  TimedBatch batch;
  for (const auto& [rank, id] : order_) {
    if (planned_.size() >= at(options_.window)) break;
    const LiveTask& task = waiting_.at(id);
    const auto known = [&](long before) {
      return !waiting_.contains(before) || number.contains(before);
    };
    if (!std::ranges::all_of(task.after, known) || !fits_somewhere(task)) continue;
    number[id] = static_cast<int>(planned_.size());
    planned_.push_back(id);
  }
  batch.forest = forest_;
  fill_times(batch.forest);
  const auto weight = [&](const LiveTask& task) {
    if (options_.ageing <= 0) return task.weight;
    const auto waited = static_cast<double>(std::max<Nanos>(0, now - task.since));
    return task.weight * (1 + waited / static_cast<double>(options_.ageing));
  };
  double most = 0;
  for (const long id : planned_) most = std::max(most, weight(waiting_.at(id)));
  batch.weight_unit = most / 1048576;
  batch.before.resize(planned_.size());
  batch.behind.resize(planned_.size());
  for (std::size_t t = 0; t < planned_.size(); ++t) {
    const LiveTask& task = waiting_.at(planned_[t]);
    Nanos release = std::max<Nanos>(0, task.release - now);
    for (const long before : task.after) {
      if (const auto runs = running_.find(before); runs != running_.end())
        release = std::max(release, expected_end(runs->second, now) - now);
      const auto found = number.find(before);
      if (found == number.end()) continue;
      batch.before[t].push_back(found->second);
      batch.behind[at(found->second)].push_back(static_cast<int>(t));
    }
    batch.release.push_back(release);
    batch.deadline.push_back(task.deadline ? *task.deadline - now : kNever);
    batch.weight.push_back(
        std::max<std::int64_t>(1, static_cast<std::int64_t>(weight(task) / batch.weight_unit)));
    batch.topological.push_back(static_cast<int>(t));
  }
  batch.start = start(now);
  return batch;
}

// How busy what came lately keeps the machine, by least areas: 0 to 2.
double LivePlanner::load(Nanos now) {
  std::erase_if(came_, [&](const auto& one) { return one.first < now - options_.load_window; });
  if (came_.size() < 2) return 0;
  double area = 0;
  for (const auto& [time, least] : came_) area += least;
  const auto span = static_cast<double>(std::max<Nanos>(1, now - came_.front().first));
  return std::min(2.0, area / span / forest_.columns());
}

void LivePlanner::replan(Nanos now) {
  std::map<long, int> node_before;
  std::vector<long> order_before;
  for (const int task : plan_.choice.order) order_before.push_back(planned_[at(task)]);
  for (std::size_t t = 0; t < planned_.size() && t < plan_.choice.node.size(); ++t)
    node_before[planned_[t]] = plan_.choice.node[t];
  const TimedBatch batch = tail(now);
  // The plan before, as far as it goes; what is new comes last, wherever it is done first.
  std::optional<Choice> before;
  std::map<long, int> number;
  for (std::size_t t = 0; t < planned_.size(); ++t) number[planned_[t]] = static_cast<int>(t);
  std::erase_if(avoided_, [&](const auto& one) { return one.second <= now; });
  const bool all_known = std::ranges::all_of(
      planned_, [&](long id) { return node_before.contains(id); });
  if (all_known && !planned_.empty()) {
    before.emplace();
    before->node.resize(planned_.size());
    for (const long id : order_before) {
      const auto found = number.find(id);
      if (found == number.end()) continue;
      before->order.push_back(found->second);
      before->node[at(found->second)] = node_before.at(id);
    }
  }
  TailOptions options{.aim = options_.aim, .appends = options_.appends};
  options.aim.area += options_.area_by_load * load(now);
  options.seed = options_.seed + static_cast<std::uint64_t>(plannings_);
  plannings_ += stale_ ? 1 : 0;
  options.before = before ? &*before : nullptr;
  options.follow = !stale_;
  plan_ = plan_tail(batch, options);
  planned_at_ = now;
  stale_ = false;
}

// ---- what to do

bool LivePlanner::free_for(int node) const {
  for (const auto& [other, instance] : instances_) {
    if (forest_.conflict(other, node)) return false;
  }
  return true;
}

bool LivePlanner::can_begin(const LiveTask& task, Nanos now) const {
  return task.release <= now && has_room(task) &&
         std::ranges::none_of(task.after, [&](long before) {
           return waiting_.contains(before) || running_.contains(before);
         });
}

// What the plan begins now: the plan is of this moment.
void LivePlanner::take_starts(Nanos now, Decisions& decisions) {
  std::map<int, char> used;
  std::set<int> skipped;
  for (const int t : plan_.choice.order) {
    const int node = plan_.choice.node[at(t)];
    // The first task of an instance's order is the one that may start there.
    const long id = planned_[at(t)];
    // Where there are no CPUs or no memory for it, the next one that could begin takes its turn.
    if (plan_.physical.begin[at(t)] <= 0 && !has_room(waiting_.at(id))) {
      skipped.insert(node);
      continue;
    }
    const bool begins = plan_.physical.begin[at(t)] <= 0 || skipped.contains(node);
    if (!used.emplace(node, 1).second || !begins || !idle(node)) continue;
    if (skipped.contains(node) && !can_begin(waiting_.at(id), now)) continue;
    decisions.starts.push_back({id, node});
    const auto task = waiting_.find(id);
    instances_[node] = {Instance::State::busy, 0, id};
    order_.erase({task->second.rank, id});
    running_[id] = {std::move(task->second), node, now,
                    plan_.physical.end[at(t)] - plan_.physical.begin[at(t)]};
    waiting_.erase(task);
  }
}

void LivePlanner::take_changes(Nanos now, Decisions& decisions) {
  for (const Op& op : plan_.physical.ops) {
    if (op.begin > 0) break;
    char& busy = reconfiguring_[at(forest_.reconfigurer_of(op.node))];
    const bool create = op.op == LiveOp::create;
    if (busy || (create ? !free_for(op.node) : !idle(op.node))) continue;
    busy = 1;
    decisions.changes.push_back({op.op, op.node});
    instances_[op.node] = {create ? Instance::State::creating : Instance::State::destroying,
                           now + op.end, 0};
  }
}

Decisions LivePlanner::decide(Nanos now) {
  Decisions decisions;
  if (waiting_.empty()) return decisions;
  replan(now);
  take_starts(now, decisions);
  take_changes(now, decisions);
  // All else that the plan waits for is told.
  for (const auto& [id, task] : waiting_) {
    if (task.release > now && (!decisions.wake || task.release < *decisions.wake))
      decisions.wake = task.release;
  }
  for (const auto& [node, until] : avoided_) {
    if (until > now && (!decisions.wake || until < *decisions.wake)) decisions.wake = until;
  }
  return decisions;
}

}  // namespace partita::planners::batch
