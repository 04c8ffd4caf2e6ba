// For tests: random batches of awkward shapes, and a plain check of schedules that shares nothing
// with the schedulers but the vocabulary. (The judge proper is not visible from this module.)
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "hw/catalogue.h"
#include "plan/batch.h"
#include "planners/batch/scheduler.h"

namespace partita::planners::batch {

inline plan::Nanos s(double value) { return plan::nanos(Seconds{value}); }

inline const hw::GpuModel& test_model(const char* name) {
  return *hw::builtin_catalogue().find(name);
}

inline plan::BatchProblem empty_batch(const std::vector<const char*>& models,
                                      const std::vector<int>& gpus) {
  plan::BatchProblem problem{.tasks = {}, .models = {}, .gpus = gpus};
  for (const char* name : models) problem.models.push_back(test_model(name));
  return problem;
}

// Times in seconds by compute slices, the same on every model; others: does not fit.
inline void add_task(plan::BatchProblem& problem, const std::map<int, double>& times) {
  plan::Task task{.name = "t" + std::to_string(problem.tasks.size() + 1), .times = {}};
  for (std::size_t m = 0; m < problem.models.size(); ++m) {
    plan::SizeTimes own;
    for (const auto& [size, time] : times) own[size] = plan::nanos(Seconds{time});
    task.times.push_back(own);
  }
  problem.tasks.push_back(std::move(task));
}

// Sizes of the plain profiles; every model of the catalogue is of one of the two kinds.
inline std::vector<int> test_sizes(const hw::GpuModel& model) {
  if (model.compute_slices == 4) return {1, 2, 4};
  return {1, 2, 3, 4, 7};
}

inline Options with_argument(const std::string& argument) {
  Options options;
  options.argument = argument;
  return options;
}

enum class Shape { monotone, wild, equal, few_sizes, largest_only };

// Times are whole microseconds, so that works are equal or clearly different.
inline plan::BatchProblem random_batch(const plan::BatchProblem& gpus, int count, Shape shape,
                                       Rng& rng) {
  plan::BatchProblem problem = gpus;
  const plan::Nanos same = 1'000 * static_cast<plan::Nanos>(1 + rng.below(50'000'000));
  for (int i = 0; i < count; ++i) {
    plan::Task task{.name = "t" + std::to_string(i + 1), .times = {}};
    for (const hw::GpuModel& model : problem.models) {
      plan::SizeTimes times;
      const std::vector<int> sizes = test_sizes(model);
      auto time = static_cast<double>(1'000 + rng.below(90'000'000));
      int previous = sizes.front();
      for (const int size : sizes) {
        time *= 1 - rng.uniform() * (1 - static_cast<double>(previous) / size);
        previous = size;
        if (shape == Shape::wild) time = static_cast<double>(1 + rng.below(90'000'000));
        times[size] = 1'000 * static_cast<plan::Nanos>(1 + time);
        if (shape == Shape::equal) times[size] = same;
        const bool last = size == sizes.back();
        if (shape == Shape::few_sizes && rng.below(2) == 0 && !last) times[size] = 0;
        if (shape == Shape::largest_only && !last) times[size] = 0;
      }
      task.times.push_back(times);
    }
    problem.tasks.push_back(std::move(task));
  }
  return problem;
}

namespace test_batches {

// An instance of the schedule: alive from its creation to the end of its destruction.
struct Life {
  int first = 0, last = 0;  // memory slices, last exclusive
  plan::Nanos created = 0, ready = 0, ending = INT64_MAX, gone = INT64_MAX;
};
using Place = std::tuple<int, std::string, int>;  // gpu, profile, start

inline std::string check_lives(const std::map<Place, std::vector<Life>>& lives) {
  for (const auto& [a, of_a] : lives) {
    for (const auto& [b, of_b] : lives) {
      if (std::get<0>(a) != std::get<0>(b)) continue;
      for (std::size_t i = 0; i < of_a.size(); ++i) {
        for (std::size_t k = 0; k < of_b.size(); ++k) {
          const Life &x = of_a[i], &y = of_b[k];
          const bool itself = a == b && i == k;
          if (!itself && x.first < y.last && y.first < x.last && x.created < y.gone &&
              y.created < x.gone) {
            return "instances overlap: " + std::get<1>(a) + ", " + std::get<1>(b);
          }
        }
      }
    }
  }
  return {};
}

}  // namespace test_batches

// What is wrong with a schedule, in words; empty when nothing is.
inline std::string schedule_error(const plan::BatchProblem& problem,
                                  const plan::BatchSchedule& schedule) {
  using test_batches::Life;
  std::map<test_batches::Place, std::vector<Life>> lives;
  std::map<int, plan::Nanos> busy;  // per reconfigurer
  for (const plan::Reconfiguration& op : schedule.reconfigurations) {
    const hw::GpuModel& model =
        problem.models[static_cast<std::size_t>(problem.gpus[static_cast<std::size_t>(op.gpu)])];
    const int index = model.profile_index(op.profile);
    if (index < 0) return "profile";
    const hw::MigProfile& profile = model.profiles[static_cast<std::size_t>(index)];
    if (std::ranges::count(profile.starts, op.start) == 0) return "start";
    plan::Nanos& until = busy[problem.reconfigurer.number(op.gpu)];
    if (op.begin < until) return "reconfigurations overlap";
    until = op.end;
    const bool create = op.op == plan::Reconfiguration::Op::create;
    plan::Nanos takes = -1;
    for (const hw::ReconfigurationTime& time : model.reconfiguration) {
      if (time.gpcs == profile.gpcs) takes = plan::nanos(create ? time.create : time.destroy);
    }
    if (op.end - op.begin != std::max<plan::Nanos>(takes, 0)) return "reconfiguration time";
    std::vector<Life>& own = lives[{op.gpu, op.profile, op.start}];
    const bool exists = !own.empty() && own.back().gone == INT64_MAX;
    if (create == exists) return "created twice or destroyed never created";
    if (create) {
      own.push_back({op.start, op.start + profile.size, op.begin, op.end});
    } else {
      own.back().ending = op.begin;
      own.back().gone = op.end;
    }
  }
  if (const std::string error = test_batches::check_lives(lives); !error.empty()) return error;
  std::map<std::string, const plan::ScheduledTask*> done;
  std::map<test_batches::Place, plan::Nanos> ran;  // tasks are sorted by begin
  plan::Nanos makespan = 0;
  for (const plan::ScheduledTask& task : schedule.tasks) {
    if (!done.emplace(task.task, &task).second) return task.task + " twice";
    const test_batches::Place place{task.gpu, task.profile, task.start};
    const bool inside = std::ranges::any_of(lives[place], [&](const Life& life) {
      return life.ready <= task.begin && task.end <= life.ending;
    });
    if (!inside) return task.task + " runs without instance";
    if (task.begin < ran[place]) return task.task + " shares its instance";
    ran[place] = task.end;
    makespan = std::max(makespan, task.end);
  }
  for (const plan::Task& task : problem.tasks) {
    if (!done.contains(task.name)) return task.name + " is lost";
    const plan::ScheduledTask& run = *done[task.name];
    const auto model = static_cast<std::size_t>(problem.gpus[static_cast<std::size_t>(run.gpu)]);
    const int profile = problem.models[model].profile_index(run.profile);
    const int gpcs = problem.models[model].profiles[static_cast<std::size_t>(profile)].gpcs;
    if (task.times[model][gpcs] == 0) return task.name + " does not fit";
    if (run.end - run.begin != task.times[model][gpcs]) return task.name + " has another time";
    if (run.begin < task.release) return task.name + " begins before its release";
    for (const std::string& before : task.after) {
      if (done.at(before)->end > run.begin) return task.name + " begins before " + before + " ends";
    }
  }
  if (done.size() != problem.tasks.size()) return "unknown task";
  return makespan == schedule.makespan ? "" : "makespan";
}

}  // namespace partita::planners::batch
