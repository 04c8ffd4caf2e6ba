// Simulated events (arrivals, dispatches and completions) per CPU second on plans of several
// shapes, at 70 % of what the instances can do, batches of up to 32.
#include <benchmark/benchmark.h>

#include <string>

#include "base/check.h"
#include "sim/serving.h"

namespace partita {
namespace {

constexpr double kLoad = 0.7;
constexpr int kProcesses = 3;
constexpr double kRequests = 1e6;

plan::FleetEntry fleet() {
  hw::MigProfile profile;
  profile.name = std::string("1g");
  profile.gpcs = profile.size = profile.max_instances = 1;
  profile.starts = {0};
  plan::FleetEntry fleet;
  fleet.gpu.name = std::string("bench");
  fleet.gpu.compute_slices = fleet.gpu.memory_slices = 1;
  fleet.gpu.profiles = {profile};
  profile::WorkloadProfile& workload = fleet.profiles["m"];
  workload.model = std::string("m");
  for (int batch = 1; batch <= 32; batch *= 2) {
    const double latency_ms = 2 + batch / 2.0;
    const Rps throughput{1e3 * batch * kProcesses / latency_ms};
    workload.points.push_back({1, batch, kProcesses, throughput, Millis{latency_ms}, {}});
  }
  return fleet;
}

// Services that each have as many instances of the largest batch, one on a GPU.
void simulate_plan(benchmark::State& state) {
  const auto services = static_cast<int>(state.range(0));
  const auto instances = static_cast<int>(state.range(1));
  plan::ServingProblem problem;
  problem.fleet.push_back(fleet());
  const profile::ProfilePoint point = problem.fleet[0].profiles.at("m").points.back();
  plan::ServingPlan plan;
  for (int s = 0; s < services; ++s) {
    plan::Service service;
    service.name = "service-" + std::to_string(s);
    service.model = std::string("m");
    service.rate = point.throughput * (kLoad * instances);
    service.slo = Millis{60};
    problem.services.push_back(service);
    for (int i = 0; i < instances; ++i) {
      plan.gpus.push_back({s * instances + i, "bench", {}});
      plan.gpus.back().instances.push_back(
          {"1g", 0, service.name, point.batch, kProcesses, point.throughput, point.latency});
    }
  }
  sim::ServingOptions options;
  options.duration = Seconds{kRequests / (problem.services[0].rate.value * services)};
  long events = 0;
  for (auto _ : state) {
    const Result<sim::ServingReport> report = sim::simulate(problem, plan, options);
    CHECK(report);
    events += report->events;
    ++options.seed;
  }
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}

BENCHMARK(simulate_plan)
    ->ArgNames({"services", "instances"})
    ->Args({1, 1})
    ->Args({1, 8})
    ->Args({1, 64})
    ->Args({1, 1000})
    ->Args({100, 4})
    ->Args({10'000, 4})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace partita
