#include "sim/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/document.h"
#include "base/rng.h"
#include "hw/catalogue.h"
#include "hw/layout.h"

namespace partita::sim {
namespace {

using plan::Nanos;
using Op = plan::Reconfiguration::Op;

constexpr Nanos kMilli = 1'000'000;

Nanos seconds(double s) { return plan::nanos(Seconds{s}); }

// A30: creates take 110, 120, 130 ms by size, destroys 100 ms.
plan::BatchProblem empty_problem(const std::string& gpu = "A30-24GB", int gpus = 1) {
  plan::BatchProblem problem;
  problem.models = {*hw::builtin_catalogue().find(gpu)};
  problem.gpus.assign(static_cast<std::size_t>(gpus), 0);
  return problem;
}

void add_task(plan::BatchProblem& problem, const std::string& name, double time_s) {
  plan::Task task;
  task.name = name;
  task.times.resize(1);
  for (const int gpcs : {1, 2, 3, 4, 7}) task.times[0][gpcs] = seconds(time_s);
  problem.tasks.push_back(task);
}

BatchOptions options(double spread, int runs) {
  BatchOptions options;
  options.spread = spread;
  options.runs = runs;
  return options;
}

BatchReport run(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule,
                const BatchOptions& with) {
  const Result<BatchReport> report = simulate(problem, schedule, with);
  EXPECT_TRUE(report) << to_string(report.error());
  return report ? *report : BatchReport{};
}

// Tasks on one instance that is created at 0, back to back.
plan::BatchSchedule one_instance(const plan::BatchProblem& problem, const std::string& profile,
                                 int gpcs) {
  plan::BatchSchedule schedule;
  schedule.scheduler = std::string("test");
  Nanos now = seconds(0.10 + 0.01 * (gpcs == 4 ? 3 : gpcs));
  schedule.reconfigurations = {{{profile, 0}, 0, Op::create, 0, now}};
  for (const plan::Task& task : problem.tasks) {
    schedule.tasks.push_back({{profile, 0}, 0, task.name, now, now + task.times[0][gpcs]});
    now += task.times[0][gpcs];
  }
  plan::put_in_order(schedule);
  return schedule;
}

// Every task on an own 1g of an A30, created one after the other.
plan::BatchSchedule side_by_side(const plan::BatchProblem& problem) {
  plan::BatchSchedule schedule;
  schedule.scheduler = std::string("side");
  for (int i = 0; i < static_cast<int>(problem.tasks.size()); ++i) {
    const plan::Task& task = problem.tasks[static_cast<std::size_t>(i)];
    const Nanos begin = i * 110 * kMilli, created = begin + 110 * kMilli;
    schedule.reconfigurations.push_back({{"1g.6gb", i}, 0, Op::create, begin, created});
    schedule.tasks.push_back({{"1g.6gb", i}, 0, task.name, created, created + task.times[0][1]});
  }
  plan::put_in_order(schedule);
  return schedule;
}

// ---- random valid schedules: every task on a random placement, in a random order ----

struct Scene {
  plan::BatchProblem problem;
  plan::BatchSchedule schedule;
};

class RandomScene {
 public:
  // `slack`: how much later than possible things are planned, at most.
  RandomScene(int seed, const std::string& gpu, int gpus, double slack)
      : rng_(static_cast<std::uint64_t>(seed)), slack_(slack) {
    scene_.problem = empty_problem(gpu, gpus);
    scene_.schedule.scheduler = std::string("random");
    using Of = plan::Reconfigurer::Of;
    scene_.problem.reconfigurer = {seed % 4 == 0 ? Of::gpu : Of::node, 1 + seed % 5 % 2 * 2};
    free_.resize(static_cast<std::size_t>(gpus));
    alive_.resize(static_cast<std::size_t>(gpus));
  }

  Scene make(int tasks) {
    for (int i = 0; i < tasks; ++i) add(i);
    plan::put_in_order(scene_.schedule);
    return scene_;
  }

 private:
  struct Alive {
    hw::PlacedProfile place;
    Nanos free = 0;
  };

  const hw::GpuModel& model() const { return scene_.problem.models[0]; }
  Nanos slack() { return static_cast<Nanos>(slack_ * rng_.uniform() * 1e9); }

