#include "act/carry/batch_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include "base/check.h"
#include "base/index.h"
#include "hw/layout.h"
#include "plan/digest.h"

namespace partita::carry {
namespace {

using plan::Nanos;
using Op = plan::Reconfiguration::Op;

// Schedules are read from decimal seconds.
constexpr Nanos kTolerance = 1'000;

class Compiler {
 public:
  Compiler(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule,
           const ScriptOptions& options)
      : problem_(problem), schedule_(schedule), options_(options) {
    CHECK(options.devices.size() == problem.gpus.size());
  }

  Result<exec::Script> run() {
    script_.planned_makespan = schedule_.makespan;
    for (std::size_t g = 0; g < problem_.gpus.size(); ++g)
      script_.gpus.push_back({.device = options_.devices[g], .model = model_of(g).name});
    TRY(add_changes());
    TRY(add_tasks());
    for (std::size_t v = 0; v < script_.visits.size(); ++v) put_in_order(script_.visits[v]);
    add_last_destroys();
    return std::move(script_);
  }

 private:
  // What the script does not keep of a visit.
  struct Life {
    hw::PlacedProfile placed;
    Nanos usable = 0;
    std::optional<Nanos> ending;
  };

  const hw::GpuModel& model_of(std::size_t gpu) const {
    return problem_.models[at(problem_.gpus[gpu])];
  }

  // The judge lets no GPU or profile pass that is not there.
  hw::PlacedProfile place(int gpu, const std::string& profile, int start) const {
    const int index = model_of(at(gpu)).profile_index(profile);
    CHECK(index >= 0);
    return {index, start};
  }

  // In order of time; what ends at the moment when another begins goes first.
  Result<void> add_changes() {
    std::vector<const plan::Reconfiguration*> order;
    for (const plan::Reconfiguration& change : schedule_.reconfigurations) order.push_back(&change);
    std::ranges::stable_sort(order, {}, [](const plan::Reconfiguration* change) {
      return std::tuple(change->gpu, change->begin, change->end, change->op == Op::create,
                        change->start, std::string_view(change->profile));
    });
    for (const plan::Reconfiguration* change : order) {
      const std::string subject =
          fmt::format("gpu {} {} {} at {}", change->gpu, plan::to_string(change->op),
                      change->profile, change->start);
      const hw::PlacedProfile placed = place(change->gpu, change->profile, change->start);
      const auto done = change->op == Op::create ? add_create(*change, placed, subject)
                                                 : add_destroy(*change, placed, subject);
      if (!done) return failed(done.error());
    }
    return {};
  }

  bool conflict(std::size_t gpu, const hw::PlacedProfile& a, const hw::PlacedProfile& b) const {
    return !hw::conflicts(model_of(gpu), {a, b}).empty();
  }

  Result<void> add_create(const plan::Reconfiguration& change, const hw::PlacedProfile& placed,
                          const std::string& subject) {
    const hw::MigProfile& profile = model_of(at(change.gpu)).profiles[at(placed.profile)];
    const int index = static_cast<int>(script_.visits.size());
    exec::Visit visit{.gpu = change.gpu,
                      .place = {profile.name, change.start},
                      .nvml_enum = profile.nvml_enum,
                      .size = profile.size};
    for (const auto& [key, last] : last_visit_) {
      if (key.first != change.gpu || !conflict(at(change.gpu), placed, key.second)) continue;
      if (!lives_[at(last)].ending) return bad_input(subject, "another instance is in its way");
      visit.after.push_back(last);
    }
    script_.visits.push_back(std::move(visit));
    lives_.push_back({placed, change.end, {}});
    last_visit_[{change.gpu, placed}] = index;
    script_.gpus[at(change.gpu)].changes.push_back(
        {index, true, exec::Planned{change.begin, change.end}});
    return {};
  }

  Result<void> add_destroy(const plan::Reconfiguration& change, const hw::PlacedProfile& placed,
                           const std::string& subject) {
    const auto last = last_visit_.find({change.gpu, placed});
    if (last == last_visit_.end() || lives_[at(last->second)].ending)
      return bad_input(subject, "the instance does not exist");
    lives_[at(last->second)].ending = change.begin;
    script_.gpus[at(change.gpu)].changes.push_back(
        {last->second, false, exec::Planned{change.begin, change.end}});
    return {};
  }

