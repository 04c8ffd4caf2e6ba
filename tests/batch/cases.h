// Valid schedules to be changed, with what a change needs to know of them, for the tests of the
// judge: the words it says, which instances exist in the end, the places of a GPU.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "all_schedulers.h"
#include "problems.h"
#include "verify/batch.h"

namespace partita::batch_test {

using plan::BatchProblem;
using plan::BatchSchedule;
using plan::Nanos;
using plan::Reconfiguration;
using plan::ScheduledTask;
using Op = Reconfiguration::Op;
using Words = std::set<std::string>;

inline constexpr Nanos kMs = 1'000'000;
inline constexpr Nanos kSecond = plan::kNanosInSecond;

// A problem with a schedule of it, to be spoilt.
struct Case {
  BatchProblem problem;
  BatchSchedule schedule;

  Words words() const {
    Words found;
    for (const plan::Reason& reason : verify::verify(problem, schedule))
      found.insert(reason.constraint);
    return found;
  }
  const hw::GpuModel& model(int gpu) const {
    return problem.models[static_cast<std::size_t>(problem.gpus[static_cast<std::size_t>(gpu)])];
  }
  plan::Task& task(const std::string& name) {
    return *std::ranges::find(problem.tasks, name, &plan::Task::name);
  }
  // When nothing happens any more on any GPU.
  Nanos over() const {
    Nanos last = 0;
    for (const ScheduledTask& t : schedule.tasks) last = std::max(last, t.end);
    for (const Reconfiguration& r : schedule.reconfigurations) last = std::max(last, r.end);
    return last + kSecond;
  }
  Nanos time(int gpu, const std::string& profile, Op op) const {
    const hw::GpuModel& gpu_model = model(gpu);
    const auto index = static_cast<std::size_t>(gpu_model.profile_index(profile));
    for (const hw::ReconfigurationTime& t : gpu_model.reconfiguration)
      if (t.gpcs == gpu_model.profiles[index].gpcs)
        return plan::nanos(op == Op::create ? t.create : t.destroy);
    return 0;
  }
  Reconfiguration last(int gpu, Op op, const std::string& profile, int start) const {
    return {{profile, start}, gpu, op, over(), over() + time(gpu, profile, op)};
  }
};

template <class T>
T& some(Rng& rng, std::vector<T>& list) {
  return list[rng.below(list.size())];
}

template <class A, class B>
bool same_instance(const A& a, const B& b) {
  return a.gpu == b.gpu && a.profile == b.profile && a.start == b.start;
}

template <class Timed>
void move_to(Timed& what, Nanos begin) {
  what.end += begin - what.begin;
  what.begin = begin;
}

// A random reconfiguration of that kind, or null.
inline Reconfiguration* some_operation(Case& c, Rng& rng, Op op) {
  std::vector<Reconfiguration*> list;
  for (Reconfiguration& r : c.schedule.reconfigurations)
    if (r.op == op) list.push_back(&r);
  return list.empty() ? nullptr : some(rng, list);
}

// Whether memory slices of A, on the same GPU, are among B's.
template <class A, class B>
bool meet(const Case& c, const A& a, const B& b) {
  if (a.gpu != b.gpu) return false;
  const hw::GpuModel& model = c.model(a.gpu);
  const auto size = [&](const std::string& profile) {
    return model.profiles[static_cast<std::size_t>(model.profile_index(profile))].size;
  };
  return a.start < b.start + size(b.profile) && b.start < a.start + size(a.profile);
}

inline bool ever_created(const Case& c, const Reconfiguration& place) {
  return std::ranges::any_of(c.schedule.reconfigurations, [&](const Reconfiguration& r) {
    return r.op == Op::create && same_instance(r, place);
  });
}

// The instances that exist at the end.
inline std::vector<Reconfiguration> survivors(const Case& c) {
  std::vector<Reconfiguration> alive;
  for (const Reconfiguration& r : c.schedule.reconfigurations) {
    if (r.op == Op::create)
      alive.push_back(r);
    else
      std::erase_if(alive, [&](const Reconfiguration& a) { return same_instance(a, r); });
  }
  return alive;
}

// All plain places of a GPU, as creations at the end.
inline std::vector<Reconfiguration> places(const Case& c, int gpu) {
  std::vector<Reconfiguration> list;
  for (const int p : hw::plain_profiles(c.model(gpu))) {
    const hw::MigProfile& shape = c.model(gpu).profiles[static_cast<std::size_t>(p)];
    for (const int start : shape.starts) list.push_back(c.last(gpu, Op::create, shape.name, start));
  }
  return list;
}

// Schedules of every kind: random ones, and one of each scheduler.
inline std::vector<Case> valid_cases(Rng& rng, int count) {
  const std::vector<NamedScheduler> schedulers = all_schedulers();
  std::vector<Case> cases;
  for (std::size_t round = 0; static_cast<int>(cases.size()) < count; ++round) {
    const Shape shape{.most_tasks = 16, .timed = rng.below(2) == 0, .extreme = false};
    const BatchProblem problem = random_batch(rng, shape);
    if (problem.tasks.size() < 2) continue;
    cases.push_back({problem, random_schedule(rng, problem, false)});
    const auto outcome = schedulers[round % schedulers.size()].run(problem, 500);
    if (!outcome.schedule) continue;
    cases.push_back({problem, *outcome.schedule});
    cases.back().schedule.optimal = false;  // some changes would make it a false claim
  }
  return cases;
}

}  // namespace partita::batch_test
