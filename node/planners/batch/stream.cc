#include "planners/batch/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "planners/batch/concatenate.h"
#include "planners/batch/far.h"
#include "planners/batch/fifo.h"

namespace partita::planners::batch {
namespace {

// The forest of the same GPUs with the problem's tasks.
void set_tasks(Forest& forest, const plan::BatchProblem& problem) {
  const auto classes = at(forest.classes);
  forest.tasks = static_cast<int>(problem.tasks.size());
  forest.times.assign(problem.tasks.size() * classes, kNever);
  for (const Node& node : forest.nodes) {
    const auto model = at(problem.gpus[at(node.gpu)]);
    const int gpcs = problem.models[model].profiles[at(node.profile)].gpcs;
    for (std::size_t t = 0; t < problem.tasks.size(); ++t) {
      const Nanos time = problem.tasks[t].times[model][gpcs];
      if (time > 0) forest.times[t * classes + at(node.size_class)] = time;
    }
  }
}

// Per task a time before which it cannot begin: later than that of each of its predecessors.
std::vector<Nanos> earliest(const Forest& forest, const std::vector<plan::Task>& tasks) {
  const Precedence links = precedence(tasks);
  std::vector<Nanos> earliest(tasks.size(), 0);
  for (const int task : fifo_order(links)) {
    earliest[at(task)] = tasks[at(task)].release;
    for (const int before : links.before[at(task)]) {
      Nanos shortest = kNever;
      for (int v = 0; v < static_cast<int>(forest.nodes.size()); ++v) {
        shortest = std::min(shortest, forest.time(before, v));
      }
      earliest[at(task)] = std::max(earliest[at(task)], earliest[at(before)] + shortest);
    }
  }
  return earliest;
}

// Nothing begins before `now`.
Start from(const Forest& forest, Start start, Nanos now) {
  start.column.resize(at(forest.columns()), 0);
  start.reconfigurer.resize(at(forest.reconfigurers()), 0);
  for (Nanos& free : start.column) free = std::max(free, now);
  for (Nanos& free : start.reconfigurer) free = std::max(free, now);
  return start;
}

void occupy(const Forest& forest, Start& start, int node_index, Nanos until) {
  const Node& node = forest.nodes[at(node_index)];
  for (int c = node.first_column; c < node.first_column + node.columns; ++c) {
    start.column[at(c)] = std::max(start.column[at(c)], until);
  }
}

}  // namespace

const char* to_string(StreamMethod method) {
  switch (method) {
    case StreamMethod::trivial:
      return "trivial";
    case StreamMethod::reverse:
      return "reverse";
    case StreamMethod::overlap:
      return "overlap";
    case StreamMethod::best:
      break;
  }
  return "best";
}

Result<OnlineScheduler> OnlineScheduler::create(plan::BatchProblem problem,
                                                const StreamOptions& options) {
  problem.tasks.clear();
  CHECK(!problem.gpus.empty());
  Forest forest = TRY(make_forest(problem));
  return OnlineScheduler(std::move(problem), std::move(forest), options);
}

OnlineScheduler::OnlineScheduler(plan::BatchProblem problem, Forest forest,
                                 const StreamOptions& options)
    : options_(options),
      forest_(std::move(forest)),
      pool_(std::move(problem)),
      base_(from(forest_, {}, 0)) {
  settled_ = to_schedule(forest_, pool_, {});
  settled_.scheduler = fmt::format("stream:{}", to_string(options.method));
}

Result<void> OnlineScheduler::submit(std::vector<plan::Task> tasks, Nanos now, Outlook outlook) {
  TRY(admit(tasks, now));
  now_ = now;
  settle(cut(now));
  make_pool(std::move(tasks));
  const Start start = from(forest_, base_, now);
  const bool wait = options_.method == StreamMethod::trivial;
  plan_ = plan_pool(wait ? after_all(forest_, start) : start, outlook);
  ++batches_;
  return {};
}

Result<void> OnlineScheduler::admit(const std::vector<plan::Task>& tasks, Nanos now) const {
  if (now < now_) return bad_input("stream", "a submission is earlier than the one before it");
  std::set<std::string> names;
  for (const plan::Task& task : tasks) {
    if (ends_.contains(task.name) || !names.insert(task.name).second) {
      return bad_input(task.name, "a task of this name has been submitted before");
    }
    const bool fits = std::ranges::any_of(forest_.nodes, [&](const Node& node) {
      const auto model = at(pool_.gpus[at(node.gpu)]);
      return task.times[model][pool_.models[model].profiles[at(node.profile)].gpcs] > 0;
    });
    if (!fits) return bad_input(task.name, "fits no instance of these GPUs");
  }
  for (const plan::Task& task : tasks) {
    for (const std::string& name : task.after) {
      if (names.contains(name) || ends_.contains(name)) continue;
      return bad_input(task.name,
                       fmt::format("comes after '{}', which has not been submitted", name));
    }
  }
  if (fifo_order(precedence(tasks)).size() < tasks.size()) {
    return bad_input("stream", "tasks wait for each other in a circle");
  }
  return {};
}

// What begins before this time stays as it is.
Nanos OnlineScheduler::cut(Nanos now) const {
  const auto most = options_.method == StreamMethod::best ? options_.replanned : 0;
  std::vector<Nanos> open;
  for (const Nanos begin : plan_.begin) {
    if (begin > now) open.push_back(begin);
  }
  if (most == 0 || open.empty()) return kNever;
  if (open.size() <= at(most)) return now + 1;
  std::ranges::sort(open);
  return open[open.size() - at(most)];
}

// Takes what begins before `cut` out of the plan; the rest of the plan is forgotten, its tasks stay
// in the pool.
void OnlineScheduler::settle(Nanos cut) {
  Physical done;
  done.node = plan_.node;
  done.begin = plan_.begin;
  done.end = plan_.end;
  std::vector<plan::Task> open;
  for (std::size_t t = 0; t < done.node.size(); ++t) {
    if (done.begin[t] >= cut) {
      done.node[t] = -1;
      open.push_back(pool_.tasks[t]);
      continue;
    }
    occupy(forest_, base_, done.node[t], done.end[t]);
    ends_[pool_.tasks[t].name] = done.end[t];
  }
  std::map<int, Nanos> alive;
  for (const Start::Alive& there : base_.alive) alive[there.node] = there.free;
  for (const Op& op : plan_.ops) {
    if (op.begin >= cut) continue;
    done.ops.push_back(op);
    Nanos& free = base_.reconfigurer[at(forest_.reconfigurer_of(op.node))];
    free = std::max(free, op.end);
    if (op.op == plan::Reconfiguration::Op::destroy) {
      alive.erase(op.node);
    } else {
      alive[op.node] = op.end;
    }
  }
  base_.alive.clear();
  for (const auto& [node, free] : alive) base_.alive.push_back({node, free});
  const plan::BatchSchedule part = to_schedule(forest_, pool_, done);
  settled_.tasks.insert(settled_.tasks.end(), part.tasks.begin(), part.tasks.end());
  settled_.reconfigurations.insert(settled_.reconfigurations.end(), part.reconfigurations.begin(),
                                   part.reconfigurations.end());
  settled_.makespan = std::max(settled_.makespan, part.makespan);
  pool_.tasks = std::move(open);
}

// Adds arrivals to the pool; what settled tasks mean to it becomes release times.
void OnlineScheduler::make_pool(std::vector<plan::Task> tasks) {
  const std::size_t old = pool_.tasks.size();
  for (const plan::Task& task : tasks) ends_.emplace(task.name, kNever);
  std::ranges::move(tasks, std::back_inserter(pool_.tasks));
  for (plan::Task& task : pool_.tasks) {
    std::erase_if(task.after, [&](const std::string& name) {
      const Nanos end = ends_.at(name);
      if (end < kNever) task.release = std::max(task.release, end);
      return end < kNever;
    });
  }
  set_tasks(forest_, pool_);
  for (std::size_t t = old; t < pool_.tasks.size(); ++t) {
    area_ += static_cast<double>(batch::least_area(forest_, static_cast<int>(t)));
  }
}

// The realised proposal that leaves the best edge, or, by the paper's methods, ends first.
Physical OnlineScheduler::plan_pool(const Start& start, Outlook outlook) {
  if (pool_.tasks.empty()) return {};
  const Aim aim(forest_, start, outlook);
  const bool waits = std::ranges::any_of(pool_.tasks, [&](const plan::Task& task) {
    return task.release > now_ || !task.after.empty();
  });
  std::vector<Visits> all = proposals(start, aim);
  if (waits) {
    const std::vector<Nanos> times = earliest(forest_, pool_.tasks);
    for (Visits& visits : all) {
      for (Visit& visit : visits) {
        std::ranges::stable_sort(visit.tasks, {}, [&](int task) { return times[at(task)]; });
      }
    }
    all.push_back(one_by_one());
  }
  std::optional<Physical> best;
  double least = 0;
  for (const Visits& visits : all) {
    for (const Service service : {Service::longest_tail, Service::first_ready}) {
      auto made = realise(forest_, visits, service, start, waits ? &pool_ : nullptr);
      if (!made) continue;
      const double cost = options_.method == StreamMethod::best
                              ? aim.cost(edge_of(column_ends(forest_, made->after), aim.level()))
                              : static_cast<double>(made->makespan);
      if (best && cost >= least) continue;
      best = std::move(made);
      least = cost;
    }
  }
  CHECK(best);
  return std::move(*best);
}

std::vector<Visits> OnlineScheduler::proposals(const Start& start, const Aim& aim) {
  const std::vector<int> far = far_on(forest_).assignment;
  const auto whole = [&](Direction direction) {
    return visits_of(forest_, far, direction, longest_first(forest_, far));
  };
  if (options_.method == StreamMethod::trivial) return {whole(Direction::forward)};
  const Direction turn = batches_ % 2 == 0 ? Direction::forward : Direction::reverse;
  if (options_.method == StreamMethod::reverse) return {whole(turn)};
  if (options_.method == StreamMethod::overlap) {
    Refit fitted = refit(forest_, far, start, turn);
    moves_ += fitted.moves;
    swaps_ += fitted.swaps;
    return {whole(turn), std::move(fitted.visits)};
  }
  std::vector<Visits> all;
  for (const Direction direction : {Direction::forward, Direction::reverse}) {
    all.push_back(whole(direction));
    all.push_back(refit(forest_, far, start, direction).visits);
  }
  const long steps = std::min(options_.steps * forest_.tasks, kMaxStreamSteps);
  all.push_back(
      plan_onto(forest_, start, aim, steps, options_.seed + static_cast<std::uint64_t>(batches_)));
  return all;
}

// Every task by itself, predecessors first: what can never wait in a circle.
Visits OnlineScheduler::one_by_one() const {
  Visits visits;
  for (const int task : fifo_order(pool_)) {
    int best = -1;
    for (int v = 0; v < static_cast<int>(forest_.nodes.size()); ++v) {
      if (best < 0 || forest_.time(task, v) < forest_.time(task, best)) best = v;
    }
    visits.push_back({best, {task}});
  }
  return visits;
}

plan::BatchSchedule OnlineScheduler::schedule() const {
  plan::BatchSchedule all = settled_;
  const plan::BatchSchedule part = to_schedule(forest_, pool_, plan_);
  all.tasks.insert(all.tasks.end(), part.tasks.begin(), part.tasks.end());
  all.reconfigurations.insert(all.reconfigurations.end(), part.reconfigurations.begin(),
                              part.reconfigurations.end());
  plan::put_in_order(all);
  return all;
}

Nanos OnlineScheduler::makespan() const { return std::max(settled_.makespan, plan_.makespan); }

}  // namespace partita::planners::batch
