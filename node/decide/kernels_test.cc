// Inputs, plans, policies and simulations of kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decide/graph.h"
#include "decide/kernel_inputs.h"
#include "decide/kernel_planning.h"
#include "decide/kernel_policies.h"
#include "decide/kernel_simulation.h"
#include "plan/digest.h"

namespace partita::decide {
namespace {

using hw::UnitMask;
using testing::ElementsAre;
using testing::HasSubstr;

// Kernels that are as fast on `enough` units as on all of 8.
profile::ModelKernels model(const std::string& name, const std::vector<int>& enough) {
  profile::ModelKernels model{name, 8, {}};
  for (const int most : enough) {
    profile::KernelProfile& kernel = model.kernels.emplace_back();
    kernel.name = "k";
    for (int units = 1; units <= 8; ++units) kernel.time_us.push_back(80.0 / std::min(units, most));
  }
  return model;
}

class Kernels : public testing::Test {
 protected:
  const hw::Topology topology = hw::generic_topology(2, 4);
  std::vector<profile::ModelKernels> workers{model("a", {8, 2}), model("b", {4, 4})};
  PolicyInputs inputs{topology, workers, 1, hw::mask_sizes(topology, 1), 0.05, {}, {2, 4, 6, 8}, 1};
  const std::vector<int> idle = std::vector<int>(8);