  Nanos reconfigure(int gpu, Op op, const hw::PlacedProfile& place, Nanos ready) {
    const hw::MigProfile& profile = model().profiles[static_cast<std::size_t>(place.profile)];
    Nanos& free = free_[static_cast<std::size_t>(scene_.problem.reconfigurer.number(gpu))];
    const Nanos begin = std::max(free, ready) + slack();
    for (const hw::ReconfigurationTime& time : model().reconfiguration) {
      if (time.gpcs != profile.gpcs) continue;
      free = begin + plan::nanos(op == Op::create ? time.create : time.destroy);
    }
    scene_.schedule.reconfigurations.push_back({{profile.name, place.start}, gpu, op, begin, free});
    return free;
  }

  Alive& instance_at(int gpu, const hw::PlacedProfile& place) {
    std::vector<Alive>& alive = alive_[static_cast<std::size_t>(gpu)];
    for (Alive& instance : alive) {
      if (instance.place == place) return instance;
    }
    Nanos ready = 0;
    for (std::size_t i = 0; i < alive.size();) {
      if (hw::conflicts(model(), {alive[i].place, place}).empty()) {
        ++i;
        continue;
      }
      ready = reconfigure(gpu, Op::destroy, alive[i].place, alive[i].free);
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(i));
    }
    alive.push_back({place, reconfigure(gpu, Op::create, place, ready)});
    return alive.back();
  }

  void add(int number) {
    add_task(scene_.problem, "t" + std::to_string(number), 0.05 + 2 * rng_.uniform());
    plan::Task& task = scene_.problem.tasks.back();
    if (rng_.uniform() < 0.3) task.release = seconds(10 * rng_.uniform());
    Nanos ready = task.release;
    for (const plan::ScheduledTask& before : scene_.schedule.tasks) {
      if (rng_.uniform() > 0.1) continue;
      task.after.push_back(before.task);
      ready = std::max(ready, before.end);
    }
    const std::vector<int> profiles = hw::plain_profiles(model());
    const int profile = profiles[rng_.below(profiles.size())];
    const hw::MigProfile& mig = model().profiles[static_cast<std::size_t>(profile)];
    const int start = mig.starts[rng_.below(mig.starts.size())];
    const int gpu = static_cast<int>(rng_.below(alive_.size()));
    Alive& instance = instance_at(gpu, {profile, start});
    const Nanos begin = std::max(instance.free, ready) + slack();
    instance.free = begin + task.times[0][mig.gpcs];
    scene_.schedule.tasks.push_back({{mig.name, start}, gpu, task.name, begin, instance.free});
  }

