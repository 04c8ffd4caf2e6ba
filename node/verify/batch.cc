#include "verify/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "hw/layout.h"
#include "verify/findings.h"

namespace partita::verify {
namespace {

using plan::Nanos;
using plan::Reason;
using plan::Reconfiguration;
using plan::ScheduledTask;
using Op = plan::Reconfiguration::Op;

// Schedules may hold any number; their differences and sums do not fit 64 bits.
using Wide = __int128;

// a later than b, by more than what may differ. Of two intervals: they meet when the end of either
// is later than the begin of the other.
bool later(Nanos a, Nanos b) { return static_cast<Wide>(a) - b > kTimeTolerance; }
bool differ(Wide a, Wide b) { return a - b > kTimeTolerance || b - a > kTimeTolerance; }
double in_seconds(Nanos time) { return plan::seconds(time).value; }

Nanos reconfiguration_time(const hw::GpuModel& model, int gpcs, Op op) {
  for (const hw::ReconfigurationTime& time : model.reconfiguration)
    if (time.gpcs == gpcs) return plan::nanos(op == Op::create ? time.create : time.destroy);
  return 0;
}

// An instance from the begin of its creation to the end of its destruction; tasks may run on it
// between `usable` and `until`.
struct Life {
  hw::PlacedProfile placed;
  Nanos begin = 0, usable = 0, until = plan::kForever, end = plan::kForever;
};

// What a schedule says of one instance.
struct Instance {
  std::vector<const ScheduledTask*> tasks;
  std::vector<const Reconfiguration*> operations;
  std::vector<Life> lives;  // by the end of their creation
};

struct Gpu {
  const hw::GpuModel* model = nullptr;
  std::vector<const Reconfiguration*> operations;
  std::map<hw::PlacedProfile, Instance> instances;
};

class BatchJudge : Findings {
 public:
  BatchJudge(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule)
      : problem_(problem), schedule_(schedule) {
    for (const int model : problem.gpus) {
      CHECK(model >= 0 && at(model) < problem.models.size());
      gpus_.push_back({&problem.models[at(model)], {}, {}});
    }
    for (std::size_t t = 0; t < problem.tasks.size(); ++t) {
      CHECK(problem.tasks[t].times.size() == problem.models.size());
      task_index_.emplace(problem.tasks[t].name, t);
    }
    scheduled_.resize(problem.tasks.size());
  }

  std::vector<Reason> verdict() {
    check_gpu_models();
    for (const ScheduledTask& task : schedule_.tasks) take(task);
    for (const Reconfiguration& operation : schedule_.reconfigurations) take(operation);
    for (std::size_t t = 0; t < scheduled_.size(); ++t) check_scheduled(t);
    check_sequences();
    for (int g = 0; at(g) < gpus_.size(); ++g) check_gpu(g);
    check_makespan();
    check_bound();
    return Findings::take();
  }

 private:
  static std::string name_of(const ScheduledTask& task) { return "task " + task.task; }
  static std::string name_of(const Reconfiguration& operation) {
    return fmt::format("gpu {} {} {} at {}", operation.gpu, to_string(operation.op),
                       operation.profile, operation.start);
  }
  std::string name_of(int gpu, const hw::PlacedProfile& placed) const {
    return fmt::format("gpu {} {} at {}", gpu,
                       gpus_[at(gpu)].model->profiles[at(placed.profile)].name, placed.start);
  }

  void check_gpu_models() {
    const std::size_t stated = schedule_.gpu_models.size();
    for (std::size_t g = 0; g < std::max(stated, gpus_.size()); ++g) {
      const std::string have = g < stated ? schedule_.gpu_models[g] : "no GPU";
      const std::string need = g < gpus_.size() ? gpus_[g].model->name : "no GPU";
      if (have != need)
        report("unknown_gpu_model", fmt::format("gpu {}", g), 0, 0,
               fmt::format("the schedule has {} there, the problem {}", have, need));
    }
  }

  // ---- names and places ----

  // The place that a task or reconfiguration names; reports what is wrong with it.
  template <class Placed>
  std::optional<hw::PlacedProfile> place_of(const Placed& what) {
    if (what.gpu < 0 || at(what.gpu) >= gpus_.size()) {
      report("gpu_index", name_of(what), what.gpu, static_cast<double>(gpus_.size()) - 1,
             "the problem has no such GPU");
      return std::nullopt;
    }
    const hw::GpuModel& model = *gpus_[at(what.gpu)].model;
    const int profile = model.profile_index(what.profile);
    if (profile < 0) {
      report("unknown_profile", name_of(what), 0, 0,
             fmt::format("{} has no profile {}", model.name, what.profile));
      return std::nullopt;
    }
    const std::vector<int>& starts = model.profiles[at(profile)].starts;
    if (std::ranges::find(starts, what.start) == starts.end()) {
      report("illegal_start", name_of(what), what.start, starts.front(),
             fmt::format("{} on {} cannot start there", what.profile, model.name));
      return std::nullopt;
    }
    return hw::PlacedProfile{profile, what.start};
  }

