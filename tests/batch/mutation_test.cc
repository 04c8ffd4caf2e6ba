// Valid schedules and the judge: every kind of corruption gets its word.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"

namespace partita::batch_test {
namespace {

// The corruptions: `apply` says whether there was something to spoil. All words of `must` have to
// be found, one of `any` if there are some, and none that is in neither of them nor in `may`.
struct MutationChange {
  std::string what;
  Words must, any, may;
  std::function<bool(Case&, Rng&)> apply;
};

std::vector<MutationChange> tasks_lost_and_doubled() {
  return {
      {"a task lost",
       {"missing_task"},
       {},
       {"makespan", "lower_bound"},
       [](Case& c, Rng& rng) {
         auto& tasks = c.schedule.tasks;
         tasks.erase(tasks.begin() + static_cast<std::ptrdiff_t>(rng.below(tasks.size())));
         return true;
       }},
      {"a task twice at once",
       {"duplicate_task", "instance_busy"},
       {},
       {},
       [](Case& c, Rng& rng) {
         const ScheduledTask copy = some(rng, c.schedule.tasks);
         c.schedule.tasks.push_back(copy);
         return true;
       }},
      {"a task again on an instance of its own",
       {"duplicate_task"},
       {},
       {"after"},
       [](Case& c, Rng& rng) {
         ScheduledTask copy = some(rng, c.schedule.tasks);
         for (const Reconfiguration& alive : survivors(c))
           if (alive.gpu == copy.gpu && meet(c, alive, copy))
             c.schedule.reconfigurations.push_back(
                 c.last(alive.gpu, Op::destroy, alive.profile, alive.start));
         c.schedule.reconfigurations.push_back(
             c.last(copy.gpu, Op::create, copy.profile, copy.start));
         move_to(copy, c.over());
         c.schedule.tasks.push_back(copy);
         c.schedule.makespan = copy.end;
         return true;
       }},
      {"a stranger",
       {"unknown_task", "missing_task"},
       {},
       {},
       [](Case& c, Rng& rng) { return some(rng, c.schedule.tasks).task = "nobody", true; }},
      {"two tasks under each other's names",
       {},
       {"duration", "does_not_fit"},
       {"release", "after"},
       [](Case& c, Rng& rng) {
         ScheduledTask& a = some(rng, c.schedule.tasks);
         ScheduledTask& b = some(rng, c.schedule.tasks);
         if (std::abs((a.end - a.begin) - (b.end - b.begin)) < kMs) return false;
         // Same model and size, so that the times must differ.
         if (c.model(a.gpu).name != c.model(b.gpu).name || a.profile != b.profile) return false;
         std::swap(a.task, b.task);
         return true;
       }},
  };
}

std::vector<MutationChange> tasks_elsewhere() {
  return {
      {"a task on a GPU too many",
       {"gpu_index"},
       {},
       {},
       [](Case& c, Rng& rng) {
         some(rng, c.schedule.tasks).gpu = static_cast<int>(c.problem.gpus.size());
         return true;
       }},
      {"a task on GPU -1",
       {"gpu_index"},
       {},
       {},
       [](Case& c, Rng& rng) { return some(rng, c.schedule.tasks).gpu = -1, true; }},
      {"a task on an unknown profile",
       {"unknown_profile"},
       {},
       {},
       [](Case& c, Rng& rng) { return some(rng, c.schedule.tasks).profile += "b", true; }},
      {"a task at an illegal start",
       {"illegal_start"},
       {},
       {},
       [](Case& c, Rng& rng) { return some(rng, c.schedule.tasks).start = 11, true; }},
      {"a task where no instance ever is",
       {"no_instance"},
       {},
       {},
       [](Case& c, Rng& rng) {
         ScheduledTask& task = some(rng, c.schedule.tasks);
         std::vector<Reconfiguration> free = places(c, task.gpu);
         std::erase_if(free, [&](const Reconfiguration& place) {
           return place.profile != task.profile || ever_created(c, place);
         });
         if (free.empty()) return false;
         task.start = some(rng, free).start;
         return true;
       }},
      {"a task on the same place of another GPU",
       {"no_instance"},
       {},
       {"duration", "does_not_fit"},
       [](Case& c, Rng& rng) {
         ScheduledTask& task = some(rng, c.schedule.tasks);
         for (int g = 0; g < static_cast<int>(c.problem.gpus.size()); ++g) {
           const Reconfiguration place{task, g, Op::create, 0, 0};
           const std::vector<Reconfiguration> list = places(c, g);
           const auto is_place = [&](const auto& p) { return same_instance(p, place); };
           if (std::ranges::none_of(list, is_place) || ever_created(c, place)) continue;
           task.gpu = g;
           return true;
         }
         return false;
       }},
  };
}

std::vector<MutationChange> tasks_at_other_times() {
  return {
      {"a task cut short",
       {"duration"},
       {},
       {"makespan", "lower_bound"},
       [](Case& c, Rng& rng) { return some(rng, c.schedule.tasks).end -= 2 * kMs, true; }},
      {"a task drawn out",
       {"duration"},
       {},
       {"makespan", "no_instance", "instance_busy", "after"},
       [](Case& c, Rng& rng) { return some(rng, c.schedule.tasks).end += 2 * kMs, true; }},
      {"a task before its instance is ready",
       {"no_instance"},
       {},
       {"release", "after", "instance_busy", "makespan", "lower_bound"},
       [](Case& c, Rng& rng) {
         ScheduledTask& task = some(rng, c.schedule.tasks);
         const auto creates = [&](const Reconfiguration& r) {
           return r.op == Op::create && same_instance(r, task);
         };
         const auto create = std::ranges::find_if(c.schedule.reconfigurations, creates);
         if (create->end - create->begin < kMs) return false;
         move_to(task, create->begin);
         return true;
       }},
      {"two tasks at once on one instance",
       {"instance_busy"},
       {},
       {"release", "after", "no_instance", "makespan", "lower_bound"},
       [](Case& c, Rng& rng) {
         ScheduledTask& a = some(rng, c.schedule.tasks);
         for (ScheduledTask& b : c.schedule.tasks) {
           if (!same_instance(a, b) || a.begin >= b.begin) continue;
           move_to(b, a.begin);
           return true;
         }
         return false;
       }},
      {"a task that ends before it begins",
       {"negative_time", "duration"},
       {},
       {"makespan", "no_instance", "after", "release", "instance_busy", "lower_bound"},
       [](Case& c, Rng& rng) {
         ScheduledTask& task = some(rng, c.schedule.tasks);
         std::swap(task.begin, task.end);
         return true;
       }},
  };
}

std::vector<MutationChange> reconfigurations_lost() {
  return {
      {"a creation lost",
       {},
       {"no_instance"},
       {"destroy_missing"},
       [](Case& c, Rng& rng) {
         const Reconfiguration* create = some_operation(c, rng, Op::create);
         const ScheduledTask* user = nullptr;
         for (const ScheduledTask& task : c.schedule.tasks)
           if (same_instance(task, *create)) user = &task;
         if (!user) return false;
         c.schedule.reconfigurations.erase(c.schedule.reconfigurations.begin() +
                                           (create - c.schedule.reconfigurations.data()));
         return true;
       }},
      {"a destruction lost",
       {"layout"},
       {},
       {"create_existing"},
       [](Case& c, Rng& rng) {
         const Reconfiguration* lost = some_operation(c, rng, Op::destroy);
         if (!lost) return false;
         const bool needed =
             std::ranges::any_of(c.schedule.reconfigurations, [&](const Reconfiguration& r) {
               return r.op == Op::create && r.begin >= lost->end && meet(c, r, *lost) &&
                      !same_instance(r, *lost);
             });
         if (!needed) return false;
         c.schedule.reconfigurations.erase(c.schedule.reconfigurations.begin() +
                                           (lost - c.schedule.reconfigurations.data()));
         return true;
       }},
  };
}

std::vector<MutationChange> reconfigurations_at_other_times() {
  return {
      {"a creation in no time",
       {"reconfiguration_time"},
       {},
       {},
       [](Case& c, Rng& rng) {
         Reconfiguration& create = *some_operation(c, rng, Op::create);
         create.end = create.begin;
         return true;
       }},
      {"a slow destruction",
       {"reconfiguration_time"},
       {},
       {"reconfiguration_overlap", "layout", "create_existing"},
       [](Case& c, Rng& rng) {
         Reconfiguration* destroy = some_operation(c, rng, Op::destroy);
         if (destroy) destroy->end += 2 * kMs;
         return destroy != nullptr;
       }},
      {"two reconfigurations at once",
       {"reconfiguration_overlap"},
       {},
       {"layout", "create_existing", "no_instance", "destroy_missing"},
       [](Case& c, Rng& rng) {
         Reconfiguration& a = some(rng, c.schedule.reconfigurations);
         for (Reconfiguration& b : c.schedule.reconfigurations) {
           if (a.gpu != b.gpu || a.begin >= b.begin) continue;
           move_to(b, a.begin + kMs);
           return true;
         }
         return false;
       }},
      {"an instance destroyed under its task",
       {"no_instance"},
       {},
       {"reconfiguration_overlap", "layout"},
       [](Case& c, Rng& rng) {
         Reconfiguration* destroy = some_operation(c, rng, Op::destroy);
         if (!destroy) return false;
         Nanos last = -1;
         for (const ScheduledTask& task : c.schedule.tasks)
           if (same_instance(task, *destroy) && task.end <= destroy->begin)
             last = std::max(last, task.end);
         if (last < 0) return false;
         for (const Reconfiguration& r : c.schedule.reconfigurations)  // its latest life is meant
           if (r.op == Op::create && same_instance(r, *destroy) && r.begin >= last &&
               r.begin < destroy->begin)
             return false;
         move_to(*destroy, last - kMs / 100);
         return true;
       }},
  };
}

std::vector<MutationChange> reconfigurations_out_of_turn() {
  return {
      {"a creation called destruction",
       {"destroy_missing"},
       {},
       {"reconfiguration_time", "no_instance", "create_existing", "layout"},
       [](Case& c, Rng& rng) {
         some_operation(c, rng, Op::create)->op = Op::destroy;
         return true;
       }},
      {"a destruction called creation",
       {"create_existing"},
       {},
       {"reconfiguration_time", "layout", "destroy_missing"},
       [](Case& c, Rng& rng) {
         Reconfiguration* destroy = some_operation(c, rng, Op::destroy);
         if (destroy) destroy->op = Op::create;
         return destroy != nullptr;
       }},
      {"what exists created again",
       {"create_existing"},
       {},
       {},
       [](Case& c, Rng& rng) {
         std::vector<Reconfiguration> alive = survivors(c);
         if (alive.empty()) return false;
         const Reconfiguration& one = some(rng, alive);
         c.schedule.reconfigurations.push_back(c.last(one.gpu, Op::create, one.profile, one.start));
         return true;
       }},
      {"what does not exist destroyed",
       {"destroy_missing"},
       {},
       {},
       [](Case& c, Rng& rng) {
         std::vector<Reconfiguration> list =
             places(c, static_cast<int>(rng.below(c.problem.gpus.size())));
         for (const Reconfiguration& alive : survivors(c))
           std::erase_if(list, [&](const auto& place) { return same_instance(place, alive); });
         const Reconfiguration& one = some(rng, list);
         c.schedule.reconfigurations.push_back(
             c.last(one.gpu, Op::destroy, one.profile, one.start));
         return true;
       }},
      {"an instance over another one",
       {"layout"},
       {},
       {},
       [](Case& c, Rng& rng) {
         std::vector<Reconfiguration> alive = survivors(c);
         std::vector<Reconfiguration> list = places(c, some(rng, alive).gpu);
         std::erase_if(list, [&](const Reconfiguration& place) {
           return std::ranges::none_of(alive, [&](const auto& a) { return meet(c, a, place); }) ||
                  std::ranges::any_of(alive,
                                      [&](const auto& a) { return same_instance(a, place); });
         });
         if (list.empty()) return false;
         c.schedule.reconfigurations.push_back(some(rng, list));
         return true;
       }},
  };
}

std::vector<MutationChange> reconfigurations_elsewhere() {
  return {
      {"a creation of another profile",
       {"no_instance"},
       {},
       {"reconfiguration_time", "illegal_start", "layout", "destroy_missing", "create_existing"},
       [](Case& c, Rng& rng) {
         Reconfiguration& create = *some_operation(c, rng, Op::create);
         const auto uses = [&](const ScheduledTask& t) { return same_instance(t, create); };
         if (std::ranges::none_of(c.schedule.tasks, uses)) return false;
         for (const int p : hw::plain_profiles(c.model(create.gpu))) {
           const hw::MigProfile& other = c.model(create.gpu).profiles[static_cast<std::size_t>(p)];
           if (other.name == create.profile) continue;
           create.profile = other.name;
           return true;
         }
         return false;
       }},
      {"a reconfiguration on a GPU too many",
       {"gpu_index"},
       {},
       {"no_instance", "destroy_missing", "layout", "create_existing"},
       [](Case& c, Rng& rng) {
         some(rng, c.schedule.reconfigurations).gpu = static_cast<int>(c.problem.gpus.size());
         return true;
       }},
      {"a reconfiguration of an unknown profile",
       {"unknown_profile"},
       {},
       {"no_instance", "destroy_missing", "layout", "create_existing"},
       [](Case& c, Rng& rng) {
         some(rng, c.schedule.reconfigurations).profile = "0g.0gb";
         return true;
       }},
      {"a reconfiguration at an illegal start",
       {"illegal_start"},
       {},
       {"no_instance", "destroy_missing", "layout", "create_existing"},
       [](Case& c, Rng& rng) { return some(rng, c.schedule.reconfigurations).start = -1, true; }},
  };
}

std::vector<MutationChange> other_figures() {
  return {
      {"everything a second early",
       {"negative_time"},
       {},
       {"release"},
       [](Case& c, Rng&) {
         Nanos first = plan::kForever;
         for (const Reconfiguration& r : c.schedule.reconfigurations)
           first = std::min(first, r.begin);
         for (ScheduledTask& t : c.schedule.tasks) move_to(t, t.begin - first - kSecond);
         for (Reconfiguration& r : c.schedule.reconfigurations)
           move_to(r, r.begin - first - kSecond);
         c.schedule.makespan -= first + kSecond;
         c.schedule.lower_bound = 0;
         return c.schedule.makespan > 0;
       }},
      {"another makespan",
       {"makespan"},
       {},
       {},
       [](Case& c, Rng&) { return c.schedule.makespan += 2 * kMs, true; }},
      {"a bound above the makespan",
       {"lower_bound"},
       {},
       {},
       [](Case& c, Rng&) {
         c.schedule.lower_bound = c.schedule.makespan + 2 * kMs;
         return true;
       }},
      {"a negative bound",
       {"negative_time"},
       {},
       {},
       [](Case& c, Rng&) { return c.schedule.lower_bound = -kSecond, true; }},
      {"another GPU model",
       {"unknown_gpu_model"},
       {},
       {},
       [](Case& c, Rng& rng) { return some(rng, c.schedule.gpu_models) += "x", true; }},
      {"a GPU lost",
       {"unknown_gpu_model"},
       {},
       {},
       [](Case& c, Rng&) { return c.schedule.gpu_models.pop_back(), true; }},
      {"a GPU too many",
       {"unknown_gpu_model"},
       {},
       {},
       [](Case& c, Rng&) {
         const std::string first = c.schedule.gpu_models.front();
         c.schedule.gpu_models.push_back(first);
         return true;
       }},
  };
}

std::vector<MutationChange> another_problem() {
  return {
      {"a task that does not fit after all",
       {"does_not_fit"},
       {},
       {},
       [](Case& c, Rng& rng) {
         const ScheduledTask& run = some(rng, c.schedule.tasks);
         const hw::GpuModel& model = c.model(run.gpu);
         const auto p = static_cast<std::size_t>(model.profile_index(run.profile));
         for (plan::SizeTimes& times : c.task(run.task).times) times[model.profiles[p].gpcs] = 0;
         return true;
       }},
      {"a later release",
       {"release"},
       {},
       {},
       [](Case& c, Rng& rng) {
         const ScheduledTask& run = some(rng, c.schedule.tasks);
         c.task(run.task).release = run.begin + 2 * kMs;
         return true;
       }},
      {"one more predecessor",
       {"after"},
       {},
       {},
       [](Case& c, Rng& rng) {
         const ScheduledTask& first = some(rng, c.schedule.tasks);
         const ScheduledTask& then = some(rng, c.schedule.tasks);
         if (then.begin >= first.end - kMs) return false;
         c.task(then.task).after.push_back(first.task);
         return true;
       }},
  };
}

std::vector<MutationChange> changes() {
  std::vector<MutationChange> all;
  for (const auto& some_changes :
       {tasks_lost_and_doubled(), tasks_elsewhere(), tasks_at_other_times(),
        reconfigurations_lost(), reconfigurations_at_other_times(), reconfigurations_out_of_turn(),
        reconfigurations_elsewhere(), other_figures(), another_problem()})
    all.insert(all.end(), some_changes.begin(), some_changes.end());
  return all;
}

TEST(BatchMutation, EveryCorruptionHasItsWord) {
  Rng rng(1);
  const std::vector<Case> cases = valid_cases(rng, 120);
  EXPECT_GE(changes().size(), 40U);
  for (const MutationChange& change : changes()) {
    int applied = 0;
    for (const Case& valid : cases) {
      Case spoilt = valid;
      if (!change.apply(spoilt, rng)) continue;
      ++applied;
      const Words found = spoilt.words();
      for (const std::string& word : change.must)
        EXPECT_TRUE(found.contains(word)) << change.what << ": no " << word;
      const auto is_found = [&](const std::string& word) { return found.contains(word); };
      EXPECT_TRUE(change.any.empty() || std::ranges::any_of(change.any, is_found)) << change.what;
      for (const std::string& word : found)
        EXPECT_TRUE(change.must.contains(word) || change.any.contains(word) ||
                    change.may.contains(word))
            << change.what << ": " << word;
    }
    EXPECT_GE(applied, 10) << change.what;
  }
}

// Several at once: something is found, and nothing twice.
TEST(BatchMutation, ChangesAddUp) {
  // After these other changes may find nothing to change any more.
  const Words last = {"gpu_index",     "unknown_profile", "illegal_start",    "unknown_task",
                      "negative_time", "destroy_missing", "unknown_gpu_model"};
  Rng rng(2);
  const std::vector<MutationChange> all = changes();
  for (Case& c : valid_cases(rng, 150)) {
    bool applied = false;
    for (std::uint64_t k = rng.below(6); k > 0; --k) {
      const Words found = c.words();
      if (std::ranges::any_of(last, [&](const std::string& word) { return found.contains(word); }))
        break;
      if (c.schedule.tasks.size() < 2 || !some_operation(c, rng, Op::create)) break;
      applied = all[rng.below(all.size())].apply(c, rng) || applied;
    }
    const std::vector<plan::Reason> reasons = verify::verify(c.problem, c.schedule);
    EXPECT_EQ(applied, !reasons.empty());
    std::set<std::pair<std::string, std::string>> said;
    for (const plan::Reason& reason : reasons)
      EXPECT_TRUE(said.emplace(reason.constraint, reason.subject).second)
          << plan::to_string(reason);
  }
}

}  // namespace
}  // namespace partita::batch_test
