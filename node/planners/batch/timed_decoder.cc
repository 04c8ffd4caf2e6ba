#include "planners/batch/timed_decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/check.h"
#include "planners/batch/fifo.h"

namespace partita::planners::batch {
namespace {

constexpr double kWeightSteps = 1073741824;  // 2^30

}  // namespace

TimedBatch make_timed(const plan::BatchProblem& problem, Forest forest) {
  TimedBatch batch;
  batch.forest = std::move(forest);
  double most = 0;
  for (const plan::Task& task : problem.tasks) most = std::max(most, task.priority);
  batch.weight_unit = most / kWeightSteps;
  for (const plan::Task& task : problem.tasks) {
    batch.release.push_back(task.release);
    batch.deadline.push_back(task.deadline.value_or(kNever));
    const auto steps = std::llround(task.priority / most * kWeightSteps);
    batch.weight.push_back(std::max<std::int64_t>(1, steps));
  }
  Precedence links = precedence(problem.tasks);
  batch.topological = fifo_order(links);
  CHECK(batch.topological.size() == problem.tasks.size());
  batch.before = std::move(links.before);
  batch.behind = std::move(links.behind);
  return batch;
}

double Energy::of(const Worth& worth) const {
  const auto late = static_cast<double>(worth.lateness);
  const auto span = static_cast<double>(worth.makespan);
  return lateness * late + makespan * span + finishing * static_cast<double>(worth.finishing) +
         lateness_excess * std::max(0.0, late - lateness_target) +
         makespan_excess * std::max(0.0, span - makespan_target);
}

TimedDecoder::TimedDecoder(const TimedBatch& batch) : batch_(batch) {
  for (const Node& node : batch.forest.nodes) {
    nodes_.push_back({batch.forest.reconfigurer.number(node.gpu), node.first_column, node.columns,
                      node.size_class, node.token, node.create, node.destroy});
  }
  end_.resize(at(batch.forest.tasks));
  found_busy_.resize(at(batch.forest.reconfigurers()));
  found_last_.resize(at(batch.forest.held()), -1);
  find(batch.start);
  clear();
}

void TimedDecoder::find(const Start& start) {
  for (std::size_t r = 0; r < start.reconfigurer.size(); ++r) {
    if (start.reconfigurer[r] > 0) found_busy_[r].push_back({0, start.reconfigurer[r]});
  }
  for (const Start::Alive& there : start.alive) {
    const int life = static_cast<int>(found_lives_.size());
    found_lives_.push_back({there.node, there.free, -1});
    batch_.forest.each_held(there.node, [&](int c) { found_last_[at(c)] = life; });
  }
  for (std::size_t c = 0; c < start.column.size(); ++c) {
    if (found_last_[c] >= 0 || start.column[c] <= 0) continue;
    found_last_[c] = static_cast<int>(found_lives_.size());
    found_lives_.push_back({-1, start.column[c], start.column[c]});
  }
}

void TimedDecoder::clear() {
  lives_ = found_lives_;
  last_ = found_last_;
  busy_ = found_busy_;
  worth_ = {};
  ops_.clear();
}

// The earliest gap of that length from `ready` on. Most reconfigurations come near the end.
TimedDecoder::Gap TimedDecoder::gap(const std::vector<Span>& busy, Nanos ready,
                                    Nanos length) const {
  std::size_t i = busy.size();
  while (i > 0 && busy[i - 1].end > ready) --i;
  for (; i < busy.size() && busy[i].begin < ready + length; ++i) {
    ready = std::max(ready, busy[i].end);
  }
  return {ready, i};
}

// The life on the node if it exists: nothing that conflicts came since, or it would be gone.
int TimedDecoder::alive(int node) const {
  const int life = last_[at(nodes_[at(node)].first_column)];
  if (life < 0 || lives_[at(life)].node != node || lives_[at(life)].gone >= 0) return -1;
  return life;
}

void TimedDecoder::find_in_the_way(const Lean& node) {
  in_the_way_.clear();
  gone_ = 0;
  int seen = -1;
  const auto look = [&](int c) {
    const int index = last_[at(c)];
    if (index < 0 || index == seen) return;
    seen = index;
    const Life& life = lives_[at(index)];
    if (life.gone >= 0) {
      gone_ = std::max(gone_, life.gone);
      return;
    }
    auto place = in_the_way_.end();
    while (place != in_the_way_.begin() && lives_[at(*(place - 1))].end > life.end) --place;
    in_the_way_.insert(place, index);
  };
  for (int c = node.first_column; c < node.first_column + node.columns; ++c) look(c);
  // Its life is among those of the columns, or on none of them.
  if (node.token >= 0 && std::ranges::count(in_the_way_, last_[at(node.token)]) == 0)
    look(node.token);
}

Nanos TimedDecoder::available(int node_index) {
  if (const int life = alive(node_index); life >= 0) return lives_[at(life)].end;
  const Lean& node = nodes_[at(node_index)];
  const std::vector<Span>& busy = busy_[at(node.reconfigurer)];
  find_in_the_way(node);
  Nanos free = 0;
  for (const int index : in_the_way_) {
    const Life& life = lives_[at(index)];
    const Nanos destroy = nodes_[at(life.node)].destroy;
    free = gap(busy, std::max(free, life.end), destroy).begin + destroy;
  }
  return gap(busy, std::max(free, gone_), node.create).begin + node.create;
}

void TimedDecoder::record(plan::Reconfiguration::Op op, int node, Nanos begin, Nanos end) {
  if (recording_) ops_.push_back({op, node, begin, end});
}

// Destroys what is in the way, creates the instance; returns its life.
int TimedDecoder::open(int node_index) {
  using Kind = plan::Reconfiguration::Op;
  const Lean& node = nodes_[at(node_index)];
  std::vector<Span>& busy = busy_[at(node.reconfigurer)];
  const auto reserve = [&](Nanos ready, Nanos length) {
    const Gap found = gap(busy, ready, length);
    busy.insert(busy.begin() + static_cast<std::ptrdiff_t>(found.position),
                {found.begin, found.begin + length});
    return found.begin;
  };
  find_in_the_way(node);
  Nanos free = 0;
  for (const int index : in_the_way_) {
    Life& life = lives_[at(index)];
    const Nanos destroy = nodes_[at(life.node)].destroy;
    const Nanos begin = reserve(std::max(free, life.end), destroy);
    free = life.gone = begin + destroy;
    record(Kind::destroy, life.node, begin, free);
  }
  const Nanos begin = reserve(std::max(free, gone_), node.create);
  record(Kind::create, node_index, begin, begin + node.create);
  const int life = static_cast<int>(lives_.size());
  lives_.push_back({node_index, begin + node.create, -1});
  batch_.forest.each_held(node_index, [&](int c) { last_[at(c)] = life; });
  return life;
}

Nanos TimedDecoder::ready(int task) const {
  Nanos ready = batch_.release[at(task)];
  for (const int before : batch_.before[at(task)]) ready = std::max(ready, end_[at(before)]);
  return ready;
}

// Those of its class that are available first, beside it and each other.
void TimedDecoder::take_others(int node, int count) {
  std::vector<std::pair<Nanos, int>> all;
  for (int v = 0; v < static_cast<int>(nodes_.size()); ++v) {
    if (v != node && nodes_[at(v)].size_class == nodes_[at(node)].size_class)
      all.emplace_back(available(v), v);
  }
  std::ranges::sort(all);
  for (const auto& [free, other] : all) {
    if (static_cast<int>(taken_.size()) == count) return;
    const auto meets = [&](int one) { return batch_.forest.conflict(one, other); };
    if (std::ranges::none_of(taken_, meets)) taken_.push_back(other);
  }
}

Nanos TimedDecoder::append(int task, int node) {
  taken_.assign(1, node);
  if (const int width = batch_.width_of(task); width > 1) take_others(node, width);
  Nanos begin = ready(task);
  for (const int one : taken_) {
    int index = alive(one);
    if (index < 0) index = open(one);
    begin = std::max(begin, lives_[at(index)].end);
  }
  const Nanos end = begin + batch_.forest.time(task, node);
  for (const int one : taken_) lives_[at(alive(one))].end = end;
  end_[at(task)] = end;
  if (recording_) others_[at(task)].assign(taken_.begin() + 1, taken_.end());
  const Wide weight = batch_.weight[at(task)];
  const Nanos late = end - batch_.deadline[at(task)];
  if (late > 0) worth_.lateness += weight * late;
  worth_.makespan = std::max(worth_.makespan, end);
  worth_.finishing += weight * end;
  return end;
}

bool TimedDecoder::play(const Choice& choice, const Energy& energy, double limit) {
  clear();
  int until_look = 4;  // every task would cost more than it saves
  for (const int task : choice.order) {
    append(task, choice.node[at(task)]);
    if (--until_look > 0) continue;
    until_look = 4;
    if (energy.of(worth_) > limit) return false;
  }
  return energy.of(worth_) <= limit;
}

Worth TimedDecoder::play(const Choice& choice) {
  play(choice, {}, std::numeric_limits<double>::infinity());
  return worth_;
}

Physical TimedDecoder::physical(const Choice& choice) {
  recording_ = true;
  others_.assign(end_.size(), {});
  play(choice);
  recording_ = false;
  Physical physical;
  physical.node = choice.node;
  physical.others = std::move(others_);
  physical.end = end_;
  physical.ops = std::move(ops_);
  for (std::size_t t = 0; t < end_.size(); ++t) {
    physical.begin.push_back(end_[t] - batch_.forest.time(static_cast<int>(t), choice.node[t]));
  }
  std::ranges::sort(physical.ops, {}, [](const Op& op) {
    return std::tuple(op.begin, op.end, op.node, static_cast<int>(op.op));
  });
  physical.makespan = worth_.makespan;
  ops_.clear();
  return physical;
}

Visits TimedDecoder::visits(const Choice& choice) {
  clear();
  Visits visits;
  for (const int task : choice.order) {
    const int node = choice.node[at(task)];
    append(task, node);
    const int life = alive(node);
    if (life == static_cast<int>(visits.size())) visits.push_back({node, {}});
    visits[at(life)].tasks.push_back(task);
  }
  return visits;
}

}  // namespace partita::planners::batch