  template <class Timed>
  void check_times(const Timed& what) {
    if (later(0, what.begin))
      report("negative_time", name_of(what), in_seconds(what.begin), 0, "begins before time 0");
    if (later(what.begin, what.end))
      report("negative_time", name_of(what), in_seconds(what.end), in_seconds(what.begin),
             "ends before it begins");
  }

  void take(const ScheduledTask& task) {
    check_times(task);
    const auto known = task_index_.find(task.task);
    if (known == task_index_.end())
      report("unknown_task", name_of(task), 0, 0, "the problem has no such task");
    else
      scheduled_[known->second].push_back(&task);
    const auto placed = place_of(task);
    if (!placed) return;
    gpus_[at(task.gpu)].instances[*placed].tasks.push_back(&task);
    if (known != task_index_.end()) check_duration(task, problem_.tasks[known->second], *placed);
  }

  void check_duration(const ScheduledTask& task, const plan::Task& known,
                      const hw::PlacedProfile& placed) {
    const hw::MigProfile& shape = gpus_[at(task.gpu)].model->profiles[at(placed.profile)];
    const Nanos time = known.times[at(problem_.gpus[at(task.gpu)])][shape.gpcs];
    if (time <= 0)
      report("does_not_fit", name_of(task), 0, 0,
             fmt::format("it has no time on {} compute slices of {}", shape.gpcs,
                         gpus_[at(task.gpu)].model->name));
    else if (const Wide taken = static_cast<Wide>(task.end) - task.begin; differ(taken, time))
      report("duration", name_of(task), static_cast<double>(taken) / 1e9, in_seconds(time),
             fmt::format("seconds scheduled, and what it takes on {}", shape.name));
  }

  void take(const Reconfiguration& operation) {
    check_times(operation);
    const auto placed = place_of(operation);
    if (operation.gpu < 0 || at(operation.gpu) >= gpus_.size()) return;
    Gpu& gpu = gpus_[at(operation.gpu)];
    gpu.operations.push_back(&operation);
    if (!placed) return;
    gpu.instances[*placed].operations.push_back(&operation);
    const int gpcs = gpu.model->profiles[at(placed->profile)].gpcs;
    const Nanos time = reconfiguration_time(*gpu.model, gpcs, operation.op);
    const Wide taken = static_cast<Wide>(operation.end) - operation.begin;
    if (differ(taken, time))
      report("reconfiguration_time", name_of(operation), static_cast<double>(taken) / 1e9,
             in_seconds(time), "seconds scheduled, and what the catalogue says");
  }

  // ---- tasks ----

  void check_scheduled(std::size_t index) {
    const plan::Task& task = problem_.tasks[index];
    const std::vector<const ScheduledTask*>& runs = scheduled_[index];
    const std::string subject = "task " + task.name;
    if (runs.empty()) report("missing_task", subject, 0, 1, "is not scheduled");
    if (runs.size() > 1)
      report("duplicate_task", subject, static_cast<double>(runs.size()), 1,
             "is scheduled several times");
    const std::optional<Nanos> ready = end_of_predecessors(task);
    for (const ScheduledTask* run : runs) {
      if (later(task.release, run->begin))
        report("release", subject, in_seconds(run->begin), in_seconds(task.release),
               "begins before it is released, in seconds");
      if (ready && later(*ready, run->begin))
        report("after", subject, in_seconds(run->begin), in_seconds(*ready),
               "begins before what it comes after has ended, in seconds");
    }
  }

  // The last end of those that are scheduled; the others are missing tasks.
  std::optional<Nanos> end_of_predecessors(const plan::Task& task) const {
    std::optional<Nanos> last;
    for (const std::string& name : task.after) {
      const auto found = task_index_.find(name);
      if (found == task_index_.end()) continue;
      for (const ScheduledTask* run : scheduled_[found->second])
        last = std::max(last.value_or(run->end), run->end);
    }
    return last;
  }

  // ---- GPUs ----

  void check_gpu(int g) {
    Gpu& gpu = gpus_[at(g)];
    for (auto& [placed, instance] : gpu.instances) {
      by_time(instance.operations);
      find_lives(name_of(g, placed), placed, instance);
      check_runs(instance);
    }
    check_layouts(g);
  }

