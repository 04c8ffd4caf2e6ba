// Random batches over all GPUs through every scheduler and the judge: violations, refusals, the
// slowest schedule. `batch_validity_bench [COUNT [SEED [BUDGET]]]` does rounds SEED, SEED + 1, ...;
// what is printed names the round, and `batch_validity_bench 1 ROUND` makes that batch again. Exits
// 1 on any violation. Also times the judge on a long stream of tasks.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../tests/batch/all_schedulers.h"
#include "../tests/batch/random_batch.h"
#include "verify/batch.h"

namespace partita {
namespace {

using batch_test::NamedScheduler;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Round r is seeded by r alone. One in three is timed; sizes and numbers of GPUs vary.
plan::BatchProblem problem_of(std::uint64_t round) {
  Rng rng = Rng(0).split(round);
  const int sizes[] = {4, 8, 12, 20, 40};
  const int gpus[] = {1, 1, 2, 4, 12};
  const batch_test::Shape shape{.most_tasks = sizes[rng.below(5)],
                                .most_gpus = gpus[rng.below(5)],
                                .timed = rng.below(3) == 0};
  return batch_test::random_batch(rng, shape);
}

void complain(const std::string& scheduler, std::uint64_t round, const std::string& what) {
  std::printf("%s, round %llu: %s\n", scheduler.c_str(), static_cast<unsigned long long>(round),
              what.c_str());
}

struct Tally {
  long schedules = 0, refusals = 0, violations = 0, proofs = 0;
  double total_ms = 0, slowest_ms = 0;
  std::uint64_t slowest_round = 0;

  void add_time(std::uint64_t round, double ms) {
    total_ms += ms;
    if (ms <= slowest_ms) return;
    slowest_ms = ms;
    slowest_round = round;
  }
  // What of an outcome is wrong is counted and printed; only the default must have a schedule.
  void add(const NamedScheduler& scheduler, std::uint64_t round, const plan::BatchProblem& problem,
           const planners::batch::Outcome& outcome) {
    if (!outcome.schedule) {
      ++refusals;
      if (!outcome.refusals.empty() && !scheduler.is_default()) return;
      ++violations;
      complain(scheduler.name, round, "no schedule");
      return;
    }
    ++schedules;
    proofs += outcome.schedule->optimal ? 1 : 0;
    for (const plan::Reason& reason : verify::verify(problem, *outcome.schedule)) {
      ++violations;
      complain(scheduler.name, round, plan::to_string(reason));
    }
  }
};

// What `scheduler` does with rounds first..first+count-1.
Tally survey(const NamedScheduler& scheduler, std::uint64_t first, long count, long budget) {
  Tally tally;
  for (std::uint64_t round = first; round < first + static_cast<std::uint64_t>(count); ++round) {
    const plan::BatchProblem problem = problem_of(round);
    const auto begin = Clock::now();
    const auto outcome = scheduler.run(problem, budget);
    tally.add_time(round, milliseconds_since(begin));
    tally.add(scheduler, round, problem, outcome);
  }
  return tally;
}

// A 1g and the 2g over it in turns, one task each: two reconfigurations per task.
struct Stream {
  plan::BatchProblem problem;
  plan::BatchSchedule schedule;
};
Stream stream(int gpus, int tasks) {
  Stream result;
  auto& [problem, schedule] = result;
  problem.models = {*hw::builtin_catalogue().find("A30-24GB")};
  problem.gpus.assign(static_cast<std::size_t>(gpus), 0);
  schedule.gpu_models.assign(problem.gpus.size(), "A30-24GB");
  std::vector<plan::Nanos> now(problem.gpus.size(), 0);
  plan::SizeTimes times;
  times[1] = times[2] = plan::kNanosInSecond;
  using Op = plan::Reconfiguration::Op;
  for (int t = 0; t < tasks; ++t) {
    const int g = t % gpus;
    plan::Nanos& clock = now[static_cast<std::size_t>(g)];
    const bool small = t / gpus % 2 == 0;
    const char* profile = small ? "1g.6gb" : "2g.12gb";
    const auto reconfigure = [&](Op op, plan::Nanos time) {
      schedule.reconfigurations.push_back({{profile, 0}, g, op, clock, clock + time});
      clock += time;
    };
    plan::Task task;
    task.name = "t" + std::to_string(t);
    task.times = {times};
    reconfigure(Op::create, small ? 110'000'000 : 120'000'000);
    schedule.tasks.push_back({{profile, 0}, g, task.name, clock, clock + plan::kNanosInSecond});
    clock += plan::kNanosInSecond;
    reconfigure(Op::destroy, 100'000'000);
    problem.tasks.push_back(std::move(task));
  }
  plan::put_in_order(schedule);
  return result;
}

bool time_judge(int gpus, int tasks) {
  const auto [problem, schedule] = stream(gpus, tasks);
  const auto begin = Clock::now();
  const auto reasons = verify::verify(problem, schedule);
  std::printf("judge: %d tasks, %zu reconfigurations on %d GPUs: %.1f ms\n", tasks,
              schedule.reconfigurations.size(), gpus, milliseconds_since(begin));
  return reasons.empty();
}

bool survey_all(std::uint64_t first, long count, long budget) {
  bool fine = true;
  std::printf("%-18s %9s %9s %9s %10s %9s %9s  %s\n", "scheduler", "schedules", "refusals",
              "proofs", "violations", "mean ms", "worst ms", "in round");
  for (const NamedScheduler& scheduler : batch_test::all_schedulers()) {
    const Tally tally = survey(scheduler, first, count, budget);
    fine = fine && tally.violations == 0;
    std::printf("%-18s %9ld %9ld %9ld %10ld %9.3f %9.1f  %llu\n", scheduler.name.c_str(),
                tally.schedules, tally.refusals, tally.proofs, tally.violations,
                tally.total_ms / static_cast<double>(std::max(1L, count)), tally.slowest_ms,
                static_cast<unsigned long long>(tally.slowest_round));
    std::fflush(stdout);
  }
  return fine;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  const long count = argc > 1 ? std::atol(argv[1]) : 300;
  const auto seed = argc > 2 ? static_cast<std::uint64_t>(std::atoll(argv[2])) : 1;
  const long budget = argc > 3 ? std::atol(argv[3]) : 300;
  bool fine = partita::survey_all(seed, count, budget);
  for (const int gpus : {8, 1}) fine = partita::time_judge(gpus, 10'000) && fine;
  return fine ? 0 : 1;
}
