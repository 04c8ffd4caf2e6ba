#include "planners/batch/timed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "hw/catalogue.h"
#include "planners/batch/testing/test_batches.h"
#include "planners/batch/timed_explain.h"
#include "planners/batch/timed_proof.h"
#include "planners/batch/timed_search.h"
#include "planners/batch/timed_starts.h"

namespace partita::planners::batch {
namespace {

hw::GpuModel model(const std::string& name) { return *hw::builtin_catalogue().find(name); }

plan::BatchProblem problem_on(const std::vector<std::string>& gpus) {
  plan::BatchProblem problem;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    problem.models.push_back(model(gpus[i]));
    problem.gpus.push_back(static_cast<int>(i));
  }
  return problem;
}

// The same times on every GPU model.
plan::Task task(const plan::BatchProblem& problem, const std::string& name,
                const std::map<int, double>& seconds_by_gpcs) {
  plan::Task task;
  task.name = name;
  task.times.resize(problem.models.size());
  for (plan::SizeTimes& times : task.times) {
    for (const auto& [gpcs, time] : seconds_by_gpcs) times[gpcs] = s(time);
  }
  return task;
}

// Sub-linear scaling, some tasks not on 1g; releases, deadlines, priorities and predecessors, each
// for a third of the tasks.
plan::BatchProblem random_problem(Rng& rng, const std::vector<std::string>& gpus, int tasks) {
  plan::BatchProblem problem = problem_on(gpus);
  for (int i = 0; i < tasks; ++i) {
    const double work = 1 + 20 * rng.uniform(), scaling = rng.uniform();
    std::map<int, double> times;
    const bool not_on_1g = rng.uniform() < 0.2;
    for (const int gpcs : {1, 2, 3, 4, 7}) {
      if (gpcs == 1 && not_on_1g) continue;
      times[gpcs] = work / (1 + scaling * (gpcs - 1));
    }
    plan::Task t = task(problem, "t" + std::to_string(i), times);
    if (rng.uniform() < 0.33) t.release = s(20 * rng.uniform());
    if (rng.uniform() < 0.33) t.deadline = t.release + s(2 + 20 * rng.uniform());
    if (rng.uniform() < 0.33) t.priority = 1 + static_cast<double>(rng.below(9));
    for (int j = 0; j < i; ++j) {
      if (rng.uniform() < 0.7 / tasks) t.after.push_back("t" + std::to_string(j));
    }
    problem.tasks.push_back(t);
  }
  return problem;
}

TimedBatch batch_of(const plan::BatchProblem& problem) {
  Result<Forest> forest = make_forest(problem);
  EXPECT_TRUE(forest);
  return make_timed(problem, std::move(*forest));
}

// The least worth over all orders and nodes.
Worth brute_force(const TimedBatch& batch) {
  TimedDecoder decoder(batch);
  Choice choice;
  choice.order.resize(at(batch.forest.tasks));
  std::iota(choice.order.begin(), choice.order.end(), 0);
  choice.node.assign(at(batch.forest.tasks), 0);
  const int nodes = static_cast<int>(batch.forest.nodes.size());
  Worth best{.lateness = kNever};
  best.lateness *= kNever;
  const auto assign = [&](auto&& self, std::size_t place) -> void {
    if (place == choice.order.size()) {
      best = std::min(best, decoder.play(choice));
      return;
    }
    const int t = choice.order[place];
    for (int v = 0; v < nodes; ++v) {
      // An empty A30: its instances of one size are alike.
      if (place == 0 && batch.forest.nodes[at(v)].start > 0) continue;
      if (batch.forest.time(t, v) >= kNever) continue;
      choice.node[at(t)] = v;
      self(self, place + 1);
    }
  };
  do {
    bool legal = true;
    for (std::size_t p = 0; p < choice.order.size(); ++p) {
      for (const int before : batch.before[at(choice.order[p])]) {
        const auto end = choice.order.begin() + static_cast<std::ptrdiff_t>(p);
        legal = legal && std::find(choice.order.begin(), end, before) != end;
      }
    }
    if (legal) assign(assign, 0);
  } while (std::ranges::next_permutation(choice.order).found);
  return best;
}

Worth worth_of(const TimedBatch& batch, const plan::BatchProblem& problem,
               const plan::BatchSchedule& schedule) {
  std::map<std::string, Nanos> ends;
  for (const plan::ScheduledTask& t : schedule.tasks) ends[t.task] = t.end;
  Worth worth{.makespan = schedule.makespan};
  for (std::size_t t = 0; t < problem.tasks.size(); ++t) {
    const Nanos end = ends.at(problem.tasks[t].name);
    worth.finishing += Wide{batch.weight[t]} * end;
    const Nanos late = end - problem.tasks[t].deadline.value_or(end);
    if (late > 0) worth.lateness += Wide{batch.weight[t]} * late;
  }
  return worth;
}

Options budget(long steps) {
  Options options;
  options.budget = steps;
  return options;
}

plan::BatchSchedule scheduled(const plan::BatchProblem& problem, long steps) {
  const Outcome outcome = timed(problem, budget(steps));
  EXPECT_TRUE(outcome.schedule && outcome.refusals.empty());
  return outcome.schedule.value_or(plan::BatchSchedule{});
}

// An order that predecessors allow, and any node that fits.
Choice random_choice(Rng& rng, const TimedBatch& batch) {
  Choice choice;
  std::vector<bool> placed(at(batch.forest.tasks));
  const auto ready = [&](int t) {
    return !placed[at(t)] &&
           std::ranges::all_of(batch.before[at(t)], [&](int b) { return placed[at(b)]; });
  };
  while (choice.order.size() < placed.size()) {
    const int t = static_cast<int>(rng.below(placed.size()));
    if (!ready(t)) continue;
    choice.order.push_back(t);
    placed[at(t)] = true;
  }
  for (int t = 0; t < batch.forest.tasks; ++t) {
    int node = -1;
    while (node < 0 || batch.forest.time(t, node) >= kNever) {
      node = static_cast<int>(rng.below(batch.forest.nodes.size()));
    }
    choice.node.push_back(node);
  }
  return choice;
}

// When each instance exists: from its creation's begin to its destruction's end.
struct Lifetime {
  int node = 0;
  Nanos created = 0, usable = 0, ending = kNever, gone = kNever;
};

std::vector<Lifetime> lifetimes(const Physical& physical) {
  std::vector<Lifetime> lives;
  for (const Op& op : physical.ops) {
    if (op.op == plan::Reconfiguration::Op::create) {
      lives.push_back({.node = op.node, .created = op.begin, .usable = op.end});
      continue;
    }
    const auto life = std::ranges::find_if(
        lives, [&](const Lifetime& l) { return l.node == op.node && l.gone == kNever; });
    EXPECT_NE(life, lives.end());
    if (life == lives.end()) continue;
    life->ending = op.begin;
    life->gone = op.end;
  }
  return lives;
}

void expect_valid(const plan::BatchProblem& problem, const TimedBatch& batch,
                  const Physical& physical) {
  const Forest& forest = batch.forest;
  const std::vector<Lifetime> lives = lifetimes(physical);
  for (std::size_t i = 0; i < lives.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!forest.conflict(lives[i].node, lives[j].node)) continue;
      EXPECT_TRUE(lives[i].created >= lives[j].gone || lives[j].created >= lives[i].gone);
    }
  }
  for (std::size_t i = 0; i < physical.ops.size(); ++i) {
    const Op& op = physical.ops[i];
    const Node& node = forest.nodes[at(op.node)];
    const bool create = op.op == plan::Reconfiguration::Op::create;
    EXPECT_EQ(op.end - op.begin, create ? node.create : node.destroy);
    for (std::size_t j = 0; j < i; ++j) {
      if (forest.nodes[at(physical.ops[j].node)].gpu != node.gpu) continue;
      EXPECT_LE(physical.ops[j].end, op.begin);
    }
  }
  for (std::size_t t = 0; t < batch.release.size(); ++t) {
    const Nanos begin = physical.begin[t], end = physical.end[t];
    EXPECT_EQ(end - begin, forest.time(static_cast<int>(t), physical.node[t]));
    EXPECT_GE(begin, problem.tasks[t].release);
    for (const int before : batch.before[t]) EXPECT_GE(begin, physical.end[at(before)]);
    EXPECT_TRUE(std::ranges::any_of(lives, [&](const Lifetime& life) {
      return life.node == physical.node[t] && life.usable <= begin && end <= life.ending;
    }));
    for (std::size_t u = 0; u < t; ++u) {
      if (physical.node[u] != physical.node[t]) continue;
      EXPECT_TRUE(physical.end[u] <= begin || end <= physical.begin[u]);
    }
  }
}