  std::vector<std::size_t> units(const std::string& policy, const std::vector<int>& running) {
    const auto made = kernel_policy(policy, inputs);
    std::vector<std::size_t> counts;
    for (std::size_t w = 0; w < 2; ++w)
      for (std::size_t k = 0; k < 2; ++k) {
        const auto mask = (*made)(w, k, running);
        counts.push_back(mask ? mask->count() : 0);
      }
    return counts;
  }
};

TEST_F(Kernels, PoliciesGiveTheUnitsTheySay) {
  EXPECT_THAT(units("mps", idle), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(units("static", idle), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(units("krisp-o", idle), ElementsAre(8, 2, 4, 4));
  const std::vector<int> busy{1, 1, 1, 1, 1, 0, 0, 0};
  EXPECT_THAT(units("krisp-i", busy), ElementsAre(3, 2, 3, 3));  // what is idle
  EXPECT_THAT(units("krisp-i", std::vector<int>(8, 1)), ElementsAre(0, 0, 0, 0));
  inputs.plan_units = {{6, 2}, {4, 2}};
  EXPECT_THAT(units("eclip", idle), ElementsAre(6, 2, 4, 2));
  // static: apart
  const auto apart = kernel_policy("static", inputs);
  EXPECT_TRUE((*(*apart)(0, 0, idle) & *(*apart)(1, 0, idle)).none());
}

TEST_F(Kernels, PoliciesAreKnownByName) {
  EXPECT_EQ(switches_of("eclip:12"), 12);
  for (const char* word : {"eclip", "eclip:", "eclip:-1", "eclip:1001", "eclip:1x", "mps"})
    EXPECT_EQ(switches_of(word), std::nullopt) << word;
  EXPECT_TRUE(parse_policies("--policies", "mps,eclip:3"));
  EXPECT_THAT(to_string(parse_policies("--policies", "mps,eclips").error()),
              HasSubstr("--policies: 'eclips' is not one of"));
}

TEST_F(Kernels, PlansAreTheBestOfAllAndStamped) {
  const auto problem = kernel_problem(topology, workers, {2, 4, 6, 8}, 1);
  ASSERT_TRUE(problem);
  const auto planned = plan_kernels(*problem, topology, 1);
  ASSERT_TRUE(planned);
  EXPECT_EQ((*planned)->problem_digest, plan::digest(*problem));
  // By trying all options of all kernels.
  double best = 1e18;
  const auto figures = [&](std::size_t w, int i, int j) {
    const plan::KernelTimes& times = problem->workers[w].times;
    const auto at = [](int x) { return static_cast<std::size_t>(x); };
    return std::pair(times.time[at(i)] + times.time[at(4 + j)],
                     (times.units[at(i)] + times.units[at(j)]) / 2.0);
  };
  for (int all = 0; all < 256; ++all) {
    const auto [ta, ua] = figures(0, all & 3, all >> 2 & 3);
    const auto [tb, ub] = figures(1, all >> 4 & 3, all >> 6 & 3);
    best = std::min(best, ta * (1 + ub / 8) + tb * (1 + ua / 8));
  }
  EXPECT_NEAR((*planned)->plan.objective, best, 1e-9 * best);
  const auto large = kernel_problem(topology, workers, std::vector<int>(20'000'000, 1), 1);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().context, "--switches");
}

TEST_F(Kernels, ComparisonsAreAgainstEachModelAlone) {
  sim::ColocationOptions options;
  options.duration_s = 0.05;
  options.warmup_s = 0.01;
  options.spread = 0;
  const std::vector<profile::ModelKernels> one{workers[0]};
  const PolicyInputs only{topology, one, 1, inputs.sizes, 0.05, {}, {8}, 1};
  const auto outcomes = compare_policies(only, {"mps", "static"}, options);
  ASSERT_TRUE(outcomes);
  EXPECT_DOUBLE_EQ((*outcomes)[0].normalised, 1);
  EXPECT_DOUBLE_EQ((*outcomes)[0].p95_ratio, 1);
  EXPECT_NEAR((*outcomes)[0].energy_ratio, 1, 1e-9);
  EXPECT_DOUBLE_EQ(against_mps(*outcomes, (*outcomes)[1]), (*outcomes)[1].normalised);
  EXPECT_EQ(against_mps({}, (*outcomes)[1]), 0);
  options.duration_s = 1e-6;
  EXPECT_EQ(compare_policies(only, {"mps"}, options).error().context, "--duration");
}

TEST_F(Kernels, SweepsSetOneParameter) {
  const auto sweep = parse_sweep("--sweep", "gamma=0,0.5");
  ASSERT_TRUE(sweep);
  EXPECT_THAT(sweep->values, ElementsAre(0, 0.5));
  for (const char* text : {"gamma", "gama=1", "gamma=101", "streams=0", "switches=1.5", "gamma=x"})
    EXPECT_EQ(parse_sweep("--sweep", text).error().context, "--sweep") << text;
  EXPECT_FALSE(parse_sweep("--sweep", "gamma=0" + std::string(200, ' ')));
  sim::ColocationOptions options;
  options.duration_s = 0.05;
  const auto swept = run_sweep(*sweep, inputs, {"mps"}, options);
  ASSERT_TRUE(swept);
  for (std::size_t i = 0; i < 2; ++i) {
    sim::ColocationOptions by_hand = options;
    by_hand.gamma = sweep->values[i];
    EXPECT_EQ(swept->outcomes[i][0].report,
              (*compare_policies(inputs, {"mps"}, by_hand))[0].report);
  }
}

TEST_F(Kernels, LoadersNameWhatIsWrong) {
  MemoryFiles files;
  files.content["d/a.csv"] = "kernel,units,time_us\nk,4,20\nk,8,10\n";
  const auto two = load_kernels(files, {.workers = "a,a", .profiles = "d", .gpu = ""}, topology);
  ASSERT_TRUE(two);
  EXPECT_EQ((*two)[1].model, "a#2");
  const auto refusal = [&](const std::string& names) {
    return to_string(
        load_kernels(files, {.workers = names, .profiles = "d", .gpu = ""}, topology).error());
  };
  EXPECT_THAT(refusal("a,"), HasSubstr("--workers: an empty name"));
  EXPECT_THAT(refusal("a#2"), HasSubstr("without #"));
  EXPECT_THAT(refusal("b"), HasSubstr("no kernels of 'b'"));
  EXPECT_THAT(*load_configs("", topology, 1), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(to_string(load_configs("4,2", topology, 1).error()), HasSubstr("ascending"));
  EXPECT_THAT(to_string(load_configs("3", topology, 2).error()), HasSubstr("2 or 4"));
  EXPECT_EQ(load_atom(topology, 5).error().context, "--atom");
  PlannedUnits plan{"2x4", 1, "a", {{4}}};
  EXPECT_TRUE(check_planned_units("p", plan, {(*two)[0]}));
  EXPECT_FALSE(check_planned_units("p", plan, *two));
  plan.units[0].push_back(4);
  EXPECT_FALSE(check_planned_units("p", plan, {(*two)[0]}));
}

// ---- graphs ----

plan::GraphProblem graph() {
  plan::GraphProblem graph;
  plan::GraphTask& kernel = graph.tasks.emplace_back();
  kernel.name = "k";
  kernel.work_us = 3;
  kernel.groups = kernel.units = 4;
  kernel.line = 7;
  plan::GraphTask& copy = graph.tasks.emplace_back();
  copy.name = "c";
  copy.kind = plan::GraphTaskKind::copy;
  copy.after = {0};
  copy.bytes = 5e4;
  copy.line = 8;
  return graph;
}

TEST_F(Kernels, GraphsGetTheirUnitsByPolicy) {
  plan::GraphProblem problem = graph();
  const auto masks = graph_masks(problem, topology);
  EXPECT_EQ(masks(0, idle)->count(), 4u);
  EXPECT_EQ(masks(0, std::vector<int>(8, 1)), std::nullopt);
  problem.tasks[0].overlap_limit = 3;
  EXPECT_EQ(masks(0, std::vector<int>(8, 1))->count(), 3u);
}

TEST_F(Kernels, GraphsAreCheckedAndTimed) {
  plan::GraphProblem problem = graph();
  EXPECT_TRUE(check_units("g", problem, topology));
  EXPECT_EQ(check_units("g", problem, hw::generic_topology(1, 3)).error().context, "g:7");
  EXPECT_TRUE(check_copies("g", problem));
  problem.tasks[1].bytes = 3e9;
  EXPECT_EQ(check_copies("g", problem).error().context, "g:8");
  // 4 groups of 3 us on one unit; then 50,000 bytes at 10 GB/s.
  const auto runs = one_after_another(graph(), {0, 1}, 10);
  EXPECT_EQ(runs[0].end_ns, 12'000);
  EXPECT_EQ(runs[1].begin_ns, 12'000);
  EXPECT_EQ(runs[1].end_ns, 17'000);
  EXPECT_TRUE(check_virtual_time(graph(), 10));
  problem.tasks[0].work_us = 1e9;
  problem.tasks[0].groups = 1'000'000;
  EXPECT_FALSE(check_virtual_time(problem, 10));
}

}  // namespace
}  // namespace partita::decide