  Rng rng_;
  double slack_;
  Scene scene_;
  std::vector<Nanos> free_;  // per reconfigurer, of which there are at most as many as GPUs
  std::vector<std::vector<Alive>> alive_;
};

TEST(SimulateBatch, WithoutDifferencesATightScheduleHappensAsPlanned) {
  for (int seed = 0; seed < 200; ++seed) {
    const Scene scene =
        RandomScene(seed, seed % 2 ? "A100-80GB" : "A30-24GB", 1 + seed % 3, 0).make(1 + seed % 30);
    const BatchReport report = run(scene.problem, scene.schedule, options(0, 2));
    EXPECT_EQ(report.makespans, std::vector<Nanos>(2, scene.schedule.makespan)) << seed;
    for (const TaskReport& task : report.tasks) EXPECT_EQ(task.mean_end, task.planned_end);
  }
}

TEST(SimulateBatch, WithoutDifferencesNothingIsEverLater) {
  int earlier = 0;
  for (int seed = 0; seed < 400; ++seed) {
    const Scene scene =
        RandomScene(seed, seed % 2 ? "A100-80GB" : "A30-24GB", 1 + seed % 3, 0.2 * (seed % 5))
            .make(1 + seed % 30);
    const BatchReport report = run(scene.problem, scene.schedule, options(0, 1));
    for (const TaskReport& task : report.tasks) {
      EXPECT_LE(task.mean_end, task.planned_end) << "seed " << seed << " " << task.task;
      earlier += task.mean_end < task.planned_end ? 1 : 0;
    }
  }
  EXPECT_GT(earlier, 1000);  // slack is not waited for
}

// The reconfigurer is kept idle for b's creation; c's could begin before and would delay it.
TEST(SimulateBatch, AReconfigurationDoesNotPushItselfBeforeOneThatWasPlannedEarlier) {
  plan::BatchProblem problem = empty_problem();
  for (const char* name : {"a", "b", "c"}) add_task(problem, name, name[0] == 'a' ? 0.05 : 1);
  plan::BatchSchedule schedule;
  schedule.reconfigurations = {
      {{"2g.12gb", 0}, 0, Op::create, 0, 120 * kMilli},
      {{"2g.12gb", 0}, 0, Op::destroy, 170 * kMilli, 270 * kMilli},
      {{"1g.6gb", 0}, 0, Op::create, 270 * kMilli, 380 * kMilli},
      {{"1g.6gb", 2}, 0, Op::create, 380 * kMilli, 490 * kMilli},
  };
  schedule.tasks = {{{"2g.12gb", 0}, 0, "a", 120 * kMilli, 170 * kMilli},
                    {{"1g.6gb", 0}, 0, "b", 380 * kMilli, 1380 * kMilli},
                    {{"1g.6gb", 2}, 0, "c", 490 * kMilli, 1490 * kMilli}};
  plan::put_in_order(schedule);
  const BatchReport report = run(problem, schedule, options(0, 1));
  EXPECT_EQ(report.tasks[1].mean_end, 1380 * kMilli);
  EXPECT_EQ(report.tasks[2].mean_end, 1490 * kMilli);
  // a takes 5 s instead: c's creation overtakes a nanosecond after its planned time.
  problem.tasks[0].times[0][2] = seconds(5);
  const BatchReport late = run(problem, schedule, options(0, 1));
  EXPECT_EQ(late.tasks[2].mean_end, 1490 * kMilli + 1);
  EXPECT_EQ(late.tasks[1].mean_end, seconds(0.12 + 5 + 0.1 + 0.11 + 1));
}

TEST(SimulateBatch, TasksWaitForReleasesAndPredecessors) {
  plan::BatchProblem problem = empty_problem();
  add_task(problem, "a", 1);
  add_task(problem, "b", 1);
  problem.tasks[0].release = seconds(3);
  problem.tasks[1].after = {"a"};
  plan::BatchSchedule schedule = side_by_side(problem);
  schedule.tasks[0] = {{"1g.6gb", 0}, 0, "a", seconds(10), seconds(11)};
  schedule.tasks[1] = {{"1g.6gb", 1}, 0, "b", seconds(20), seconds(21)};
  plan::put_in_order(schedule);
  const BatchReport report = run(problem, schedule, options(0, 1));
  EXPECT_EQ(report.tasks[0].mean_end, seconds(4));
  EXPECT_EQ(report.tasks[1].mean_end, seconds(5));
  EXPECT_EQ(report.planned, seconds(21));
}

// ---- random times against closed forms of the lognormal distribution ----

double phi(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

TEST(SimulateBatch, OneTaskIsLognormal) {
  plan::BatchProblem problem = empty_problem();
  add_task(problem, "a", 10);
  problem.tasks[0].deadline = seconds(0.13 + 12);
  const double spread = 0.3, sigma = std::sqrt(std::log(1 + spread * spread));
  const BatchReport report =
      run(problem, one_instance(problem, "4g.24gb", 4), options(spread, 200'000));
  const auto quantile = [&](double z) {
    return 0.13 + 10 * std::exp(sigma * z - sigma * sigma / 2);
  };
  EXPECT_NEAR(plan::seconds(report.mean).value, 10.13, 0.03);
  EXPECT_NEAR(plan::seconds(report.p50).value, quantile(0), 0.05);
  EXPECT_NEAR(plan::seconds(report.p95).value, quantile(1.6448536), 0.1);
  double squares = 0;
  for (const Nanos makespan : report.makespans) {
    squares += std::pow(plan::seconds(makespan - report.mean).value, 2);
  }
  EXPECT_NEAR(std::sqrt(squares / 200'000), 3, 0.05);
  const double z = (std::log(12.0 / 10) + sigma * sigma / 2) / sigma;
  EXPECT_NEAR(report.tasks[0].missed, 1 - phi(z), 0.005);
  EXPECT_EQ(report.worst, *std::ranges::max_element(report.makespans));
}

TEST(SimulateBatch, TasksVaryIndependently) {
  plan::BatchProblem problem = empty_problem();
  for (const char* name : {"a", "b", "c", "d"}) add_task(problem, name, 1000);
  const double sigma = std::sqrt(std::log(1.04));
  // The median of the largest of four: each is below it with probability 2^(-1/4), z = 0.9983.
  const BatchReport parallel = run(problem, side_by_side(problem), options(0.2, 50'000));
  EXPECT_NEAR(plan::seconds(parallel.p50).value,
              1000 * std::exp(sigma * 0.99832 - sigma * sigma / 2), 3);
  // The sum of four: the deviation of one, times two.
  const BatchReport serial =
      run(problem, one_instance(problem, "4g.24gb", 4), options(0.2, 50'000));
  double squares = 0;
  for (const Nanos makespan : serial.makespans) {
    squares += std::pow(plan::seconds(makespan - serial.mean).value, 2);
  }
  EXPECT_NEAR(std::sqrt(squares / 50'000), 400, 8);
  EXPECT_NEAR(plan::seconds(serial.mean).value, 4000, 8);
}

TEST(SimulateBatch, ReconfigurationsVaryOnTheirOwn) {
  plan::BatchProblem problem = empty_problem();
  add_task(problem, "a", 1);
  BatchOptions with = options(0, 50'000);
  with.reconfiguration_spread = 0.5;
  const BatchReport report = run(problem, one_instance(problem, "4g.24gb", 4), with);
  double squares = 0;
  for (const Nanos makespan : report.makespans) {
    squares += std::pow(plan::seconds(makespan).value - 1.13, 2);
  }
  EXPECT_NEAR(std::sqrt(squares / 50'000), 0.065, 0.003);
}

TEST(SimulateBatch, SameSeedSameReportWhateverTheOrderOfTheTasks) {
  Scene scene = RandomScene(3, "A100-80GB", 2, 0.1).make(25);
  const BatchReport report = run(scene.problem, scene.schedule, options(0.2, 50));
  EXPECT_EQ(report, run(scene.problem, scene.schedule, options(0.2, 50)));
  BatchOptions other = options(0.2, 50);
  other.seed = 2;
  const BatchReport different = run(scene.problem, scene.schedule, other);
  EXPECT_NE(report.log_hash, different.log_hash);
  EXPECT_NE(report.makespans, different.makespans);
  std::ranges::reverse(scene.problem.tasks);
  const BatchReport reversed = run(scene.problem, scene.schedule, options(0.2, 50));
  EXPECT_EQ(report.makespans, reversed.makespans);
  EXPECT_EQ(report.tasks.front(), reversed.tasks.back());
  EXPECT_EQ(report.events, 50 * static_cast<long>(25 + scene.schedule.reconfigurations.size()));
}

TEST(SimulateBatch, RefusesSchedulesAndOptionsThatAreWrong) {
  plan::BatchProblem problem = empty_problem();
  add_task(problem, "a", 1);
  add_task(problem, "b", 1);
  const plan::BatchSchedule good = one_instance(problem, "2g.12gb", 2);
  const auto refused = [&](const auto& change) {
    plan::BatchSchedule bad = good;
    BatchOptions with = options(0.1, 10);
    change(bad, with);
    const Result<BatchReport> report = simulate(problem, bad, with);
    return report ? "accepted" : to_string(report.error());
  };
  using S = plan::BatchSchedule;
  using O = BatchOptions;
  EXPECT_EQ(refused([](S&, O&) {}), "accepted");
  EXPECT_EQ(refused([](S& s, O&) { s.tasks.pop_back(); }), "task b: is not in the schedule");
  EXPECT_EQ(refused([](S& s, O&) { s.tasks[1].task = "a"; }), "task a: is listed twice");
  EXPECT_EQ(refused([](S& s, O&) { s.tasks[1].task = "x"; }), "task x: is not in the problem");
  EXPECT_EQ(refused([](S& s, O&) { s.tasks[1].gpu = 1; }), "task b: the problem has no GPU 1");
  EXPECT_EQ(refused([](S& s, O&) { s.tasks[1].profile = "9g"; }), "task b: unknown MIG profile 9g");
  EXPECT_EQ(refused([](S& s, O&) { s.tasks[1].start = 2; }),
            "task b: has no instance to run on: verify the schedule");
  EXPECT_EQ(refused([](S& s, O&) { s.tasks[0].begin = 0; }),
            "task a: has no instance to run on: verify the schedule");
  EXPECT_EQ(refused([](S& s, O&) {
              s.reconfigurations.push_back({{"1g.6gb", 0}, 0, Op::create, seconds(3), seconds(4)});
            }),
            "gpu 0 create 1g.6gb at 0 #1: another instance is in its way");
  EXPECT_EQ(refused([](S& s, O&) {
              s.reconfigurations.push_back({{"1g.6gb", 0}, 0, Op::destroy, seconds(3), seconds(4)});
            }),
            "gpu 0 destroy 1g.6gb at 0 #1: the instance does not exist");
  EXPECT_EQ(refused([](S&, O& o) { o.runs = 0; }), "runs: must be between 1 and 1000000");
  EXPECT_EQ(refused([](S&, O& o) { o.spread = -1; }), "spread: must be between 0 and 10");
  EXPECT_EQ(refused([](S&, O& o) { o.spread = std::nan(""); }), "spread: must be between 0 and 10");
  problem.tasks[0].after = {"b"};
  EXPECT_EQ(refused([](S&, O&) {}), "task a: begins before b has ended");
}

TEST(SimulateBatch, HugeTimesStopAtTheEndOfTime) {
  plan::BatchProblem problem = empty_problem();
  for (int i = 0; i < 49; ++i) {
    add_task(problem, "t" + std::to_string(i), plan::seconds(plan::kMaxTaskTime).value);
  }
  const BatchReport report = run(problem, one_instance(problem, "4g.24gb", 4), options(10, 20));
  for (const Nanos makespan : report.makespans) EXPECT_GT(makespan, 0);
  EXPECT_LE(report.worst, INT64_MAX / 2);
}

TEST(Robustness, PrefersWhatIsShortInExpectation) {
  plan::BatchProblem problem = empty_problem();
  for (const char* name : {"a", "b", "c", "d"}) add_task(problem, name, 10);
  for (plan::Task& task : problem.tasks) task.times[0][4] = seconds(2.6);
  // Four side by side: 10.44 s. One after the other on 4g: 10.53 s, and lengths cancel out.
  const plan::BatchSchedule side = side_by_side(problem),
                            serial = one_instance(problem, "4g.24gb", 4);
  ASSERT_LT(side.makespan, serial.makespan);
  const Result<Robustness> sure = robustness(problem, {serial, side}, options(0, 3));
  const Result<Robustness> unsure = robustness(problem, {side, serial}, options(0.3, 3000));
  ASSERT_TRUE(sure && unsure);
  EXPECT_EQ(sure->best, 1u);
  EXPECT_EQ(unsure->best, 1u);
  EXPECT_NEAR(plan::seconds(unsure->reports[1].mean).value, 10.53, 0.1);
  EXPECT_GT(unsure->reports[0].mean, seconds(12.5));
  EXPECT_GT(unsure->reports[0].p95, unsure->reports[1].p95);
  const Result<Robustness> same = robustness(problem, {side, side}, options(0.3, 30));
  ASSERT_TRUE(same);
  EXPECT_EQ(same->best, 0u);
  EXPECT_EQ(same->reports[0], same->reports[1]);
}

TEST(BatchReport, JsonAndTextSayWhatTheReportSays) {
  plan::BatchProblem problem = empty_problem();
  add_task(problem, "a\"b", 1);
  add_task(problem, "c", 2);
  problem.tasks[1].deadline = seconds(3);
  const BatchReport report = run(problem, one_instance(problem, "4g.24gb", 4), options(0, 4));
  const Result<Document> json =
      parse_document("report.json", report_json(report, options(0, 4), 1e6));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->root.find("kind")->text, "BatchReport");
  EXPECT_EQ(json->root.find("runs")->number, 4);
  EXPECT_EQ(json->root.find("makespan_s")->find("p95")->number, 3.13);
  const auto& tasks = json->root.find("tasks")->items;
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].find("task")->text, "a\"b");
  EXPECT_EQ(tasks[0].find("deadline_s"), nullptr);
  EXPECT_EQ(tasks[1].find("missed")->number, 1);
  EXPECT_EQ(
      report_text(report, options(0, 4)),
      "test: planned 3.13 s; 4 runs, task times with 0 % spread: mean 3.13 s (+0.0 %), half "
      "within 3.13 s, 95 % within 3.13 s, worst 3.13 s\n"
      "  c  deadline 3 s, planned end 3.13 s, mean end 3.13 s: missed in 100 % of the runs\n");
  EXPECT_EQ(robustness_text({{report, report}, 1}),
            "  test  planned 3.13 s, expected 3.13 s (+0.0 %), 95 % within 3.13 s\n"
            "* test  planned 3.13 s, expected 3.13 s (+0.0 %), 95 % within 3.13 s\n");
}

}  // namespace
}  // namespace partita::sim