  Result<void> add_tasks() {
    std::map<std::string_view, const plan::ScheduledTask*> scheduled;
    std::map<std::string_view, int> number;
    for (const plan::ScheduledTask& task : schedule_.tasks) scheduled[task.task] = &task;
    for (std::size_t t = 0; t < problem_.tasks.size(); ++t)
      number[problem_.tasks[t].name] = static_cast<int>(t);
    for (std::size_t t = 0; t < problem_.tasks.size(); ++t) {
      const plan::Task& task = problem_.tasks[t];
      const auto found = scheduled.find(task.name);
      CHECK(found != scheduled.end());
      const int visit = TRY(visit_of(*found->second));
      const exec::Planned planned{found->second->begin, found->second->end};
      exec::ScriptTask made{.name = task.name,
                            .command = task.command,
                            .visit = visit,
                            .release = task.release,
                            .planned = planned};
      if (options_.timeout_factor)
        made.timeout = std::llround(*options_.timeout_factor *
                                    static_cast<double>(planned.end - planned.begin));
      for (const std::string& before : task.after)
        if (const auto known = number.find(before); known != number.end())
          made.after.push_back(known->second);
      script_.visits[at(visit)].tasks.push_back(static_cast<int>(t));
      script_.tasks.push_back(std::move(made));
    }
    return {};
  }

  // The last visit of its place that can be used when it begins.
  Result<int> visit_of(const plan::ScheduledTask& task) {
    if (by_place_.empty()) {
      for (std::size_t v = 0; v < lives_.size(); ++v)
        by_place_[{script_.visits[v].gpu, lives_[v].placed}].push_back(static_cast<int>(v));
    }
    const std::vector<int>& visits =
        by_place_[{task.gpu, place(task.gpu, task.profile, task.start)}];
    const auto later = std::ranges::upper_bound(visits, task.begin + kTolerance, {},
                                                [&](int v) { return lives_[at(v)].usable; });
    if (later == visits.begin()) return bad_input("task " + task.task, "has no instance to run on");
    return *(later - 1);
  }

  void put_in_order(exec::Visit& visit) const {
    std::ranges::sort(visit.tasks, {}, [&](int t) {
      const exec::Planned& planned = script_.tasks[at(t)].planned;
      return std::tuple(planned.begin, planned.end, t);
    });
  }

  // Of the instances that the schedule leaves, those whose tasks end first.
  void add_last_destroys() {
    std::vector<std::pair<Nanos, int>> left;
    for (std::size_t v = 0; v < lives_.size(); ++v) {
      if (lives_[v].ending) continue;
      const std::vector<int>& tasks = script_.visits[v].tasks;
      const Nanos end = tasks.empty() ? 0 : script_.tasks[at(tasks.back())].planned.end;
      left.emplace_back(end, static_cast<int>(v));
    }
    std::ranges::sort(left);
    for (const auto& [end, v] : left)
      script_.gpus[at(script_.visits[at(v)].gpu)].changes.push_back({v, false, {}});
  }

  const plan::BatchProblem& problem_;
  const plan::BatchSchedule& schedule_;
  const ScriptOptions& options_;
  exec::Script script_;
  std::vector<Life> lives_;  // per visit
  using Where = std::pair<int, hw::PlacedProfile>;
  std::map<Where, int> last_visit_;
  std::map<Where, std::vector<int>> by_place_;
};

}  // namespace

Result<exec::Script> make_script(const plan::BatchProblem& problem,
                                 const plan::Judged<plan::BatchSchedule>& schedule,
                                 const ScriptOptions& options) {
  if (schedule.problem_digest() != plan::digest(problem))
    return bad_input("schedule", "it was judged for other tasks or GPUs");
  return Compiler(problem, *schedule, options).run();
}

plan::BatchSchedule realised(const exec::Script& script, const exec::RunReport& report,
                             const plan::BatchSchedule& planned) {
  plan::BatchSchedule real;
  real.scheduler = planned.scheduler;
  real.gpu_models = planned.gpu_models;
  for (std::size_t t = 0; t < script.tasks.size(); ++t) {
    const exec::TaskRun& run = report.tasks[t];
    const exec::Visit& visit = script.visits[at(script.tasks[t].visit)];
    if (!exec::ran(run.status)) continue;
    real.tasks.push_back({visit.place, visit.gpu, script.tasks[t].name, run.begin, run.end});
  }
  for (std::size_t g = 0; g < script.gpus.size(); ++g) {
    for (std::size_t r = 0; r < script.gpus[g].changes.size(); ++r) {
      const exec::ChangeRun& run = report.changes[g][r];
      const exec::Change& change = script.gpus[g].changes[r];
      const exec::Visit& visit = script.visits[at(change.visit)];
      if (run.status != exec::ChangeStatus::done) continue;
      real.reconfigurations.push_back(
          {visit.place, visit.gpu, change.create ? Op::create : Op::destroy, run.begin, run.end});
    }
  }
  plan::put_in_order(real);
  return real;
}

}  // namespace partita::carry
