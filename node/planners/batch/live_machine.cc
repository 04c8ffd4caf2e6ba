#include "planners/batch/live_machine.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "planners/batch/spread.h"

namespace partita::planners::batch {
namespace {

constexpr Nanos kLeastLeft = 1'000'000;  // 1 ms
constexpr Nanos kChangeOverdue = 100'000'000;

}  // namespace

LiveMachine::LiveMachine(plan::BatchProblem problem, Forest forest)
    : gpus_(std::move(problem)), forest_(std::move(forest)) {
  for (const Node& node : forest_.nodes) {
    const auto model = at(gpus_.gpus[at(node.gpu)]);
    gpcs_.push_back(gpus_.models[model].profiles[at(node.profile)].gpcs);
  }
  forest_.children.clear();  // nobody here asks
  closed_.resize(at(forest_.held()), 0);
  count_room();
  reconfiguring_.resize(at(forest_.reconfigurers()), 0);
}

// ---- what happens

bool LiveMachine::open(int node) const {
  bool open = true;
  forest_.each_held(node, [&](int c) { open = open && closed_[at(c)] == 0; });
  return open;
}

// Nodes of a class are disjoint but for the token that they may share.
void LiveMachine::count_room() {
  room_.assign(at(forest_.classes), 0);
  std::set<std::pair<int, int>> taken;
  for (int v = 0; v < static_cast<int>(forest_.nodes.size()); ++v) {
    const Node& node = forest_.nodes[at(v)];
    if (!open(v) || (node.token >= 0 && !taken.emplace(node.size_class, node.token).second))
      continue;
    ++room_[at(node.size_class)];
  }
}

void LiveMachine::began(LiveTask task, std::vector<int> nodes, Nanos now) {
  const long id = task.id;
  for (const int node : nodes) {
    Instance& instance = instances_.at(node);
    CHECK(instance.state == Instance::State::idle);
    instance = {Instance::State::busy, 0, id};
  }
  const Nanos takes = time(task, nodes.front());
  running_[id] = {std::move(task), std::move(nodes), now, takes};
}

void LiveMachine::ended(long id) {
  const auto found = running_.find(id);
  CHECK(found != running_.end());
  for (const int node : found->second.nodes) {
    Instance& instance = instances_.at(node);
    CHECK(instance.task == id);
    if (instance.gone)
      instances_.erase(node);
    else
      instance = {};
  }
  running_.erase(found);
  ++surprises_;
}

void LiveMachine::found(int node) {
  CHECK(instances_.emplace(node, Instance{}).second);
  ++surprises_;
}

std::optional<long> LiveMachine::gone(int node) {
  const auto found = instances_.find(node);
  if (found == instances_.end()) return {};
  ++surprises_;
  Instance& instance = found->second;
  if (instance.state == Instance::State::busy) {
    instance.gone = true;
    return instance.task;
  }
  if (instance.state == Instance::State::idle) instances_.erase(found);
  return {};
}

void LiveMachine::change_began(const LiveChange& change, Nanos now) {
  reconfiguring_[at(forest_.reconfigurer_of(change.node))] = 1;
  const Node& node = forest_.nodes[at(change.node)];
  const bool create = change.op == LiveOp::create;
  instances_[change.node] = {create ? Instance::State::creating : Instance::State::destroying,
                             now + (create ? node.create : node.destroy), 0};
}

void LiveMachine::changed(const LiveChange& change, bool done) {
  reconfiguring_[at(forest_.reconfigurer_of(change.node))] = 0;
  Instance& instance = instances_.at(change.node);
  const bool create = change.op == LiveOp::create;
  CHECK(instance.state == (create ? Instance::State::creating : Instance::State::destroying));
  if (create == done) {
    instance = {};
  } else {
    instances_.erase(change.node);
  }
  if (!done) ++surprises_;
}

void LiveMachine::close(int node, bool closed) {
  forest_.each_held(node, [&](int c) { closed_[at(c)] += closed ? 1 : -1; });
  count_room();
  ++surprises_;
}

void LiveMachine::avoid(int node, Nanos until) {
  avoided_[node] = until;
  ++surprises_;
}

bool LiveMachine::retire(int node, Nanos now) {
  const auto avoided = avoided_.find(node);
  if (avoided != avoided_.end() && avoided->second > now) return false;
  const LiveChange change{LiveOp::destroy, node};
  if (!can_begin(change)) return false;
  change_began(change, now);
  return true;
}

// ---- what is known

bool LiveMachine::idle(int node) const {
  const auto found = instances_.find(node);
  return found != instances_.end() && found->second.state == Instance::State::idle;
}

const std::vector<int>& LiveMachine::nodes_of(long running) const {
  static const std::vector<int> none;
  const auto found = running_.find(running);
  return found == running_.end() ? none : found->second.nodes;
}

Nanos LiveMachine::expected_end(long id, Nanos now) const { return end_of(id, now, {}); }

Nanos LiveMachine::end_of(long id, Nanos now, const Quantile& quantile) const {
  const Running& running = running_.at(id);
  const auto time = static_cast<double>(std::max<Nanos>(1, running.time));
  const double passed = static_cast<double>(std::max<Nanos>(0, now - running.began)) / time;
  const double takes = quantile ? lognormal_at(quantile(id), running.task.cv, passed)
                                : lognormal_mean(running.task.cv, passed);
  return std::max(now + kLeastLeft, running.began + static_cast<Nanos>(std::llround(takes * time)));
}

bool LiveMachine::fits_somewhere(const LiveTask& task) const {
  for (int v = 0; v < static_cast<int>(forest_.nodes.size()); ++v) {
    if (time(task, v) > 0 && open(v) && enough(task, v)) return true;
  }
  return false;
}

Nanos LiveMachine::time(const LiveTask& task, int node) const {
  const Node& of = forest_.nodes[at(node)];
  const auto model = at(gpus_.gpus[at(of.gpu)]);
  const bool may =
      task.profiles.empty() ? of.plain : ((task.profiles[model] >> of.profile) & 1) != 0;
  return may ? task.times[model][gpcs_[at(node)]] : 0;
}

double LiveMachine::least_area(const LiveTask& task) const {
  double least = 0;
  for (int v = 0; v < static_cast<int>(forest_.nodes.size()); ++v) {
    const double area = static_cast<double>(time(task, v)) * forest_.nodes[at(v)].columns;
    if (area > 0 && (least == 0 || area < least)) least = area;
  }
  return least;
}

bool LiveMachine::has_room(const LiveTask& task) const {
  if (task.cpus == 0 && task.ram_gib == 0) return true;
  int cpus = task.cpus;
  double ram = task.ram_gib;
  for (const auto& [id, running] : running_) {
    cpus += running.task.cpus;
    ram += running.task.ram_gib;
  }
  return (cpus_ == 0 || cpus <= cpus_) && (ram_gib_ == 0 || ram <= ram_gib_ + 1e-9);
}

bool LiveMachine::can_begin(const LiveChange& change) const {
  if (reconfiguring_[at(forest_.reconfigurer_of(change.node))]) return false;
  if (change.op == LiveOp::destroy) return idle(change.node);
  return std::ranges::none_of(
      instances_, [&](const auto& one) { return forest_.conflict(one.first, change.node); });
}

std::optional<Nanos> LiveMachine::next_try(Nanos now) const {
  std::optional<Nanos> next;
  for (const auto& [node, until] : avoided_) {
    if (until > now && (!next || until < *next)) next = until;
  }
  return next;
}

// Columns of instances being destroyed are free once they are gone.
void LiveMachine::add_instances(Start& start, Nanos now, const Quantile& quantile) const {
  const auto left = [&](Nanos until) { return until > now ? until - now : kChangeOverdue; };
  for (const auto& [index, instance] : instances_) {
    Nanos& reconfigurer = start.reconfigurer[at(forest_.reconfigurer_of(index))];
    switch (instance.state) {
      case Instance::State::idle:
        start.alive.push_back({index, 0});
        break;
      case Instance::State::busy:
        start.alive.push_back({index, end_of(instance.task, now, quantile) - now});
        break;
      case Instance::State::creating:
        reconfigurer = left(instance.until);
        start.alive.push_back({index, reconfigurer});
        break;
      case Instance::State::destroying:
        reconfigurer = left(instance.until);
        forest_.each_held(index, [&](int c) { start.column[at(c)] = reconfigurer; });
        break;
    }
  }
}

Start LiveMachine::start(Nanos now, const Quantile& quantile) const {
  Start start;
  start.column.resize(at(forest_.held()), 0);
  start.reconfigurer.resize(at(forest_.reconfigurers()), 0);
  add_instances(start, now, quantile);
  // Where the driver has refused: later, whatever is there.
  for (const auto& [index, until] : avoided_) {
    if (until <= now) continue;
    forest_.each_held(
        index, [&](int c) { start.column[at(c)] = std::max(start.column[at(c)], until - now); });
    for (Start::Alive& there : start.alive) {
      if (there.node == index) there.free = std::max(there.free, until - now);
    }
  }
  for (std::size_t c = 0; c < closed_.size(); ++c) {
    if (closed_[c] > 0) start.column[c] = kNever;
  }
  return start;
}

}  // namespace partita::planners::batch
