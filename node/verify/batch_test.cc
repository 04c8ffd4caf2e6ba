#include "verify/batch.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "hw/catalogue.h"
#include "plan/testing/test_halves.h"

namespace partita::verify {
namespace {

using plan::BatchProblem;
using plan::BatchSchedule;
using plan::Nanos;
using plan::Reason;
using plan::Reconfiguration;
using plan::ScheduledTask;
using Op = Reconfiguration::Op;

constexpr Nanos kMs = 1'000'000;
constexpr Nanos kSecond = plan::kNanosInSecond;

plan::SizeTimes times(std::vector<std::pair<int, Nanos>> list) {
  plan::SizeTimes result;
  for (const auto& [gpcs, time] : list) result[gpcs] = time;
  return result;
}

// Two A30; tasks a and b like 2g, c needs the whole GPU.
BatchProblem two_a30() {
  BatchProblem problem;
  problem.models = {*hw::builtin_catalogue().find("A30-24GB")};
  problem.gpus = {0, 0};
  problem.reconfigurer.of = plan::Reconfigurer::Of::gpu;
  const plan::SizeTimes scales = times({{1, 8 * kSecond}, {2, 5 * kSecond}});
  problem.tasks = {{.name = "a", .times = {scales}},
                   {.name = "b", .times = {scales}},
                   {.name = "c", .times = {times({{4, 3 * kSecond}})}}};
  return problem;
}

// On GPU 0, by hand: 4g for c from 0.13 to 3.13 s, then 2g twice, for a from 3.35 and b from 3.47.
BatchSchedule by_hand() {
  BatchSchedule schedule = plan::test::halves_schedule();
  schedule.scheduler = "hand";
  schedule.gpu_models = {"A30-24GB", "A30-24GB"};
  schedule.lower_bound = 5120 * kMs;
  return schedule;
}

using Words = std::vector<std::pair<std::string, std::string>>;  // word, subject; sorted

Words words(const BatchProblem& problem, const BatchSchedule& schedule) {
  std::multiset<std::pair<std::string, std::string>> found;
  for (const Reason& reason : verify(problem, schedule))
    found.emplace(reason.constraint, reason.subject);
  return {found.begin(), found.end()};
}

// The words for the schedule by hand after a change.
Words after(const std::function<void(BatchSchedule&)>& change) {
  BatchSchedule schedule = by_hand();
  change(schedule);
  return words(two_a30(), schedule);
}
Words after(const std::function<void(BatchProblem&, BatchSchedule&)>& change) {
  BatchProblem problem = two_a30();
  BatchSchedule schedule = by_hand();
  change(problem, schedule);
  return words(problem, schedule);
}

template <class Timed>
void shift(Timed& what, Nanos by) {
  what.begin += by;
  what.end += by;
}
void shift_all(BatchSchedule& schedule, Nanos by) {
  for (ScheduledTask& task : schedule.tasks) shift(task, by);
  for (Reconfiguration& operation : schedule.reconfigurations) shift(operation, by);
  schedule.makespan += by;
}
// Everything from the 2g instances on, so that GPU 0 is idle for a while.
void shift_rest(BatchSchedule& schedule, Nanos by) {
  for (std::size_t i : {1U, 2U}) shift(schedule.tasks[i], by);
  for (std::size_t i : {2U, 3U}) shift(schedule.reconfigurations[i], by);
  schedule.makespan += by;
}

TEST(BatchJudge, ByHandIsRight) {
  EXPECT_EQ(words(two_a30(), by_hand()), Words{});
  EXPECT_EQ(
      after([](BatchSchedule& s) {
        s.tasks.clear();
        s.reconfigurations.clear();
        s.makespan = s.lower_bound = 0;
      }),
      (Words{{"missing_task", "task a"}, {"missing_task", "task b"}, {"missing_task", "task c"}}));
}

TEST(BatchJudge, WhatIsFeasibleIsRight) {
  EXPECT_EQ(after([](BatchSchedule& s) { shift_all(s, kSecond / 2); }), Words{});
  EXPECT_EQ(after([](BatchSchedule& s) { shift_rest(s, kSecond / 2); }), Words{});
  EXPECT_EQ(after([](BatchSchedule& s) { std::swap(s.tasks[0], s.tasks[2]); }), Words{});
  EXPECT_EQ(after([](BatchSchedule& s) { s.explanation = {"because"}; }), Words{});
  // An instance for nothing: in free space, and on the other GPU.
  EXPECT_EQ(after([](BatchSchedule& s) {
              shift_rest(s, kSecond);
              s.reconfigurations.push_back({{"1g.6gb", 3}, 0, Op::create, 3300 * kMs, 3410 * kMs});
              s.reconfigurations.push_back({{"1g.6gb", 3}, 0, Op::destroy, 3410 * kMs, 3510 * kMs});
              s.reconfigurations.push_back({{"4g.24gb", 0}, 1, Op::create, 0, 130 * kMs});
            }),
            Words{});
  // Another profile of as many compute slices; only its media engines differ.
  EXPECT_EQ(after([](BatchSchedule& s) {
              s.tasks[1].profile = s.reconfigurations[2].profile = "2g.12gb+me";
            }),
            Words{});
}

TEST(BatchJudge, AliasesAreNames) {
  BatchProblem problem = two_a30();
  problem.models[0].profiles.back().aliases = {"4g.whole"};
  BatchSchedule schedule = by_hand();
  schedule.tasks[0].profile = "4g.whole";
  ASSERT_EQ(problem.models[0].profiles.back().name, "4g.24gb");
  EXPECT_EQ(words(problem, schedule), Words{});
}

TEST(BatchJudge, GpusAndNames) {
  EXPECT_EQ(after([](BatchSchedule& s) { s.gpu_models[1] = "A30-48GB"; }),
            (Words{{"unknown_gpu_model", "gpu 1"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.gpu_models.pop_back(); }),
            (Words{{"unknown_gpu_model", "gpu 1"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.gpu_models.push_back("A30-24GB"); }),
            (Words{{"unknown_gpu_model", "gpu 2"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.tasks[0].gpu = 2; }), (Words{{"gpu_index", "task c"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.reconfigurations[3].gpu = -1; }),
            (Words{{"gpu_index", "gpu -1 create 2g.12gb at 2"}, {"no_instance", "task b"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.tasks[1].profile = "2g.10gb"; }),
            (Words{{"unknown_profile", "task a"}}));
  EXPECT_EQ(after([](BatchSchedule& s) {
              s.reconfigurations[0].profile = s.reconfigurations[1].profile = "";
              s.tasks.erase(s.tasks.begin());
            }),
            (Words{{"missing_task", "task c"},
                   {"unknown_profile", "gpu 0 create  at 0"},
                   {"unknown_profile", "gpu 0 destroy  at 0"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.tasks[1].start = 1; }),
            (Words{{"illegal_start", "task a"}}));
  EXPECT_EQ(after([](BatchSchedule& s) {
              s.reconfigurations.push_back({{"2g.12gb", 1}, 1, Op::create, 0, 120 * kMs});
            }),
            (Words{{"illegal_start", "gpu 1 create 2g.12gb at 1"}}));
}

TEST(BatchJudge, EachTaskOnceWithItsTime) {
  EXPECT_EQ(after([](BatchSchedule& s) { s.tasks.erase(s.tasks.begin()); }),
            (Words{{"missing_task", "task c"}}));
  EXPECT_EQ(after([](BatchSchedule& s) {
              s.tasks.push_back(s.tasks[1]);
              shift(s.tasks.back(), 5 * kSecond);
              s.makespan = s.tasks.back().end;
            }),
            (Words{{"duplicate_task", "task a"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.tasks.push_back(s.tasks[1]); }),
            (Words{{"duplicate_task", "task a"}, {"instance_busy", "tasks a and a"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.tasks[1].task = "nobody"; }),
            (Words{{"missing_task", "task a"}, {"unknown_task", "task nobody"}}));
  EXPECT_EQ(after([](BatchProblem& p, BatchSchedule&) { p.tasks[0].times[0][2] = 0; }),
            (Words{{"does_not_fit", "task a"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.tasks[1].end -= 2 * kMs; }),
            (Words{{"duration", "task a"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.tasks[1].begin += 2 * kMs; }),
            (Words{{"duration", "task a"}}));
  // On the other GPU nothing exists.
  EXPECT_EQ(after([](BatchSchedule& s) { s.tasks[1].gpu = 1; }),
            (Words{{"no_instance", "task a"}}));
}

TEST(BatchJudge, InstancesMustExistAndBeIdle) {
  EXPECT_EQ(after([](BatchSchedule& s) { shift(s.tasks[1], -kMs); }),
            (Words{{"no_instance", "task a"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { shift(s.tasks[0], kMs); }),
            (Words{{"no_instance", "task c"}}));
  EXPECT_EQ(
      after([](BatchSchedule& s) { s.reconfigurations.erase(s.reconfigurations.begin() + 2); }),
      (Words{{"no_instance", "task a"}}));
  EXPECT_EQ(after([](BatchProblem& p, BatchSchedule& s) {
              p.tasks.push_back({.name = "d", .times = {times({{2, kSecond}})}});
              s.tasks.push_back({{"2g.12gb", 0}, 0, "d", 4 * kSecond, 5 * kSecond});
            }),
            (Words{{"instance_busy", "tasks a and d"}}));
  // A third within the first, though the second lies between them.
  EXPECT_EQ(after([](BatchProblem& p, BatchSchedule& s) {
              for (const char* name : {"d", "e"})
                p.tasks.push_back({.name = name, .times = {times({{2, kSecond}})}});
              s.tasks.push_back({{"2g.12gb", 0}, 0, "d", 4 * kSecond, 5 * kSecond});
              s.tasks.push_back({{"2g.12gb", 0}, 0, "e", 6 * kSecond, 7 * kSecond});
            }),
            (Words{{"instance_busy", "tasks a and d"}, {"instance_busy", "tasks a and e"}}));
}

TEST(BatchJudge, ReconfigurationsTakeTheirTimeInTurns) {
  EXPECT_EQ(after([](BatchSchedule& s) { s.reconfigurations[3].end -= 2 * kMs; }),
            (Words{{"reconfiguration_time", "gpu 0 create 2g.12gb at 2"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.reconfigurations[1].end -= 2 * kMs; }),
            (Words{{"reconfiguration_time", "gpu 0 destroy 4g.24gb at 0"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { shift(s.reconfigurations[3], -2 * kMs); }),
            (Words{{"reconfiguration_overlap", "gpu 0"}}));
  // Those of another GPU are nobody's business.
  EXPECT_EQ(after([](BatchSchedule& s) {
              s.reconfigurations.push_back({{"1g.6gb", 0}, 1, Op::create, 0, 110 * kMs});
            }),
            Words{});
}

TEST(BatchJudge, GpusOfANodeShareItsReconfigurer) {
  const auto meanwhile = [](Nanos begin) {
    return [begin](BatchProblem& p, BatchSchedule& s) {
      p.reconfigurer = {};
      s.reconfigurations.push_back({{"1g.6gb", 0}, 1, Op::create, begin, begin + 110 * kMs});
    };
  };
  EXPECT_EQ(after(meanwhile(20 * kMs)), (Words{{"reconfiguration_overlap", "gpus 0 to 1"}}));
  EXPECT_EQ(after(meanwhile(130 * kMs)), Words{});
  // In nodes of one GPU each they do not wait for each other.
  EXPECT_EQ(after([&](BatchProblem& p, BatchSchedule& s) {
              meanwhile(20 * kMs)(p, s);
              p.reconfigurer.gpus_per_node = 1;
            }),
            Words{});
}

TEST(BatchJudge, CreationsAndDestructionsAlternate) {
  EXPECT_EQ(
      after([](BatchSchedule& s) {
        s.reconfigurations.push_back({{"2g.12gb", 0}, 0, Op::create, 4 * kSecond, 4120 * kMs});
      }),
      (Words{{"create_existing", "gpu 0 2g.12gb at 0"}}));
  EXPECT_EQ(
      after([](BatchSchedule& s) {
        s.reconfigurations.push_back({{"1g.6gb", 0}, 0, Op::destroy, 9 * kSecond, 9100 * kMs});
      }),
      (Words{{"destroy_missing", "gpu 0 1g.6gb at 0"}}));
  EXPECT_EQ(
      after([](BatchSchedule& s) {
        s.reconfigurations.push_back({{"4g.24gb", 0}, 0, Op::destroy, 9 * kSecond, 9100 * kMs});
      }),
      (Words{{"destroy_missing", "gpu 0 4g.24gb at 0"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.reconfigurations[0].op = Op::destroy; }),
            (Words{{"destroy_missing", "gpu 0 4g.24gb at 0"},
                   {"no_instance", "task c"},
                   {"reconfiguration_time", "gpu 0 destroy 4g.24gb at 0"}}));
}

TEST(BatchJudge, LayoutsAreLegalAtAllTimes) {
  // Without its destruction the 4g is in the way of both 2g, which are not in each other's.
  EXPECT_EQ(
      after([](BatchSchedule& s) { s.reconfigurations.erase(s.reconfigurations.begin() + 1); }),
      (Words{{"layout", "gpu 0 at 3.230000 s"}, {"layout", "gpu 0 at 3.350000 s"}}));
  // Two +me: one GPU has media engines for one.
  EXPECT_EQ(after([](BatchSchedule& s) {
              s.tasks[1].profile = s.reconfigurations[2].profile = "2g.12gb+me";
              s.tasks[2].profile = s.reconfigurations[3].profile = "2g.12gb+me";
            }),
            (Words{{"layout", "gpu 0 at 3.350000 s"}}));
  // A creation before the destruction that makes room, whatever the list's order.
  EXPECT_EQ(after([](BatchSchedule& s) {
              shift_rest(s, 100 * kMs);
              shift(s.reconfigurations[1], 300 * kMs);
            }),
            (Words{{"layout", "gpu 0 at 3.330000 s"},
                   {"layout", "gpu 0 at 3.450000 s"},
                   {"reconfiguration_overlap", "gpu 0"}}));
}

TEST(BatchJudge, NegativeTimes) {
  EXPECT_EQ(after([](BatchSchedule& s) { shift_all(s, -2 * kMs); }),
            (Words{{"negative_time", "gpu 0 create 4g.24gb at 0"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { std::swap(s.tasks[1].begin, s.tasks[1].end); }),
            (Words{{"duration", "task a"}, {"negative_time", "task a"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.lower_bound = -kSecond; }),
            (Words{{"negative_time", "schedule"}}));
}

TEST(BatchJudge, ReleasesAndPredecessors) {
  EXPECT_EQ(after([](BatchProblem& p, BatchSchedule&) {
              p.tasks[0].release = 3350 * kMs;
              p.tasks[0].after = {"c"};
              p.tasks[1].deadline = kSecond;  // a wish
            }),
            Words{});
  EXPECT_EQ(after([](BatchProblem& p, BatchSchedule&) { p.tasks[0].release = 3351 * kMs + 1; }),
            (Words{{"release", "task a"}}));
  EXPECT_EQ(after([](BatchProblem& p, BatchSchedule&) {
              p.tasks[1].after = {"c", "a"};
            }),
            (Words{{"after", "task b"}}));
  // A predecessor that is missing is one violation, not two.
  EXPECT_EQ(after([](BatchProblem& p, BatchSchedule& s) {
              p.tasks[1].after = {"c"};
              s.tasks.erase(s.tasks.begin());
            }),
            (Words{{"missing_task", "task c"}}));
}

TEST(BatchJudge, Figures) {
  EXPECT_EQ(after([](BatchSchedule& s) { s.makespan += 2 * kMs; }),
            (Words{{"makespan", "schedule"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.makespan = 0; }),
            (Words{{"lower_bound", "schedule"}, {"makespan", "schedule"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.lower_bound = s.makespan + 2 * kMs; }),
            (Words{{"lower_bound", "schedule"}}));
  EXPECT_EQ(after([](BatchSchedule& s) { s.lower_bound = s.makespan; }), Words{});
  // Both 2g tasks on one 2g instance would take 0.12 + 5 + 5 s.
  const auto late = [](Nanos bound, bool optimal) {
    return [=](BatchProblem& p, BatchSchedule& s) {
      shift_rest(s, 10 * kSecond);
      p.tasks.pop_back();
      s.tasks.erase(s.tasks.begin());
      s.lower_bound = bound;
      s.optimal = optimal;
    };
  };
  EXPECT_EQ(after(late(10'120 * kMs, false)), Words{});
  EXPECT_EQ(after(late(10'122 * kMs, false)), (Words{{"lower_bound", "schedule"}}));
  EXPECT_EQ(after(late(0, true)), (Words{{"lower_bound", "schedule"}}));
  // With deadlines optimal is the least late, which may take longer than the queue.
  const auto hurried = [&](Nanos bound) {
    return [=](BatchProblem& p, BatchSchedule& s) {
      late(bound, true)(p, s);
      p.tasks[1].deadline = kSecond;
    };
  };
  EXPECT_EQ(after(hurried(0)), Words{});
  EXPECT_EQ(after(hurried(10'122 * kMs)), (Words{{"lower_bound", "schedule"}}));
}

// One microsecond is forgiven everywhere, and nothing more.
TEST(BatchJudge, ToleranceIsTheSameEverywhere) {
  using Change = std::function<void(BatchProblem&, BatchSchedule&, Nanos)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"duration", [](BatchProblem&, BatchSchedule& s, Nanos by) { s.tasks[1].end += by; }},
      {"makespan", [](BatchProblem&, BatchSchedule& s, Nanos by) { s.makespan -= by; }},
      {"lower_bound",
       [](BatchProblem&, BatchSchedule& s, Nanos by) { s.lower_bound = s.makespan + by; }},
      {"negative_time",
       [](BatchProblem&, BatchSchedule& s, Nanos by) { shift(s.reconfigurations[0], -by); }},
      {"no_instance", [](BatchProblem&, BatchSchedule& s, Nanos by) { shift(s.tasks[1], -by); }},
      {"no_instance", [](BatchProblem&, BatchSchedule& s, Nanos by) { shift(s.tasks[0], by); }},
      {"reconfiguration_time",
       [](BatchProblem&, BatchSchedule& s, Nanos by) { s.reconfigurations[3].end -= by; }},
      {"reconfiguration_overlap",
       [](BatchProblem&, BatchSchedule& s, Nanos by) { shift(s.reconfigurations[3], -by); }},
      {"layout",
       [](BatchProblem&, BatchSchedule& s, Nanos by) { shift(s.reconfigurations[1], by); }},
      {"create_existing",
       [](BatchProblem& p, BatchSchedule& s, Nanos by) {
         p.tasks.erase(p.tasks.begin() + 1);
         s.tasks.pop_back();
         for (const Op op : {Op::destroy, Op::create})
           s.reconfigurations.push_back({{"2g.12gb", 0}, 0, op, 8350 * kMs, 8450 * kMs});
         s.reconfigurations.back().begin = 8450 * kMs - by;
         s.reconfigurations.back().end = 8570 * kMs - by;
         s.makespan = 8350 * kMs;
       }},
      {"instance_busy",
       [](BatchProblem& p, BatchSchedule& s, Nanos by) {
         p.tasks.push_back({.name = "d", .times = {times({{2, kSecond}})}});
         s.tasks.push_back({{"2g.12gb", 0}, 0, "d", 8350 * kMs - by, 9350 * kMs - by});
         s.makespan = 9350 * kMs - by;
       }},
      {"release",
       [](BatchProblem& p, BatchSchedule&, Nanos by) { p.tasks[0].release = 3350 * kMs + by; }},
      {"after",
       [](BatchProblem& p, BatchSchedule& s, Nanos by) {
         p.tasks[0].after = {"d"};
         p.tasks.push_back({.name = "d", .times = {times({{4, kSecond}})}});
         s.reconfigurations.push_back({{"4g.24gb", 0}, 1, Op::create, 0, 130 * kMs});
         s.tasks.push_back({{"4g.24gb", 0}, 1, "d", 2350 * kMs + by, 3350 * kMs + by});
       }},
  };
  for (const auto& [word, change] : changes) {
    for (const Nanos by : {kTimeTolerance, kTimeTolerance + 1}) {
      BatchProblem problem = two_a30();
      BatchSchedule schedule = by_hand();
      change(problem, schedule, by);
      bool said = false;
      for (const auto& [found, subject] : words(problem, schedule)) {
        said = said || found == word;
        EXPECT_GT(by, kTimeTolerance) << word << ": " << found << " " << subject;
      }
      EXPECT_EQ(said, by > kTimeTolerance) << word;
    }
  }
}

// Whatever stands in a schedule, the judge says something, nothing twice, and survives (the
// sanitizers watch for overflow).
TEST(BatchJudge, AbsurdNumbers) {
  Rng rng(1);
  const std::vector<Nanos> absurd = {INT64_MIN, INT64_MIN + 1, -5000,     0,
                                     5000,      INT64_MAX - 1, INT64_MAX, 4 * kSecond};
  const auto some = [&] { return absurd[rng.below(absurd.size())]; };
  for (int round = 0; round < 5000; ++round) {
    BatchSchedule schedule = by_hand();
    for (std::uint64_t k = 0; k <= rng.below(6); ++k) {
      ScheduledTask& task = schedule.tasks[rng.below(schedule.tasks.size())];
      Reconfiguration& operation =
          schedule.reconfigurations[rng.below(schedule.reconfigurations.size())];
      switch (rng.below(8)) {
        case 0:
          task.begin = some();
          break;
        case 1:
          task.end = some();
          break;
        case 2:
          operation.begin = some();
          break;
        case 3:
          operation.end = some();
          break;
        case 4:
          task.gpu = static_cast<int>(some());
          break;
        case 5:
          operation.start = static_cast<int>(some());
          break;
        case 6:
          schedule.makespan = some();
          break;
        default:
          schedule.lower_bound = some();
      }
    }
    const Words found = words(two_a30(), schedule);
    EXPECT_EQ(std::set(found.begin(), found.end()).size(), found.size());
    const bool changed = schedule.tasks != by_hand().tasks ||
                         schedule.reconfigurations != by_hand().reconfigurations;
    EXPECT_TRUE(!changed || !found.empty()) << round;
  }
}

TEST(BatchJudge, NothingToDo) {
  BatchProblem problem = two_a30();
  problem.tasks.clear();
  BatchSchedule schedule;
  schedule.gpu_models = {"A30-24GB", "A30-24GB"};
  EXPECT_EQ(words(problem, schedule), Words{});
  schedule.optimal = true;
  EXPECT_EQ(words(problem, schedule), Words{});
}

}  // namespace
}  // namespace partita::verify