  template <class Timed>
  static void by_time(std::vector<const Timed*>& list) {
    std::ranges::stable_sort(list, {}, [](const Timed* t) { return std::pair(t->begin, t->end); });
  }

  // Every reconfigurer does one thing at a time.
  void check_sequences() {
    const int last = static_cast<int>(gpus_.size());
    if (problem_.reconfigurer.of == plan::Reconfigurer::Of::gpu) {
      for (int g = 0; g < last; ++g) check_sequence(fmt::format("gpu {}", g), g, g + 1);
      return;
    }
    const int per_node = problem_.reconfigurer.gpus_per_node;
    CHECK(per_node > 0);
    for (int g = 0; g < last; g += per_node) {
      const int end = std::min(last, g + per_node);
      const auto one = fmt::format("gpu {}", g), all = fmt::format("gpus {} to {}", g, end - 1);
      check_sequence(end - g == 1 ? one : all, g, end);
    }
  }

  void check_sequence(const std::string& subject, int first, int end) {
    std::vector<const Reconfiguration*> operations;
    for (int g = first; g < end; ++g) {
      operations.insert(operations.end(), gpus_[at(g)].operations.begin(),
                        gpus_[at(g)].operations.end());
    }
    by_time(operations);
    const Reconfiguration* longest = nullptr;  // of those so far the one that ends last
    for (const Reconfiguration* next : operations) {
      if (longest && later(longest->end, next->begin) && later(next->end, next->begin))
        report("reconfiguration_overlap", subject, in_seconds(next->begin),
               in_seconds(longest->end),
               fmt::format("{} begins before the end of {}", name_of(*next), name_of(*longest)));
      if (!longest || next->end > longest->end) longest = next;
    }
  }

  // From creations and destructions in turns, in order of time.
  void find_lives(const std::string& subject, const hw::PlacedProfile& placed, Instance& instance) {
    bool exists = false;
    for (const Reconfiguration* operation : instance.operations) {
      const double when = in_seconds(operation->begin);
      std::vector<Life>& lives = instance.lives;
      if (operation->op == Op::create) {
        if (exists || (!lives.empty() && later(lives.back().end, operation->begin)))
          report("create_existing", subject, when, 0,
                 "is created, at that second, while it exists");
        if (!exists) lives.push_back({placed, operation->begin, operation->end});
        exists = true;
      } else if (exists) {
        lives.back().until = operation->begin;
        lives.back().end = operation->end;
        exists = false;
      } else {
        report("destroy_missing", subject, when, 0,
               "is destroyed, at that second, while it does not exist");
      }
    }
    std::ranges::stable_sort(instance.lives, {}, &Life::usable);
  }

  // Tasks one at a time, and each within a life.
  void check_runs(Instance& instance) {
    by_time(instance.tasks);
    const ScheduledTask* longest = nullptr;  // of those so far the one that ends last
    for (const ScheduledTask* next : instance.tasks) {
      if (longest && later(longest->end, next->begin) && later(next->end, next->begin))
        report("instance_busy", fmt::format("tasks {} and {}", longest->task, next->task),
               in_seconds(next->begin), in_seconds(longest->end),
               "seconds when the second begins and the first ends, on one instance");
      if (!longest || next->end > longest->end) longest = next;
      check_exists(*next, instance.lives);
    }
  }

  void check_exists(const ScheduledTask& task, const std::vector<Life>& lives) {
    const auto usable = [&](const Life& life) { return !later(life.usable, task.begin); };
    const auto next = std::ranges::partition_point(lives, usable);
    if (next == lives.begin()) {
      report("no_instance", name_of(task), in_seconds(task.begin),
             lives.empty() ? 0 : in_seconds(next->usable),
             lives.empty() ? "its instance is never created"
                           : "begins before the creation of its instance has ended, in seconds");
    } else if (const Life& life = *std::prev(next); later(task.end, life.until)) {
      report("no_instance", name_of(task), in_seconds(task.end), in_seconds(life.until),
             "ends after the destruction of its instance has begun, in seconds");
    }
  }

  // ---- layouts ----

  // A life enters or leaves. Lives may overlap by the tolerance, so each leaves so much earlier
  // than it ends, and one that is not longer never enters.
  struct Change {
    Nanos time = 0;
    bool enters = false;
    const Life* life = nullptr;
  };

  std::vector<Change> changes_of(const Gpu& gpu) const {
    std::vector<Change> changes;
    for (const auto& [placed, instance] : gpu.instances) {
      for (const Life& life : instance.lives) {
        if (!later(life.end, life.begin)) continue;
        changes.push_back({life.begin, true, &life});
        if (life.end != plan::kForever)
          changes.push_back({life.end - kTimeTolerance, false, &life});
      }
    }
    std::ranges::sort(changes, {}, [](const Change& c) {
      return std::tuple(c.time, c.enters, c.life->placed, c.life->usable);
    });
    return changes;
  }

