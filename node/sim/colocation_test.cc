// Co-location against what can be worked out by hand: alone, sharing all units, apart, waiting,
// paying for switches.
#include "sim/colocation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/test_rounds.h"
#include "sim/engine.h"

namespace partita::sim {
namespace {

using profile::ModelKernels;

constexpr int kUnits = 60;

// Kernels that get faster up to `needs[k]` units; each takes `us` microseconds on one.
ModelKernels model_of(const std::vector<int>& needs, double us = 6000) {
  ModelKernels model{"m", kUnits, {}};
  for (const int need : needs) {
    profile::KernelProfile kernel{"k", {}};
    for (int n = 1; n <= kUnits; ++n) kernel.time_us.push_back(us / std::min(n, need));
    model.kernels.push_back(std::move(kernel));
  }
  return model;
}

hw::UnitMask range(std::size_t first, std::size_t count) {
  hw::UnitMask mask;
  for (std::size_t unit = first; unit < first + count; ++unit) mask.set(unit);
  return mask;
}

const MaskPolicy kAll = [](std::size_t, std::size_t, const std::vector<int>&) {
  return range(0, kUnits);
};

ColocationOptions exact() {
  ColocationOptions options;
  options.duration_s = 0.5;
  options.warmup_s = 0.01;
  options.spread = 0;
  options.gamma = 0;
  return options;
}

ColocationReport run(const std::vector<ModelKernels>& workers, const MaskPolicy& policy,
                     const ColocationOptions& options) {
  const auto report = simulate_colocation(hw::generic_topology(4, 15), workers, policy, options);
  EXPECT_TRUE(report.has_value());
  return report ? *report : ColocationReport{};
}

// Requests per second, give or take one request of each worker at the ends.
void expect_rps(const ColocationReport& report, double rps) {
  EXPECT_NEAR(report.rps, rps, 2.01 * static_cast<double>(report.workers.size()));
}

TEST(Colocation, AloneTakesWhatTheProfileSays) {
  const ModelKernels model = model_of({60, 30, 15});  // 100 + 200 + 400 us
  const ColocationReport report = run({model}, kAll, exact());
  expect_rps(report, 1e6 / 700);
  EXPECT_NEAR(report.workers[0].p95_ms, 0.7, 1e-9);
  EXPECT_NEAR(report.workers[0].mean_ms, 0.7, 1e-9);
  // 6,000 us of units each.
  EXPECT_NEAR(report.busy_units, 3 * 6000 / 700.0, 0.1);
  EXPECT_NEAR(report.energy_j, 15 * 0.5 + 4.75 * 0.5 * report.busy_units, 1e-6);
  EXPECT_NEAR(report.joules_each, report.energy_j / static_cast<double>(report.workers[0].requests),
              1e-9);
}

TEST(Colocation, WorkersThatNeedEverythingShareIt) {
  const std::vector<ModelKernels> two{model_of({60}), model_of({60})};
  ColocationOptions options = exact();
  expect_rps(run(two, kAll, options), 1e4);
  options.gamma = 0.25;
  expect_rps(run(two, kAll, options), 1e4 / 1.25);
  const std::vector<ModelKernels> three(3, model_of({60}));
  expect_rps(run(three, kAll, options), 1e4 / 1.5);
}

TEST(Colocation, WorkersThatNeedLittleDoNotMeet) {
  const std::vector<ModelKernels> four(4, model_of({15}));  // 400 us, a quarter of the units
  ColocationOptions options = exact();
  expect_rps(run(four, kAll, options), 1e4);
  options.gamma = 0.2;  // the others demand three quarters of each unit
  expect_rps(run(four, kAll, options), 1e4 / (1 + 0.2 * 0.75));
  // Eight have half of it each.
  options.gamma = 0;
  expect_rps(run(std::vector<ModelKernels>(8, model_of({15})), kAll, options), 1e4);
}

TEST(Colocation, ApartNothingIsShared) {
  const std::vector<ModelKernels> two{model_of({60}), model_of({60})};
  const MaskPolicy halves = [](std::size_t worker, std::size_t, const std::vector<int>&) {
    return range(30 * worker, 30);
  };
  ColocationOptions options = exact();
  options.gamma = 5;
  const ColocationReport report = run(two, halves, options);
  expect_rps(report, 1e4);
  EXPECT_NEAR(report.workers[1].p95_ms, 0.2, 1e-9);
}

// As measured on half of the units, beside neighbours on the other half.
ModelKernels disturbed(double computing, double reading, double presses) {
  using profile::Neighbour;
  ModelKernels model = model_of({60});
  const double us = model.kernels[0].on(30);
  model.kernels[0].beside = {{30, Neighbour::computing, us * computing, 0, 0},
                             {30, Neighbour::reading, us * reading, 0, presses}};
  return model;
}

TEST(Colocation, OnUnitsOfTheirOwnKernelsHaveWhatTheOthersPress) {
  const MaskPolicy halves = [](std::size_t worker, std::size_t, const std::vector<int>&) {
    return range(30 * worker, 30);
  };
  const std::vector<ModelKernels> two{disturbed(1.1, 1.5, 0.25), disturbed(1.2, 2, 0.75)};
  const ColocationReport report = run(two, halves, exact());
  // 200 us on half of the units, and of what readers would add as much as the other one presses.
  EXPECT_NEAR(report.workers[0].rps, 5000 / (1.1 + 0.4 * 0.75), 2.01);
  EXPECT_NEAR(report.workers[1].rps, 5000 / (1.2 + 0.8 * 0.25), 2.01);
  // Alone nobody presses.
  expect_rps(run({two[1]}, kAll, exact()), 1e4);
  // In turns on all units: while one has a unit, the other is beside it half of the time on each.
  const ColocationReport shared = run(two, kAll, exact());
  EXPECT_NEAR(shared.workers[0].rps, 5000 / (1.1 + 0.4 * 0.75), 2.01);
  // Beside one on a quarter of the units half of the others' units are idle.
  const MaskPolicy quarters = [](std::size_t worker, std::size_t, const std::vector<int>&) {
    return worker == 0 ? range(0, 30) : range(30, 15);
  };
  const ColocationReport less = run(two, quarters, exact());
  EXPECT_NEAR(less.workers[0].rps, 5000 / (1 + 0.5 * 0.1 + 0.5 * 0.75 * 0.4), 2.01);
}

TEST(Colocation, TheHostLetsKernelsWait) {
  ModelKernels model = model_of({60, 30});  // 100 and 200 us
  model.kernels[0].gap_us = 250;
  model.kernels[1].gap_us = 3;
  const ColocationReport report = run({model}, kAll, exact());
  expect_rps(report, 1e6 / 553);
  EXPECT_NEAR(report.busy_units, (60 * 100 + 30 * 200) / 553.0, 0.1);
  // Each 50 us longer beside others on half of the units.
  for (profile::KernelProfile& kernel : model.kernels)
    kernel.beside = {{30, profile::Neighbour::computing, kernel.on(30), kernel.gap_us + 50, 0}};
  const MaskPolicy halves = [](std::size_t worker, std::size_t, const std::vector<int>&) {
    return range(30 * worker, 30);
  };
  EXPECT_NEAR(run({model, model_of({60})}, halves, exact()).workers[0].rps,
              1e6 / (200 + 200 + 253 + 100), 2.01);
}

TEST(Colocation, AnUnequalMaskIsAsSlowAsItsSmallestCluster) {
  const MaskPolicy sixteen = [](std::size_t, std::size_t, const std::vector<int>&) {
    return range(0, 16);
  };
  const ColocationReport report = run({model_of({60})}, sixteen, exact());
  EXPECT_NEAR(report.workers[0].p95_ms, 3, 1e-9);
  EXPECT_NEAR(report.busy_units, 2, 0.01);
}

TEST(Colocation, SwitchesAndStreamsCost) {
  // Three masks in turn: 200 us of kernels on 30 units each.
  const MaskPolicy turns = [](std::size_t, std::size_t kernel, const std::vector<int>&) {
    return range(15 * kernel, 30);
  };
  ColocationOptions options = exact();
  options.switch_us = 7;
  options.mask_us = 55;
  options.launch_us = 1;
  for (const auto& [streams, each] : {std::pair{3, 7}, {2, 62}, {1, 62}}) {
    options.streams = streams;
    const ColocationReport report = run({model_of({60, 60, 60})}, turns, options);
    EXPECT_NEAR(report.workers[0].p95_ms, (3 * (200 + 1 + each)) / 1000.0, 1e-6) << streams;
    EXPECT_NEAR(report.workers[0].switches, 3, 0.05);
  }
}

// One at a time: the GPU is always busy, nobody overtakes for long.
TEST(Colocation, AKernelWaitsUntilAnotherEnds) {
  const MaskPolicy alone = [](std::size_t, std::size_t,
                              const std::vector<int>& running) -> std::optional<hw::UnitMask> {
    if (std::ranges::count(running, 0) < kUnits) return std::nullopt;
    return range(0, kUnits);
  };
  ColocationOptions options = exact();
  options.gamma = 5;
  const ColocationReport report =
      run({model_of({60}), model_of({60}), model_of({60})}, alone, options);
  expect_rps(report, 1e4);
  EXPECT_GT(report.waits, 0);
  for (const WorkerReport& worker : report.workers) EXPECT_NEAR(worker.p95_ms, 0.3, 1e-6);
}

// The model as the header tells it, in steps of half a microsecond: requests per worker.
std::vector<double> in_small_steps(const hw::Topology& topology,
                                   const std::vector<ModelKernels>& workers,
                                   const std::vector<hw::UnitMask>& masks,
                                   const ColocationOptions& options) {
  constexpr double kStep = 0.5;
  struct Running {
    double begin = 0, left = 1, demand = 0, usable = 0, effective = 0, requests = 0;
    std::size_t kernel = 0;
  };
  std::vector<Running> all(workers.size());
  const auto clusters_times_least = [&](std::size_t w, const auto& share) {
    double least = 1e9, count = 0;
    for (std::size_t first = 0; first < kUnits; first += 15) {
      double sum = 0;
      for (std::size_t unit = first; unit < first + 15; ++unit)
        if (masks[w][unit]) sum += share(unit);
      if (sum == 0) continue;
      least = std::min(least, sum);
      ++count;
    }
    return count * least;
  };
  for (std::size_t w = 0; w < all.size(); ++w) {
    all[w].begin = component_rng(options.seed, "worker " + std::to_string(w)).uniform() *
                   workers[w].time_us(topology.units());
    all[w].effective = clusters_times_least(w, [](std::size_t) { return 1.0; });
  }
  for (double now = 0; now < options.duration_s * 1e6; now += kStep) {
    std::vector<double> demands(kUnits);
    for (std::size_t w = 0; w < all.size(); ++w) {
      Running& one = all[w];
      const std::vector<double>& times = workers[w].kernels[one.kernel].time_us;
      const auto need = std::ranges::find(times, times.back()) - times.begin() + 1;
      one.usable = std::min(one.effective, static_cast<double>(need));
      one.demand = now < one.begin ? 0 : one.usable / static_cast<double>(masks[w].count());
      for (std::size_t unit = 0; unit < kUnits; ++unit)
        if (masks[w][unit]) demands[unit] += one.demand;
    }
    for (std::size_t w = 0; w < all.size(); ++w) {
      Running& one = all[w];
      if (now < one.begin) continue;
      double others = 0;
      for (std::size_t unit = 0; unit < kUnits; ++unit)
        if (masks[w][unit]) others += demands[unit] - one.demand;
      const double served = clusters_times_least(
          w, [&](std::size_t unit) { return 1 / std::max(1.0, demands[unit]); });
      const double time =
          time_on(workers[w].kernels[one.kernel], one.usable * served / one.effective) *
          (1 + options.gamma * others / static_cast<double>(masks[w].count()));
      one.left -= kStep / time;
      if (one.left > 0) continue;
      one.left += 1;
      one.requests += 1.0 / static_cast<double>(workers[w].kernels.size());
      one.kernel = (one.kernel + 1) % workers[w].kernels.size();
    }
  }
  std::vector<double> requests;
  for (const Running& one : all) requests.push_back(one.requests);
  return requests;
}

TEST(Colocation, AgreesWithSmallSteps) {
  const hw::Topology mi50 = hw::generic_topology(4, 15);
  Rng rng(3);
  for (int round = 0; round < test_rounds(6); ++round) {
    std::vector<ModelKernels> workers;
    std::vector<hw::UnitMask> masks;
    for (int w = 0; w < 3; ++w) {
      std::vector<int> needs;
      for (int k = 0; k < 3; ++k) needs.push_back(1 + static_cast<int>(rng.below(kUnits)));
      workers.push_back(model_of(needs, 4000));
      const std::size_t first = rng.below(50);
      masks.push_back(range(first, 1 + rng.below(kUnits - first)));
    }
    ColocationOptions options = exact();
    options.warmup_s = 0;
    options.duration_s = 0.02;
    options.gamma = rng.uniform();
    options.seed = rng.next();
    const ColocationReport report = run(
        workers, [&](std::size_t w, std::size_t, const std::vector<int>&) { return masks[w]; },
        options);
    const std::vector<double> expected = in_small_steps(mi50, workers, masks, options);
    for (std::size_t w = 0; w < workers.size(); ++w) {
      EXPECT_LE(static_cast<double>(report.workers[w].requests), expected[w] * 1.01 + 0.4);
      EXPECT_GE(static_cast<double>(report.workers[w].requests), expected[w] * 0.99 - 1.1);
    }
  }
}

TEST(Colocation, TheSeedDecides) {
  const std::vector<ModelKernels> workers{model_of({60, 5, 30}), model_of({10, 60}),
                                          model_of({20, 40, 7})};
  ColocationOptions options = exact();
  options.spread = 0.3;
  options.gamma = 0.2;
  const ColocationReport one = run(workers, kAll, options);
  EXPECT_EQ(one, run(workers, kAll, options));
  EXPECT_LE(one.busy_units, kUnits);
  options.seed = 2;
  EXPECT_NE(one.log_hash, run(workers, kAll, options).log_hash);
}

TEST(Colocation, BetweenWholeUnits) {
  const profile::KernelProfile kernel{"k", {100, 60, 40}};
  EXPECT_DOUBLE_EQ(time_on(kernel, 0.5), 200);
  EXPECT_DOUBLE_EQ(time_on(kernel, 1), 100);
  EXPECT_DOUBLE_EQ(time_on(kernel, 1.25), 1 / (0.75 / 100 + 0.25 / 60));
  EXPECT_DOUBLE_EQ(time_on(kernel, 2.5), 48);
  EXPECT_DOUBLE_EQ(time_on(kernel, 3), 40);
}

TEST(Colocation, Refusals) {
  const hw::Topology mi50 = hw::generic_topology(4, 15);
  const std::vector<ModelKernels> one{model_of({60})};
  EXPECT_FALSE(simulate_colocation(mi50, {}, kAll, exact()));
  EXPECT_FALSE(simulate_colocation(mi50, {ModelKernels{"m", kUnits, {}}}, kAll, exact()));
  EXPECT_FALSE(simulate_colocation(hw::generic_topology(4, 14), one, kAll, exact()));
  const auto giving = [&](std::optional<hw::UnitMask> mask) {
    const MaskPolicy policy = [mask](std::size_t, std::size_t, const std::vector<int>&) {
      return mask;
    };
    return simulate_colocation(mi50, one, policy, exact()).has_value();
  };
  EXPECT_FALSE(giving(std::nullopt));
  EXPECT_FALSE(giving(hw::UnitMask{}));
  EXPECT_FALSE(giving(range(59, 2)));
  EXPECT_TRUE(giving(range(59, 1)));
  hw::Topology dies = mi50;
  dies.dies = 4;
  const MaskPolicy three = [](std::size_t, std::size_t, const std::vector<int>&) {
    return range(0, 45);
  };
  const auto unmasked = simulate_colocation(dies, one, three, exact());
  ASSERT_FALSE(unmasked);
  EXPECT_NE(unmasked.error().message.find("runs unmasked"), std::string::npos);
  EXPECT_TRUE(simulate_colocation(dies, one, kAll, exact()));
}

}  // namespace
}  // namespace partita::sim
