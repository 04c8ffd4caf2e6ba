#include "planners/batch/live.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "planners/batch/rollout.h"
#include "planners/batch/spread.h"

namespace partita::planners::batch {
namespace {

constexpr double kLiveWeightSteps = 1048576;            // 2^20
constexpr int kRemembered = 24, kRememberedPerGpu = 4;  // tasks that came
constexpr int kMostArrivals = 240;
constexpr double kManyTasks = 300, kMostAppends = 3;  // tasks; times the appends of so many
constexpr std::size_t kFewestKnown = 3;               // arrivals that tell how often
constexpr Nanos kSilentGaps = 3;
// So many usual times ahead tasks are planned for that may yet come: as long as what begins now
// keeps its slices from them.
constexpr double kForesight = 1.5;
// With fewer steps of a search over all ways in which times may turn out, one over the expected
// times finds more: of many tasks that evens out.
constexpr long kFewestSteps = 500;
constexpr int kDrawn = 3'500, kFewestDraws = 8;  // tasks and nodes; draws
constexpr double kInexact = 0.02;                // a smaller cv is none
// So full GPUs may be of what comes; prices of a column beyond the last are none.
constexpr double kFill = 0.95, kMostPrice = 16;
constexpr int kPriceRounds = 16;
// Futures that are rolled out, arrivals in each, and plays of them; of one GPU, and of several,
// where the rules alone are as many plays as there is time for.
constexpr int kFutures = 16, kAheadOfOne = 10, kPlays = 2'000;
constexpr int kFuturesOfMany = 4, kAhead = 120;
constexpr Nanos kLate = 4;  // so many times as far ahead
// What a second of the last end counts, in seconds of the mean end, where it is later than all that
// runs and all that arrivals planned for could become: then it is most likely the last of all.
constexpr double kBeyond = 4;

Nanos usual_gap(const std::deque<LiveTask>& came, Nanos now) {
  return (now - came.front().since) / static_cast<Nanos>(came.size() - 1);
}

// Enough has come to tell how often, not all at once, and the last of it lately.
bool more_comes(const std::deque<LiveTask>& came, Nanos now) {
  if (came.size() < kFewestKnown) return false;
  const Nanos gap = usual_gap(came, now);
  return gap > 0 && now - came.back().since <= kSilentGaps * gap;
}

// Of all that runs.
Nanos last_end(const Start& start) {
  Nanos last = 0;
  for (const Start::Alive& instance : start.alive)
    if (instance.free < kNever) last = std::max(last, instance.free);
  return last;
}

// A list looks at all nodes and appends all tasks. A few draws tell nothing.
int draws_of(const TimedBatch& batch, int most) {
  const int each = batch.forest.tasks + static_cast<int>(batch.forest.nodes.size());
  const int count = std::min(most, kDrawn / each);
  return count < kFewestDraws ? 0 : count;
}

// What a second of a column is worth, in seconds of a task's end: the price at which tasks as they
// came, each on the size that costs it least, take no more than the room, in column nanoseconds.
double column_price(const LiveMachine& machine, const std::vector<int>& of_class,
                    const std::deque<LiveTask>& came, Nanos now) {
  const double room = kFill * machine.forest().columns() *
                      static_cast<double>(usual_gap(came, now)) * static_cast<double>(came.size());
  struct Size {
    double time = 0;
    int columns = 0;
  };
  std::vector<std::vector<Size>> sizes;
  for (const LiveTask& task : came) {
    sizes.emplace_back();
    for (const int node : of_class) {
      const auto time = static_cast<double>(machine.time(task, node));
      const int columns = machine.forest().nodes[at(node)].columns * task.width;
      if (time > 0) sizes.back().push_back({time, columns});
    }
  }
  const auto fits = [&](double price) {
    double area = 0;
    for (const std::vector<Size>& task : sizes) {
      const auto cost = [&](const Size& size) { return size.time * (1 + price * size.columns); };
      const auto least = std::ranges::min_element(task, {}, cost);
      if (least != task.end()) area += least->time * least->columns;
    }
    return area <= room;
  };
  double low = 0, high = kMostPrice;
  if (fits(0)) return 0;
  for (int round = 0; round < kPriceRounds; ++round) {
    const double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

// Its times per class of the forest, at the end of the list.
void add_times(const LiveMachine& machine, const std::vector<int>& of_class, const LiveTask& task,
               std::vector<Nanos>& times) {
  for (const int node : of_class) {
    const Nanos time = machine.enough(task, node) ? machine.time(task, node) : 0;
    times.push_back(time > 0 ? time : kNever);
  }
}

// On the size on which it takes least.
double usual_time(const LiveMachine& machine, const std::vector<int>& of_class,
                  const std::deque<LiveTask>& came) {
  double sum = 0;
  for (const LiveTask& task : came) {
    Nanos shortest = kNever;
    for (const int node : of_class) {
      if (const Nanos time = machine.time(task, node); time > 0)
        shortest = std::min(shortest, time);
    }
    sum += static_cast<double>(shortest);
  }
  return sum / static_cast<double>(came.size());
}

// A task like that one, behind all others; false: it fits nowhere.
bool add_arrival(const LiveMachine& machine, const std::vector<int>& of_class, TimedBatch& batch,
                 const LiveTask& like) {
  if (!machine.fits_somewhere(like)) return false;
  add_times(machine, of_class, like, batch.forest.times);
  batch.deadline.push_back(kNever);
  const double steps = std::min(kLiveWeightSteps, like.weight / batch.weight_unit);
  batch.weight.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(steps)));
  batch.before.emplace_back();
  batch.behind.emplace_back();
  batch.topological.push_back(batch.forest.tasks++);
  batch.width.push_back(like.width);
  return true;
}

std::vector<int> nodes_of(const TailPlan& plan, int planned) {
  std::vector<int> nodes = {plan.choice.node[at(planned)]};
  const std::vector<int>& others = plan.physical.others[at(planned)];
  nodes.insert(nodes.end(), others.begin(), others.end());
  return nodes;
}

}  // namespace

Result<LivePlanner> LivePlanner::create(plan::BatchProblem problem, const LiveOptions& options) {
  problem.tasks.clear();
  CHECK(!problem.gpus.empty());
  Forest forest = TRY(make_whole_forest(problem));
  return LivePlanner(LiveMachine(std::move(problem), std::move(forest)), options);
}

LivePlanner::LivePlanner(LiveMachine machine, const LiveOptions& options)
    : options_(options), machine_(std::move(machine)) {
  of_class_.resize(at(machine_.forest().classes), 0);
  for (std::size_t v = 0; v < machine_.forest().nodes.size(); ++v)
    of_class_[at(machine_.forest().nodes[v].size_class)] = static_cast<int>(v);
}

void LivePlanner::add(LiveTask task) {
  const long id = task.id;
  came(task);
  order_.emplace(task.rank, id);
  CHECK(waiting_.emplace(id, std::move(task)).second);
  came_something_ = true;
}

void LivePlanner::came(LiveTask task) {
  came_.push_back(std::move(task));
  if (came_.size() > remembered()) came_.pop_front();
}

std::size_t LivePlanner::remembered() const {
  return at(std::max(kRemembered, kRememberedPerGpu * machine_.forest().gpus));
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

// Of few tasks the lists take little of a planning's time: it is the search's.
long LivePlanner::appends(int tasks) const {
  return static_cast<long>(static_cast<double>(options_.appends) *
                           std::clamp(kManyTasks / std::max(1, tasks), 1.0, kMostAppends));
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
  batch.forest.times.clear();
  batch.forest.tasks = static_cast<int>(planned_.size());
  for (const long id : planned_)
    add_times(machine_, of_class_, waiting_.at(id), batch.forest.times);
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
    batch.width.push_back(task.width);
  }
  batch.start = machine_.start(now);
  return batch;
}

// More, and not more waits than is to be seen to first.
bool LivePlanner::expects(Nanos now) const { return more_comes(came_, now) && !crowded(); }

// What may yet come, as what came lately and as often: tasks behind all others that are released
// later, so that room is left for them where that costs little.
void LivePlanner::add_arrivals(TimedBatch& batch, Nanos now) const {
  if (!expects(now)) return;
  const Nanos gap = usual_gap(came_, now);
  const auto horizon = static_cast<Nanos>(kForesight * usual_time(machine_, of_class_, came_));
  std::vector<const LiveTask*> coming;
  const int most = std::min(kMostArrivals, options_.arrivals * machine_.forest().gpus);
  const std::size_t first = at(static_cast<int>(plannings_ % 5));
  const std::size_t stride = came_.size() % 7 == 0 ? 1 : 7;  // neighbours are often alike
  for (int i = 0; i < most && gap * (i + 1) <= horizon; ++i)
    coming.push_back(&came_[(at(i) * stride + first) % came_.size()]);
  int number = 0;
  for (const LiveTask* task : coming)
    if (add_arrival(machine_, of_class_, batch, *task)) batch.release.push_back(gap * ++number);
}

// Every task has a stream of its own, so that a scenario stays what it is from plan to plan, and is
// once in each part of the range of its times.
std::vector<TimedBatch> LivePlanner::scenarios(const TimedBatch& batch, Nanos now, int count,
                                               std::uint64_t seed) const {
  const auto inexact = [&](long id) { return waiting_.at(id).cv > kInexact; };
  std::vector<TimedBatch> all;
  if (count == 0 || std::ranges::none_of(planned_, inexact)) return all;
  const auto quantile = [&](long id, int scenario) {
    Rng rng = Rng(seed).split(static_cast<std::uint64_t>(id));
    const auto turn = static_cast<int>(rng.below(static_cast<std::uint64_t>(count)));
    // 3 and 5 have no factor in common, so neighbours are not alike in every scenario.
    const auto mixed = static_cast<int>(rng.below(2)) == 0 ? scenario : count - 1 - scenario;
    return ((mixed + turn) % count + 0.5) / count;
  };
  for (int k = 0; k < count; ++k) {
    TimedBatch scenario = batch;
    const auto classes = at(scenario.forest.classes);
    for (std::size_t t = 0; t < planned_.size(); ++t) {
      const double by = lognormal_at(quantile(planned_[t], k), waiting_.at(planned_[t]).cv, 0);
      for (std::size_t c = t * classes; c < (t + 1) * classes; ++c) {
        Nanos& time = scenario.forest.times[c];
        if (time < kNever) time = std::max<Nanos>(1, std::llround(static_cast<double>(time) * by));
      }
    }
    scenario.start = machine_.start(now, [&](long id) { return quantile(id, k); });
    all.push_back(std::move(scenario));
  }
  return all;
}

// Makes that the plan, with the times that it has without what may yet come.
void LivePlanner::take(const Choice& choice, Nanos now) {
  TailOptions follow;
  follow.before = &choice;
  follow.follow = true;
  const TailPlan searched = std::exchange(plan_, plan_tail(tail(now), follow));
  plan_.from = searched.from;
  plan_.in_order = searched.in_order;
  plan_.plays = searched.plays;
}

// Leaves in the plan what waits.
void LivePlanner::forget_arrivals(Nanos now) {
  Choice known = plan_.choice;
  std::erase_if(known.order, [&](int task) { return at(task) >= planned_.size(); });
  known.node.resize(planned_.size());
  take(known, now);
}

// What may yet come, by chance: as what came lately, at times as if each came by itself.
std::vector<TimedBatch> LivePlanner::futures(Nanos now, int count, int each) {
  std::vector<TimedBatch> all(at(count), tail(now));
  const auto gap = static_cast<double>(usual_gap(came_, now));
  Rng rng = Rng(options_.seed + static_cast<std::uint64_t>(plannings_)).split(0xf0);
  for (TimedBatch& future : all) {
    double come = 0;
    for (int i = 0; i < each; ++i) {
      come += gap * rng.exponential();
      if (add_arrival(machine_, of_class_, future, came_[rng.below(came_.size())]))
        future.release.push_back(static_cast<Nanos>(come));
    }
  }
  return all;
}

void LivePlanner::roll_out(Nanos now) {
  if (options_.arrivals == 0 || !expects(now)) return;
  RolloutOptions options{.plays = kPlays};
  const bool many = machine_.forest().gpus > 1;
  if (many) {
    const Nanos horizon = usual_gap(came_, now) * kAhead;
    options = {.plays = 0,
               .price = column_price(machine_, of_class_, came_, now),
               .horizon = horizon,
               .late = kLate * horizon};
  }
  const Choice choice =
      rolled_out(many ? futures(now, kFuturesOfMany, kAhead) : futures(now, kFutures, kAheadOfOne),
                 plan_.choice, options);
  if (choice != plan_.choice) take(choice, now);
}

void LivePlanner::replan(Nanos now) {
  // The plan before, as far as it goes, by ids.
  std::map<long, int> node_before;
  std::vector<long> order_before;
  for (const int task : plan_.choice.order) {
    order_before.push_back(planned_[at(task)]);
    node_before[order_before.back()] = plan_.choice.node[at(task)];
  }
  TimedBatch batch = tail(now);
  const bool surprised = came_something_ || machine_.surprises() != surprises_;
  Choice before;
  before.node.resize(planned_.size(), -1);
  for (const long id : order_before) {
    const auto found = number_.find(id);
    if (found == number_.end()) continue;
    before.order.push_back(found->second);
    before.node[at(found->second)] = node_before.at(id);
  }
  const bool whole = before.order.size() == planned_.size();
  const bool follow = whole && !surprised;
  if (!follow) add_arrivals(batch, now);
  const TailAim full = more_comes(came_, now) ? options_.crowded : options_.last;
  TailOptions options{.aim = crowded() ? full : options_.aim,
                      .appends = appends(batch.forest.tasks)};
  // What ends last now will not be the last, and of many GPUs it counts as much as all. What takes
  // slices for longer than is planned ahead takes them from others.
  if (const int gpus = machine_.forest().gpus; gpus > 1 && expects(now)) {
    options.aim.beyond = kBeyond;
    options.aim.after = std::max(last_end(batch.start), kLate * kAhead * usual_gap(came_, now));
    options.aim.makespan /= gpus;
    options.aim.area += column_price(machine_, of_class_, came_, now) *
                        machine_.forest().columns() / batch.forest.tasks;
  }
  options.seed = options_.seed + static_cast<std::uint64_t>(plannings_);
  options.before = before.order.empty() ? nullptr : &before;
  options.follow = follow;
  if (!follow) {
    const long steps = options.appends / std::max(1, batch.forest.tasks * options_.scenarios);
    if (steps >= kFewestSteps)
      options.scenarios = scenarios(batch, now, options_.scenarios, options_.seed);
    const int count = draws_of(batch, options_.draws);
    options.draws = scenarios(batch, now, count, options_.seed + 1);
  }
  plannings_ += follow ? 0 : 1;
  plan_ = plan_tail(batch, options);
  if (at(batch.forest.tasks) > planned_.size()) forget_arrivals(now);
  if (!follow) roll_out(now);
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
    const std::vector<int> nodes = nodes_of(plan_, t);
    const auto all = [&](const auto& test) { return std::ranges::all_of(nodes, test); };
    const bool free = all([&](int v) { return machine_.idle(v) && !used.contains(v); });
    const auto task = waiting_.find(planned_[at(t)]);
    const bool due = plan_.physical.begin[at(t)] <= 0;
    const bool begins =
        free &&
        (due || (ready(task->second, now) && all([&](int v) { return skipped.contains(v); })));
    if (begins && !machine_.has_room(task->second)) {
      skipped.insert(nodes.begin(), nodes.end());
      continue;
    }
    used.insert(nodes.begin(), nodes.end());
    if (!begins) continue;
    order_.erase({task->second.rank, task->first});
    machine_.began(std::move(task->second), nodes, now);
    decisions.starts.push_back({task->first, nodes});
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
