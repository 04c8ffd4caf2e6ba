#include "planners/batch/live_run.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace partita::planners::batch {
namespace {

class LiveWorld {
 public:
  LiveWorld(LivePlanner planner, const plan::BatchProblem& expected,
            const plan::BatchProblem& actual, double cv, const std::function<double()>& cpu_ms)
      : planner_(std::move(planner)),
        expected_(expected),
        actual_(actual),
        cv_(cv),
        cpu_ms_(cpu_ms) {
    for (std::size_t t = 0; t < expected.tasks.size(); ++t)
      number_[expected.tasks[t].name] = static_cast<long>(t);
    arrivals_.resize(expected.tasks.size());
    std::iota(arrivals_.begin(), arrivals_.end(), 0);
    std::ranges::stable_sort(arrivals_, {}, [&](long t) { return task(t).release; });
    physical_.node.resize(expected.tasks.size(), -1);
    physical_.begin.resize(expected.tasks.size());
    physical_.end.resize(expected.tasks.size());
  }

  LiveRun run() {
    while (next_ < arrivals_.size() || !events_.empty()) {
      step_to(next_time());
      decide();
    }
    CHECK(planner_.waiting().empty());  // nothing is under way and nothing will come: a stall
    LiveRun run;
    std::ranges::sort(physical_.ops, {}, [](const Op& op) {
      return std::tuple(op.begin, op.end, op.node, static_cast<int>(op.op));
    });
    run.schedule = to_schedule(planner_.machine().forest(), actual_, physical_);
    run.schedule.scheduler = "live";
    run.plannings = planner_.plannings();
    run.planning_ms = std::move(times_);
    return run;
  }

 private:
  struct Event {
    long task = -1;  // ended; or
    LiveChange change = {};
    bool wake = false;
  };
  const plan::Task& task(long t) const { return expected_.tasks[static_cast<std::size_t>(t)]; }

  Nanos next_time() const {
    Nanos next = kNever;
    if (next_ < arrivals_.size()) next = task(arrivals_[next_]).release;
    if (!events_.empty()) next = std::min(next, events_.begin()->first);
    return next;
  }

  void step_to(Nanos now) {
    now_ = now;
    while (!events_.empty() && events_.begin()->first == now) {
      const Event event = events_.begin()->second;
      events_.erase(events_.begin());
      if (event.wake) continue;
      if (event.task >= 0) {
        planner_.machine().ended(event.task);
      } else {
        planner_.machine().changed(event.change, true);
      }
    }
    for (; next_ < arrivals_.size() && task(arrivals_[next_]).release == now; ++next_) {
      const long t = arrivals_[next_];
      LiveTask live{.id = t, .times = task(t).times, .weight = task(t).priority};
      live.deadline = task(t).deadline;
      live.since = now;
      live.cv = std::max(cv_, task(t).time_cv);
      live.rank = rank_++;
      for (const std::string& before : task(t).after) live.after.push_back(number_.at(before));
      planner_.add(std::move(live));
    }
  }

  void decide() {
    const double before = cpu_ms_ ? cpu_ms_() : 0;
    const Decisions decisions = planner_.decide(now_);
    if (cpu_ms_) times_.push_back(cpu_ms_() - before);
    const Forest& forest = planner_.machine().forest();
    for (const auto& [id, nodes] : decisions.starts) {
      const int node_index = nodes.front();
      const Node& node = forest.nodes[at(node_index)];
      const auto model = at(actual_.gpus[at(node.gpu)]);
      const int gpcs = actual_.models[model].profiles[at(node.profile)].gpcs;
      const auto t = static_cast<std::size_t>(id);
      physical_.node[t] = node_index;
      physical_.begin[t] = now_;
      physical_.end[t] = now_ + actual_.tasks[t].times[model][gpcs];
      physical_.makespan = std::max(physical_.makespan, physical_.end[t]);
      events_.emplace(physical_.end[t], Event{.task = id});
    }
    for (const LiveChange& change : decisions.changes) {
      const Node& node = forest.nodes[at(change.node)];
      const Nanos end = now_ + (change.op == LiveOp::create ? node.create : node.destroy);
      physical_.ops.push_back({change.op, change.node, now_, end});
      events_.emplace(end, Event{.change = change});
    }
    if (decisions.wake) events_.emplace(*decisions.wake, Event{.wake = true});
  }

  LivePlanner planner_;
  const plan::BatchProblem &expected_, &actual_;
  double cv_;
  const std::function<double()>& cpu_ms_;
  std::map<std::string, long> number_;
  std::vector<long> arrivals_;
  std::size_t next_ = 0;
  long rank_ = 0;
  std::multimap<Nanos, Event> events_;
  Nanos now_ = 0;
  Physical physical_;
  std::vector<double> times_;
};

}  // namespace

Result<LiveRun> run_live(const plan::BatchProblem& expected, const plan::BatchProblem& actual,
                         const LiveRunOptions& options, const std::function<double()>& cpu_ms) {
  auto planner = TRY(LivePlanner::create(expected, options.planning));
  for (const plan::Task& task : options.earlier)
    planner.came({.id = -1, .times = task.times, .weight = task.priority, .since = task.release});
  for (const plan::Task& task : expected.tasks) {
    bool fits = false;
    for (const Node& node : planner.machine().forest().nodes) {
      const auto model = at(expected.gpus[at(node.gpu)]);
      fits = fits || task.times[model][expected.models[model].profiles[at(node.profile)].gpcs] > 0;
    }
    if (!fits) return bad_input(task.name, "fits no instance of these GPUs");
  }
  return LiveWorld(std::move(planner), expected, actual, options.cv, cpu_ms).run();
}

}  // namespace partita::planners::batch