const std::vector<std::string> kThreeGpus = {"A30-24GB", "A100-80GB", "H100-80GB-SXM5"};

TEST(TimedDecoder, EveryChoiceBecomesAValidSchedule) {
  Rng rng(1);
  for (int round = 0; round < test_rounds(300); ++round) {
    const bool one = round % 2 == 0;
    const plan::BatchProblem problem = random_problem(
        rng, one ? std::vector<std::string>{"A100-80GB"} : kThreeGpus, 1 + round % 20);
    const TimedBatch batch = batch_of(problem);
    TimedDecoder decoder(batch);
    const Choice choice = random_choice(rng, batch);
    const Physical physical = decoder.physical(choice);
    expect_valid(problem, batch, physical);
    EXPECT_EQ(physical.makespan, decoder.play(choice).makespan);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

// Where reconfigurations take no time they need no turns, and realise() must agree exactly.
TEST(TimedDecoder, AgreesWithRealiseWhenReconfigurationsTakeNoTime) {
  Rng rng(2);
  for (int round = 0; round < test_rounds(300); ++round) {
    plan::BatchProblem problem = random_problem(rng, kThreeGpus, 1 + round % 20);
    for (hw::GpuModel& gpu : problem.models) gpu.reconfiguration.clear();
    const TimedBatch batch = batch_of(problem);
    TimedDecoder decoder(batch);
    const Choice choice = random_choice(rng, batch);
    const auto expected =
        realise(batch.forest, decoder.visits(choice), Service::first_ready, {}, &problem);
    ASSERT_TRUE(expected);
    EXPECT_EQ(decoder.physical(choice).end, expected->end) << "round " << round;
  }
}

// Where no two instances exist side by side, turns do not matter either.
TEST(TimedDecoder, AgreesWithRealiseOnWholeGpus) {
  Rng rng(3);
  for (int round = 0; round < 100; ++round) {
    plan::BatchProblem problem = random_problem(rng, {"A30-24GB"}, 1 + round % 10);
    const TimedBatch batch = batch_of(problem);
    TimedDecoder decoder(batch);
    Choice choice = random_choice(rng, batch);
    const int whole = 0;
    ASSERT_EQ(batch.forest.nodes[whole].columns, 4);
    // The whole GPU and an instance inside it, by turns.
    for (int& node : choice.node) {
      if (node != whole) node = 1;
    }
    const auto expected =
        realise(batch.forest, decoder.visits(choice), Service::first_ready, {}, &problem);
    ASSERT_TRUE(expected);
    const Physical physical = decoder.physical(choice);
    EXPECT_EQ(physical.end, expected->end);
    EXPECT_EQ(physical.ops.size(), expected->ops.size());
  }
}

TEST(Timed, FindsTheOptimumOfTinyBatches) {
  Rng rng(5);
  int optimal = 0;
  const int cases = test_rounds(200);
  for (int round = 0; round < cases; ++round) {
    const int tasks = 2 + round % 4 / 2 + (round % 4 == 3 ? 1 : 0);
    const plan::BatchProblem problem = random_problem(rng, {"A30-24GB"}, tasks);
    const TimedBatch batch = batch_of(problem);
    const Worth best = brute_force(batch);
    const Worth found = worth_of(batch, problem, scheduled(problem, 40'000));
    // realise() may take turns better than any order of the decoder.
    optimal += found <= best ? 1 : 0;
    const TimedBounds bounds = timed_bounds(batch);
    EXPECT_LE(bounds.makespan, found.makespan);
    EXPECT_LE(bounds.makespan, best.makespan);
    EXPECT_LE(bounds.lateness, best.lateness);
  }
  EXPECT_GE(optimal, cases * 99 / 100);
}

// By itself, from nothing: as good as the best of all orders and nodes, or better where
// reconfigurers take other turns than the decoder gives them.
TEST(TimedProof, FindsWhatEnumerationFinds) {
  Rng rng(8);
  for (int round = 0; round < test_rounds(200); ++round) {
    SCOPED_TRACE(round);
    const bool two = round % 10 == 9;
    const plan::BatchProblem problem =
        random_problem(rng,
                       two ? std::vector<std::string>{"A30-24GB", "A30-24GB"}
                           : std::vector<std::string>{"A30-24GB"},
                       two ? 3 : 2 + round % 3);
    const TimedBatch batch = batch_of(problem);
    const Worth best = brute_force(batch);
    const Wide never = Wide{kNever} * kNever;
    const TimedProof proof = prove(batch, timed_bounds(batch), {{never, kNever}, true, 10'000'000});
    ASSERT_TRUE(proof.complete && proof.better);
    expect_valid(problem, batch, *proof.better);
    Wide lateness = 0;
    for (std::size_t t = 0; t < problem.tasks.size(); ++t) {
      const Nanos late = proof.better->end[t] - batch.deadline[t];
      if (late > 0) lateness += Wide{batch.weight[t]} * late;
    }
    EXPECT_TRUE(lateness < best.lateness ||
                (lateness == best.lateness && proof.better->makespan <= best.makespan));
    // And nothing is better than that.
    const TimedProof again =
        prove(batch, timed_bounds(batch), {{lateness, proof.better->makespan}, true, 10'000'000});
    EXPECT_TRUE(again.complete && !again.better);
    const plan::BatchSchedule schedule = scheduled(problem, 1'000'000);
    EXPECT_TRUE(schedule.optimal);
    EXPECT_LE(schedule.lower_bound, schedule.makespan);
    EXPECT_EQ(schedule_error(problem, schedule), "");
  }
}

// Tasks that need the whole A30: one machine, and the least weighted lateness over all orders.
TEST(Timed, EqualsTheBestOrderOnAWholeGpu) {
  Rng rng(6);
  for (int round = 0; round < 20; ++round) {
    plan::BatchProblem problem = problem_on({"A30-24GB"});
    for (int i = 0; i < 6; ++i) {
      plan::Task t = task(problem, "t" + std::to_string(i), {{4, 1 + 9 * rng.uniform()}});
      t.deadline = s(30 * rng.uniform());
      t.priority = 1 + static_cast<double>(rng.below(5));
      if (i % 3 == 0) t.release = s(10 * rng.uniform());
      problem.tasks.push_back(t);
    }
    std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5};
    double least = 1e300;
    do {
      Nanos now = s(0.13);  // the creation of 4g
      double lateness = 0;
      for (const std::size_t i : order) {
        const plan::Task& t = problem.tasks[i];
        now = std::max(now, t.release) + t.times[0][4];
        lateness += t.priority * static_cast<double>(std::max<Nanos>(0, now - *t.deadline));
      }
      least = std::min(least, lateness);
    } while (std::ranges::next_permutation(order).found);
    double lateness = 0;
    const plan::BatchSchedule schedule = scheduled(problem, 30'000);
    for (const plan::LateTask& late : late_tasks(problem, schedule)) {
      const auto same = [&](const plan::Task& t) { return t.name == late.task; };
      lateness += std::ranges::find_if(problem.tasks, same)->priority *
                  static_cast<double>(late.end - late.deadline);
    }
    EXPECT_NEAR(lateness, least, 1e-6 * least + 10) << "round " << round;
  }
}

TEST(Timed, ChainWithReleaseMeetsItsBound) {
  plan::BatchProblem problem = problem_on({"A30-24GB"});
  problem.tasks = {task(problem, "a", {{1, 9}, {2, 5}, {4, 3}}),
                   task(problem, "b", {{1, 9}, {2, 5}, {4, 4}}),
                   task(problem, "side", {{1, 1}, {2, 1}, {4, 1}})};
  problem.tasks[0].release = s(2);
  problem.tasks[1].after = {"a"};
  // side runs while nothing else can: a begins at its release on 4g, created before or after side.
  const plan::BatchSchedule schedule = scheduled(problem, 20'000);
  EXPECT_EQ(schedule.makespan, s(2 + 3 + 4));
  EXPECT_EQ(schedule.lower_bound, schedule.makespan);
  EXPECT_TRUE(schedule.optimal);
}

TEST(Timed, ImportantTasksEndFirst) {
  plan::BatchProblem problem = problem_on({"A30-24GB"});
  for (const char* name : {"a", "b", "c"}) problem.tasks.push_back(task(problem, name, {{4, 2}}));
  problem.tasks[1].priority = 5;
  problem.tasks[2].priority = 2;
  const plan::BatchSchedule schedule = scheduled(problem, 5'000);
  ASSERT_EQ(schedule.tasks.size(), 3u);
  EXPECT_EQ(schedule.tasks[0].task, "b");
  EXPECT_EQ(schedule.tasks[1].task, "c");
  EXPECT_EQ(schedule.tasks[2].task, "a");
}

TEST(Timed, BoundsByHand) {
  plan::BatchProblem problem = problem_on({"A30-24GB"});
  // Four columns; a and b come at 10 s with 12 column seconds each, and 3 s of c follow a.
  problem.tasks = {task(problem, "a", {{2, 6}}), task(problem, "b", {{2, 6}, {4, 5}}),
                   task(problem, "c", {{1, 3}})};
  problem.tasks[0].release = problem.tasks[1].release = s(10);
  problem.tasks[2].after = {"a"};
  problem.tasks[1].deadline = s(14);
  const TimedBatch batch = batch_of(problem);
  const TimedBounds bounds = timed_bounds(batch);
  EXPECT_EQ(bounds.makespan, s(10 + 6 + 3));
  EXPECT_EQ(bounds.tail, (std::vector<Nanos>{s(3), 0, 0}));
  EXPECT_EQ(bounds.end, (std::vector<Nanos>{s(16), s(15), s(19)}));
  EXPECT_EQ(bounds.ready[2], s(16));
  EXPECT_EQ(bounds.lateness, Wide{batch.weight[1]} * s(1));
}

TEST(Timed, AreaBoundCountsWhatComesLate) {
  plan::BatchProblem problem = problem_on({"A30-24GB"});
  for (int i = 0; i < 8; ++i) {
    problem.tasks.push_back(task(problem, "t" + std::to_string(i), {{1, 5}, {2, 5}}));
    problem.tasks.back().release = i < 2 ? 0 : s(20);
  }
  // 6 x 5 column seconds from 20 s on, on 4 columns.
  EXPECT_EQ(timed_bounds(batch_of(problem)).makespan, s(27.5));
}

TEST(Timed, ExplainsWhoIsLateAndWhy) {
  plan::BatchProblem problem = problem_on({"A30-24GB"});
  problem.tasks = {task(problem, "first", {{4, 10}}), task(problem, "waits", {{4, 1}}),
                   task(problem, "next", {{4, 2}}), task(problem, "hopeless", {{4, 5}})};
  problem.tasks[0].priority = 100;
  problem.tasks[0].deadline = s(10.13);
  problem.tasks[1].deadline = s(5);
  problem.tasks[2].deadline = s(12.5);
  problem.tasks[2].after = {"waits"};
  problem.tasks[3].release = s(20);
  problem.tasks[3].deadline = s(22);
  const std::vector<std::string> expected = {
      "3 of 4 deadlines are missed: lateness times priority adds up to 9.76 s, and no schedule has "
      "less than 3 s.",
      "Task waits ends at 11.13 s, 6.13 s after its deadline: it could run from 0 s on and waits "
      "10.13 s for slices.",
      "Task next ends at 13.13 s, 0.63 s after its deadline: its predecessor waits ends only at "
      "11.13 s.",
      "Task hopeless ends at 25 s, 3 s after its deadline: no schedule ends it before 25 s: it is "
      "released at 20 s, and it takes 5 s at least.",
      "The makespan is 25 s; releases, predecessors and areas alone take 25 s."};
  EXPECT_EQ(scheduled(problem, 10'000).explanation, expected);
}

TEST(Timed, RefusesATaskThatFitsNowhere) {
  plan::BatchProblem problem = problem_on({"A30-24GB"});
  problem.tasks = {task(problem, "big", {{7, 3}})};
  const Outcome outcome = timed(problem, {});
  EXPECT_FALSE(outcome.schedule);
  ASSERT_EQ(outcome.refusals.size(), 1u);
  EXPECT_EQ(outcome.refusals[0].constraint, "does_not_fit");
  EXPECT_EQ(outcome.refusals[0].subject, "task big");
}

TEST(Timed, AnEmptyBatchTakesNoTime) {
  const plan::BatchSchedule schedule = scheduled(problem_on({"A30-24GB"}), 10);
  EXPECT_EQ(schedule.makespan, 0);
  EXPECT_TRUE(schedule.tasks.empty() && schedule.reconfigurations.empty());
}

TEST(Timed, SameSeedSameScheduleAndMoreStepsNeverWorseThanTheStarts) {
  Rng rng(8);
  const plan::BatchProblem problem = random_problem(rng, {"A100-80GB", "A30-24GB"}, 25);
  const TimedBatch batch = batch_of(problem);
  EXPECT_EQ(scheduled(problem, 5'000), scheduled(problem, 5'000));
  const TimedBounds bounds = timed_bounds(batch);
  const Worth found = worth_of(batch, problem, scheduled(problem, 5'000));
  TimedDecoder decoder(batch);
  for (const Urgency urgency : kUrgencies) {
    const Choice choice = list_schedule(batch, bounds, {.urgency = urgency});
    expect_valid(problem, batch, decoder.physical(choice));
    EXPECT_LE(found, decoder.play(choice));
  }
}

// Lateness, then makespan, then ends: never worse with a larger budget.
TEST(Timed, MoreBudgetIsNeverWorse) {
  Rng rng(9);
  for (int round = 0; round < test_rounds(8); ++round) {
    const plan::BatchProblem problem = random_problem(rng, {"A100-80GB", "A30-24GB"}, 15);
    const TimedBatch batch = batch_of(problem);
    std::optional<Worth> least;
    for (const long steps : {1L, 20L, 300L, 1'000L, 5'000L, 30'000L, 70'000L}) {
      const Worth worth = worth_of(batch, problem, scheduled(problem, steps));
      if (least) {
        EXPECT_LE(worth, *least) << "round " << round << ", " << steps << " steps";
      }
      least = worth;
    }
  }
}

TEST(Timed, NeverWorseThanAGivenAssignment) {
  // Everything on its own 1g of an A30: list rules with few steps must not lose it.
  plan::BatchProblem problem = problem_on({"A30-24GB"});
  std::vector<int> assignment;
  for (int i = 0; i < 4; ++i) {
    problem.tasks.push_back(task(problem, "t" + std::to_string(i), {{1, 10}, {2, 9.5}, {4, 9}}));
  }
  const TimedBatch batch = batch_of(problem);
  for (std::size_t v = 0; v < batch.forest.nodes.size(); ++v) {
    if (batch.forest.nodes[v].columns == 1) assignment.push_back(static_cast<int>(v));
  }
  const Outcome outcome = timed_from(problem, budget(1), {assignment});
  ASSERT_TRUE(outcome.schedule);
  EXPECT_LE(outcome.schedule->makespan, s(10 + 4 * 0.11));
}

}  // namespace
}  // namespace partita::planners::batch