  // What cannot be created is reported once and then left out, so that it blames no later one.
  void check_layouts(int g) {
    const Gpu& gpu = gpus_[at(g)];
    std::vector<const Life*> alive;
    for (const Change& change : changes_of(gpu)) {
      if (!change.enters) {
        std::erase(alive, change.life);
        continue;
      }
      alive.push_back(change.life);
      std::vector<hw::PlacedProfile> placed;
      for (const Life* life : alive) placed.push_back(life->placed);
      const std::vector<hw::Conflict> conflicts = hw::conflicts(*gpu.model, placed);
      if (conflicts.empty()) continue;
      report_layout(g, change, conflicts.front(), placed);
      alive.pop_back();
    }
  }

  void report_layout(int g, const Change& change, const hw::Conflict& conflict,
                     const std::vector<hw::PlacedProfile>& placed) {
    const auto name = [&](int i) { return name_of(g, placed[at(i)]); };
    std::string others;
    if (conflict.constraint == "memory_slices")
      others = fmt::format(", of {}", name(conflict.first));
    report("layout", fmt::format("gpu {} at {:.6f} s", g, in_seconds(change.time)), conflict.have,
           conflict.need,
           fmt::format("creating {} needs {} that are not free{}", name_of(g, change.life->placed),
                       conflict.constraint, others));
  }

  // ---- figures ----

  void check_makespan() {
    Nanos last = 0;
    for (const ScheduledTask& task : schedule_.tasks) last = std::max(last, task.end);
    if (differ(schedule_.makespan, last))
      report("makespan", "schedule", in_seconds(schedule_.makespan), in_seconds(last),
             "seconds stated, and when the last task ends");
  }

  void check_bound() {
    const Nanos bound = schedule_.lower_bound;
    if (later(0, bound))
      report("negative_time", "schedule", in_seconds(bound), 0, "the lower bound is below 0");
    if (later(bound, schedule_.makespan))
      report("lower_bound", "schedule", in_seconds(bound), in_seconds(schedule_.makespan),
             "seconds that no schedule undercuts, and what this one takes");
    const std::optional<Wide> queue = time_in_a_queue();
    if (!queue) return;
    const double need = static_cast<double>(*queue) / 1e9;
    if (bound - *queue > kTimeTolerance)
      report("lower_bound", "schedule", in_seconds(bound), need,
             "seconds that no schedule undercuts, and what all tasks take one by one");
    // With deadlines the least late is optimal, which may take longer.
    const bool hurried = std::ranges::any_of(
        problem_.tasks, [](const plan::Task& task) { return task.deadline.has_value(); });
    if (schedule_.optimal && !hurried && schedule_.makespan - *queue > kTimeTolerance)
      report("lower_bound", "schedule", in_seconds(schedule_.makespan), need,
             "seconds said to be optimal, and what all tasks take one by one");
  }

  // The makespan of the plainest schedule: all tasks one after the other, when all are released, on
  // the one instance where that is shortest. Nothing when no instance fits all.
  std::optional<Wide> time_in_a_queue() const {
    Nanos released = 0;
    for (const plan::Task& task : problem_.tasks) released = std::max(released, task.release);
    std::optional<Wide> least;
    for (std::size_t m = 0; m < problem_.models.size(); ++m) {
      if (std::ranges::find(problem_.gpus, static_cast<int>(m)) == problem_.gpus.end()) continue;
      for (const hw::MigProfile& shape : problem_.models[m].profiles) {
        const auto fits = [&](const plan::Task& task) { return task.times[m][shape.gpcs] > 0; };
        if (shape.starts.empty() || !std::ranges::all_of(problem_.tasks, fits)) continue;
        Wide end =
            std::max(released, reconfiguration_time(problem_.models[m], shape.gpcs, Op::create));
        for (const plan::Task& task : problem_.tasks) end += task.times[m][shape.gpcs];
        least = std::min(least.value_or(end), end);
      }
    }
    return least;
  }

  const plan::BatchProblem& problem_;
  const plan::BatchSchedule& schedule_;
  std::vector<Gpu> gpus_;
  std::map<std::string_view, std::size_t> task_index_;
  std::vector<std::vector<const ScheduledTask*>> scheduled_;  // per task of the problem
};

}  // namespace

std::vector<Reason> verify(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule) {
  return BatchJudge(problem, schedule).verdict();
}

}  // namespace partita::verify
