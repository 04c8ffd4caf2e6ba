// The model of queueing latency against two witnesses that share nothing with it: the serving
// simulator and the judge's own solution of the paced queue.
#include <gtest/gtest.h>

#include <string>

#include "model/poisson.h"
#include "model/queueing.h"
#include "sim/serving.h"
#include "verify/paced_queue.h"
#include "verify/poisson.h"

namespace partita {
namespace {

model::BatchQueue doubling(int max_batch, int processes) {
  model::BatchQueue queue{.curve = {}, .processes = processes};
  for (int b = 1; b <= max_batch; b *= 2) queue.curve.steps.push_back({b, Millis{5 + 0.9 * b}});
  return queue;
}

// One segment on one GPU that receives all traffic of its only service.
sim::ServiceReport simulated(const model::BatchQueue& queue, Rps load, double seconds) {
  const int batch = queue.curve.max_batch();
  const Millis latency = queue.curve.steps.back().latency;
  plan::FleetEntry fleet;
  fleet.gpu.name = std::string("G");
  fleet.gpu.compute_slices = 1;
  hw::MigProfile mig;
  mig.name = std::string("1g");
  mig.gpcs = 1;
  mig.sms = 14;
  fleet.gpu.profiles = {mig};
  profile::WorkloadProfile& workload = fleet.profiles["m"];
  workload.model = std::string("m");
  for (const auto& step : queue.curve.steps) {
    const Rps full{1e3 * step.batch * queue.processes / step.latency.value};
    workload.points.push_back({1, step.batch, queue.processes, full, step.latency, {}});
  }
  plan::Service service;
  service.name = std::string("s");
  service.model = std::string("m");
  service.rate = load;
  service.slo = Millis{1000};

  plan::ServingPlan plan;
  plan.rule = plan::kQueueing;
  plan.gpus = {{0, "G", {{"1g", 0, "s", batch, queue.processes, load, latency}}}};
  plan::ServingProblem problem;
  problem.fleet = {fleet};
  problem.services = {service};
  sim::ServingOptions options;
  options.duration = Seconds{seconds};
  options.warmup = Seconds{5};
  const auto report = sim::simulate(problem, plan, options);
  EXPECT_TRUE(report) << to_string(report.error());
  return report ? report->services.at(0) : sim::ServiceReport{};
}

// The planners cut the law at six standard deviations: theirs is the judge's, given that the count
// lies inside.
TEST(QueueingModel, ArrivalsAreTheJudgesLawInsideTheirWindow) {
  model::Poisson model;
  for (const double mean : {0.02, 0.7, 3.0, 40.0, 150.5, 2e4}) {
    model.reset(mean);
    const auto below = [&](int n) { return n <= 0 ? 0 : verify::poisson_cdf(mean, n - 1); };
    const double least = below(model.first()), most = below(model.last() + 1);
    for (int n = model.first(); n <= model.last(); ++n) {
      const double exact = (most - below(n)) / (most - least);
      if (exact < 0.01) break;
      EXPECT_NEAR(model.tail(n), exact, 1e-12 * exact) << mean << " " << n;
    }
  }
}

TEST(QueueingModel, AgreesWithTheSimulator) {
  for (const int processes : {1, 2, 3}) {
    for (const int batch : {1, 4, 32, 128}) {
      for (const double utilisation : {0.2, 0.8}) {
        const model::BatchQueue queue = doubling(batch, processes);
        const Rps load = model::saturation(queue) * utilisation;
        const sim::ServiceReport report = simulated(queue, load, 200'000 / load.value);
        const auto check = [&](double percentile, Millis witness) {
          const Millis predicted = model::latency_percentile(queue, load, percentile);
          EXPECT_LT(predicted / witness, 1.10)
              << processes << " x " << batch << ": " << utilisation;
          EXPECT_GT(predicted / witness, 0.95)
              << processes << " x " << batch << ": " << utilisation;
        };
        check(95, report.p95);
        check(99, report.p99);
      }
    }
  }
}

// With one process nothing is ever blocked, so both solutions describe the same queue.
TEST(QueueingModel, AgreesWithTheJudge) {
  for (const int batch : {1, 2, 8, 32, 128}) {
    for (const double utilisation : {0.1, 0.5, 0.8, 0.95}) {
      const model::BatchQueue queue = doubling(batch, 1);
      const Rps load = model::saturation(queue) * utilisation;
      const verify::PacedQueue judge(queue.curve, 1, load);
      for (const double percentile : {90.0, 99.0, 99.9}) {
        EXPECT_NEAR(model::latency_percentile(queue, load, percentile) / judge.latency(percentile),
                    1, 0.02)
            << batch << " at " << utilisation << " p" << percentile;
      }
    }
  }
}

}  // namespace
}  // namespace partita
