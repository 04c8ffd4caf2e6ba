// Is the promise of a language model kept? Random services on published points, with lengths of
// Azure's traces of 2023 or lognormal ones, planned and judged as `partita plan` does it; then
// played for long by the plain engine, with draws and a router of this test's own, at all of the
// rate and at 99 % of it. A violation is lasting when ten more runs, less two standard errors
// between them, are late more often than the percentile allows. PARTITA_ROUNDS=60 plays 300
// services.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/test_rounds.h"
#include "decide/serving.h"
#include "llm/engine/testing/plain_engine.h"
#include "random_services.h"

namespace partita::llm_test {
namespace {

constexpr double kRequests = 10'000;
constexpr int kMoreRuns = 10;

// Enough to see what bursts do, and not more than can be played.
double requests_of(const plan::Service& service, Rps rate) {
  const auto telling = static_cast<double>(plan::telling_requests(service.traffic.arrivals, rate));
  return std::clamp(telling, kRequests, 5 * kRequests);
}

struct Replica {
  profile::TokenEngine engine;  // with the plan's limit of requests at once
  double weight = 0;            // of the requests
  std::vector<llm::Request> requests = {};
};

std::vector<Replica> replicas_of(const plan::ServingProblem& problem,
                                 const plan::ServingPlan& plan) {
  std::vector<Replica> replicas;
  for (std::size_t g = 0; g < plan.gpus.size();) {
    for (const plan::PlannedInstance& one : plan.gpus[g].instances) {
      replicas.push_back({*plan::engine_of(problem, plan.gpus[g].model, problem.services[0], one),
                          one.throughput.value * one.group});
      replicas.back().engine.spec.sequences = one.batch;
    }
    g += static_cast<std::size_t>(plan.gpus[g].instances.front().group);
  }
  return replicas;
}

// Requests arrive as the service's do and go to replicas at random. Returns when the last comes.
double send_requests(const plan::Service& service, Rps rate, const Rng& root,
                     std::vector<Replica>& replicas) {
  Rng rng = root.split(1);
  plan::ArrivalSource source =
      plan::ArrivalSource::of(service.traffic.arrivals, rate, root.split(2));
  double now = 0, all = 0;
  for (const Replica& one : replicas) all += one.weight;
  const double count = requests_of(service, rate);
  for (double i = 0; i < count; ++i) {
    now = static_cast<double>(source.next()) / 1e6;
    double place = rng.uniform() * all;
    std::size_t r = 0;
    while (r + 1 < replicas.size() && place >= replicas[r].weight) place -= replicas[r++].weight;
    replicas[r].requests.push_back(llm::request_of(*service.tokens, rng));
    replicas[r].requests.back().arrival = Millis{now};
  }
  return now;
}

bool is_late(const plan::Service& service, const profile::TokenEngine& engine,
             const llm::Request& asked, const llm::Served& served) {
  const double outside = engine.request_ms + engine.request_token_ms * asked.in;
  const auto misses = [](Millis limit, double value) {
    return limit.value > 0 && value > limit.value;
  };
  return served.refused || misses(service.tokens->ttft, served.ttft().value + outside) ||
         misses(service.tokens->tpot, llm::tpot(served, asked).value) ||
         misses(service.slo, (served.end - served.arrival).value + outside);
}

// Late share of a run of the whole service.
double late_share(const plan::ServingProblem& problem, const plan::ServingPlan& plan, double load,
                  std::uint64_t seed) {
  const plan::Service& service = problem.services[0];
  std::vector<Replica> replicas = replicas_of(problem, plan);
  const double end = send_requests(service, load * service.rate, Rng(seed), replicas);
  double late = 0, count = 0;
  for (const Replica& one : replicas) {
    const llm::EngineRun run = llm::PlainEngine(one.engine.spec, one.requests, {}).run();
    for (std::size_t i = 0; i < one.requests.size(); ++i) {
      if (one.requests[i].arrival.value < end / 10) continue;
      ++count;
      late += is_late(service, one.engine, one.requests[i], run.requests[i]);
    }
  }
  return count > 0 ? late / count : 0;
}

// Of ten more runs: the mean less two standard errors.
double surely_late(const plan::ServingProblem& problem, const plan::ServingPlan& plan,
                   double load) {
  double sum = 0, squares = 0;
  for (int run = 1; run <= kMoreRuns; ++run) {
    const double late = late_share(problem, plan, load, 100 + static_cast<std::uint64_t>(run));
    sum += late;
    squares += late * late;
  }
  const double mean = sum / kMoreRuns;
  const double variance = std::max(0.0, squares / kMoreRuns - mean * mean) / (kMoreRuns - 1);
  return mean - 2 * std::sqrt(variance);
}

TEST(LlmPromise, is_kept_in_a_simulation_of_another_kind) {
  const int rounds = test_rounds(5);
  int planned = 0, looked_again = 0;
  for (int seed = 0; planned < rounds && seed < 2 * rounds + 10; ++seed) {
    RandomService random(static_cast<std::uint64_t>(seed));
    plan::ServingProblem problem;
    problem.fleet.push_back(random.fleet());
    problem.services.push_back(random.service("s", problem.fleet[0]));
    problem.services[0].traffic.arrivals = random.arrivals();
    const auto made =
        decide::make_plan(**decide::find_planner("", "exact"), problem, decide::PlanOptions{});
    ASSERT_TRUE(made) << "seed " << seed << ": " << to_string(made.error());
    if (!made->plan) continue;
    ++planned;
    const double allowed = 1 - problem.services[0].percentile / 100;
    for (const double load : {1.0, 0.99}) {
      const double late = late_share(problem, **made->plan, load, 1);
      if (late <= 0.8 * allowed) continue;
      ++looked_again;
      EXPECT_LE(surely_late(problem, **made->plan, load), allowed)
          << "seed " << seed << ", load " << load << ", of one run " << late << "; "
          << problem.services[0].model << ", " << plan::to_string(*problem.services[0].tokens)
          << ", " << plan::to_string(problem.services[0].traffic.arrivals) << ", "
          << (*made->plan)->objective.gpus << " GPUs";
    }
  }
  EXPECT_GE(planned, rounds);
  std::printf("%d services planned, %d runs looked at again\n", planned, looked_again);
}

}  // namespace
}  // namespace partita::llm_test
