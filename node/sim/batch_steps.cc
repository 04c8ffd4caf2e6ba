#include "sim/batch_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "base/index.h"
#include "hw/layout.h"

namespace partita::sim {
namespace {

using plan::Nanos;
using plan::Reconfiguration;

// A place for instances: GPU, profile (index), start.
using Place = std::tuple<int, int, int>;

// The life of an instance, by the numbers of its steps.
struct Life {
  int create = -1, destroy = -1;
  Nanos usable = 0, ending = plan::kMaxBatchTime;
  std::vector<int> tasks = {};
};

class Compiler {
 public:
  Compiler(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule)
      : problem_(problem), schedule_(schedule) {}

  Result<Steps> run() {
    const auto parts = {&Compiler::add_tasks, &Compiler::add_reconfigurations, &Compiler::add_lives,
                        &Compiler::put_tasks_on_instances, &Compiler::link_predecessors};
    for (const auto part : parts) {
      if (Result<void> done = (this->*part)(); !done) return failed(done.error());
    }
    for (const auto& [place, lives] : lives_) link_life(lives);
    for (const Step& step : result_.steps) {
      for (const int next : step.next) ++result_.steps[at(next)].waits;
    }
    if (circular()) return bad_input("schedule", "its parts wait for each other: verify it");
    return std::move(result_);
  }

 private:
  Result<Place> place_of(const std::string& subject, int gpu, const std::string& profile,
                         int start) const {
    if (gpu < 0 || at(gpu) >= problem_.gpus.size()) {
      return bad_input(subject, fmt::format("the problem has no GPU {}", gpu));
    }
    const int index = model_of(gpu).profile_index(profile);
    if (index < 0) return bad_input(subject, "unknown MIG profile " + profile);
    return Place{gpu, index, start};
  }

  const hw::GpuModel& model_of(int gpu) const {
    return problem_.models[at(problem_.gpus[at(gpu)])];
  }
  const hw::MigProfile& profile_at(const Place& place) const {
    return model_of(std::get<0>(place)).profiles[at(std::get<1>(place))];
  }

  // Steps of all tasks, in the problem's order; their order in the schedule is found by begin.
  Result<void> add_tasks() {
    for (const plan::Task& task : problem_.tasks) {
      if (!number_.emplace(task.name, result_.tasks++).second) {
        return bad_input("task " + task.name, "the name appears twice");
      }
      result_.steps.push_back({.earliest = task.release, .stream = task.name});
    }
    scheduled_.resize(problem_.tasks.size());
    for (const plan::ScheduledTask& task : schedule_.tasks) {
      const std::string subject = "task " + task.task;
      const auto found = number_.find(task.task);
      if (found == number_.end()) return bad_input(subject, "is not in the problem");
      if (scheduled_[at(found->second)] != nullptr) return bad_input(subject, "is listed twice");
      scheduled_[at(found->second)] = &task;
      result_.steps[at(found->second)].planned = task.begin;
    }
    for (std::size_t t = 0; t < scheduled_.size(); ++t) {
      if (scheduled_[t] == nullptr) {
        return bad_input("task " + problem_.tasks[t].name, "is not in the schedule");
      }
    }
    return {};
  }

  Nanos reconfiguration_time(const Place& place, Reconfiguration::Op op) const {
    const int gpcs = profile_at(place).gpcs;
    for (const hw::ReconfigurationTime& time : model_of(std::get<0>(place)).reconfiguration) {
      if (time.gpcs != gpcs) continue;
      return plan::nanos(op == Reconfiguration::Op::create ? time.create : time.destroy);
    }
    return 0;
  }

  Result<void> add_reconfigurations() {
    std::vector<const Reconfiguration*> order;
    for (const Reconfiguration& op : schedule_.reconfigurations) order.push_back(&op);
    std::ranges::sort(order, {}, [](const Reconfiguration* op) {
      return std::tuple(op->gpu, op->begin, op->end, op->start, op->op,
                        std::string_view(op->profile));
    });
    std::map<std::string, int> repeated;
    result_.first_op.assign(problem_.gpus.size() + 1, result_.tasks);
    for (const Reconfiguration* op : order) {
      std::string name = fmt::format("gpu {} {} {} at {}", op->gpu, plan::to_string(op->op),
                                     op->profile, op->start);
      Result<Place> place = place_of(name, op->gpu, op->profile, op->start);
      if (!place) return failed(place.error());
      ops_.push_back({*place, op});
      int& end = result_.first_op[at(op->gpu) + 1];
      name += fmt::format(" #{}", ++repeated[name]);
      result_.steps.push_back({.length = reconfiguration_time(*place, op->op),
                               .planned = op->begin,
                               .gpu = op->gpu,
                               .rank = 0,
                               .stream = std::move(name)});
      end = static_cast<int>(result_.steps.size());
    }
    for (std::size_t g = 1; g < result_.first_op.size(); ++g) {
      result_.first_op[g] = std::max(result_.first_op[g], result_.first_op[g - 1]);
    }
    for (int s = result_.tasks; s < static_cast<int>(result_.steps.size()); ++s) {
      Step& step = result_.steps[at(s)];
      step.rank = s - result_.first_op[at(step.gpu)];
    }
    return {};
  }

  // Whether instances at these places of one GPU cannot exist together.
  bool conflict(const Place& a, const Place& b) {
    const auto key = std::pair(a, b);
    const auto known = conflicts_.find(key);
    if (known != conflicts_.end()) return known->second;
    const std::vector<hw::PlacedProfile> both = {{std::get<1>(a), std::get<2>(a)},
                                                 {std::get<1>(b), std::get<2>(b)}};
    return conflicts_[key] = !hw::conflicts(model_of(std::get<0>(a)), both).empty();
  }

  // Lives in the order of their GPU's reconfigurations; a creation waits for the latest life of
  // every place that is in its way.
  Result<void> add_lives() {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const auto& [place, op] = ops_[i];
      const int step = result_.tasks + static_cast<int>(i);
      std::vector<Life>& lives = lives_[place];
      if (op->op == Reconfiguration::Op::destroy) {
        if (lives.empty() || lives.back().destroy >= 0) {
          return bad_input(result_.steps[at(step)].stream, "the instance does not exist");
        }
        lives.back().destroy = step;
        lives.back().ending = op->begin;
        continue;
      }
      const Place from{std::get<0>(place), -1, 0};
      for (auto other = lives_.lower_bound(from);
           other != lives_.end() && std::get<0>(other->first) == op->gpu; ++other) {
        if (other->second.empty() || !conflict(place, other->first)) continue;
        const int destroy = other->second.back().destroy;
        if (destroy < 0) {
          return bad_input(result_.steps[at(step)].stream, "another instance is in its way");
        }
        result_.steps[at(destroy)].next.push_back(step);
      }
      lives.push_back({.create = step, .usable = op->end});
    }
    return {};
  }

  Result<void> put_tasks_on_instances() {
    for (std::size_t t = 0; t < scheduled_.size(); ++t) {
      const plan::ScheduledTask& task = *scheduled_[t];
      const std::string subject = "task " + task.task;
      const Result<Place> place = place_of(subject, task.gpu, task.profile, task.start);
      if (!place) return failed(place.error());
      const auto model = at(problem_.gpus[at(task.gpu)]);
      const Nanos time = problem_.tasks[t].times[model][profile_at(*place).gpcs];
      if (time <= 0) return bad_input(subject, "does not fit " + task.profile);
      result_.steps[t].length = time;
      std::vector<Life>& lives = lives_[*place];
      const auto after =
          std::ranges::upper_bound(lives, task.begin + kTolerance, {}, &Life::usable);
      if (after == lives.begin() || task.end > (after - 1)->ending + kTolerance) {
        return bad_input(subject, "has no instance to run on: verify the schedule");
      }
      (after - 1)->tasks.push_back(static_cast<int>(t));
    }
    return {};
  }

  void link_life(const std::vector<Life>& lives) {
    for (const Life& life : lives) {
      std::vector<int> order = life.tasks;
      std::ranges::sort(order, {}, [&](int t) {
        return std::tuple(scheduled_[at(t)]->begin, scheduled_[at(t)]->end, t);
      });
      int last = life.create;
      for (const int task : order) {
        result_.steps[at(last)].next.push_back(task);
        last = task;
      }
      if (life.destroy >= 0) result_.steps[at(last)].next.push_back(life.destroy);
    }
  }

  Result<void> link_predecessors() {
    for (std::size_t t = 0; t < problem_.tasks.size(); ++t) {
      for (const std::string& name : problem_.tasks[t].after) {
        const auto found = number_.find(name);
        if (found == number_.end()) continue;
        if (scheduled_[at(found->second)]->end > scheduled_[t]->begin + kTolerance) {
          return bad_input("task " + problem_.tasks[t].name,
                           "begins before " + name + " has ended");
        }
        result_.steps[at(found->second)].next.push_back(static_cast<int>(t));
      }
    }
    return {};
  }

  bool circular() const {
    std::vector<int> free, waits;
    for (std::size_t s = 0; s < result_.steps.size(); ++s) {
      waits.push_back(result_.steps[s].waits);
      if (waits.back() == 0) free.push_back(static_cast<int>(s));
    }
    std::size_t done = 0;
    for (; !free.empty(); ++done) {
      const int step = free.back();
      free.pop_back();
      for (const int next : result_.steps[at(step)].next) {
        if (--waits[at(next)] == 0) free.push_back(next);
      }
    }
    return done < waits.size();
  }

  // Schedules are read from decimal seconds.
  static constexpr Nanos kTolerance = 1'000;

  const plan::BatchProblem& problem_;
  const plan::BatchSchedule& schedule_;
  std::map<std::string_view, int> number_;
  std::vector<const plan::ScheduledTask*> scheduled_;  // per task
  std::vector<std::pair<Place, const Reconfiguration*>> ops_;
  std::map<Place, std::vector<Life>> lives_;
  std::map<std::pair<Place, Place>, bool> conflicts_;
  Steps result_;
};

}  // namespace

Result<Steps> steps_of(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule) {
  return Compiler(problem, schedule).run();
}

}  // namespace partita::sim
