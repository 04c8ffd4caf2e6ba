#include "decide/gpu_costs.h"

#include <gtest/gtest.h>

#include "base/source_text.h"
#include "decide/serving.h"
#include "decide/serving_inputs.h"

namespace partita::decide {
namespace {

constexpr char kCostServices[] = "- {name: s, model: m, rate_rps: 30, slo_ms: 1000}\n";
constexpr char kCostProfiles[] =
    "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n"
    "m,1,1,1,20,50,\nm,2,1,1,36,27,\nm,7,1,1,70,10,\n";

struct CostAsked {
  std::string objective = "energy", costs = "", table = "", fleet = "";
};

Result<plan::ServingProblem> costed(const CostAsked& asked, const std::string& gpu) {
  MemoryFiles files;
  files.content = {{"s.yaml", kCostServices},
                   {"p.csv", kCostProfiles},
                   {"c.csv", asked.costs},
                   {"t.csv", asked.table},
                   {"f.yaml", asked.fleet}};
  ProblemFiles names;
  names.services = "s.yaml";
  if (asked.fleet.empty()) {
    names.profiles = "p.csv";
    names.gpu = gpu;
  } else {
    names.fleet = "f.yaml";
  }
  names.rule = "execution:1";
  names.objective = {asked.objective, asked.costs.empty() ? "" : "c.csv",
                     asked.table.empty() ? "" : "t.csv"};
  return load_problem(files, names);
}

std::string cost_refusal(const CostAsked& asked, const std::string& gpu = "A100-80GB") {
  const auto problem = costed(asked, gpu);
  return problem ? "" : to_string(problem.error());
}

std::string cost_row(const std::string& cells) {
  return "gpu,idle_w,busy_w,off_w,price_per_hour,source\n" + cells + "\n";
}

TEST(GpuCosts, ThoseOfTheProgramAreOfTheCatalogueAndHaveSources) {
  for (const GpuCost& cost : builtin_gpu_costs()) {
    EXPECT_TRUE(hw::builtin_catalogue().get(cost.gpu)) << cost.gpu;
    EXPECT_GT(cost.source.size(), 20u);
  }
  const auto problem = costed({}, "A100-80GB");
  ASSERT_TRUE(problem) << to_string(problem.error());
  EXPECT_EQ(problem->goal, plan::Goal::energy);
  EXPECT_EQ(problem->fleet[0].power, (plan::GpuPower{Watts{60}, Watts{400}}));
}

TEST(GpuCosts, OwnRowsComeFirst) {
  const auto problem = costed({"energy", cost_row("A100-80GB,50,300,5,,mine")}, "A100-80GB");
  ASSERT_TRUE(problem) << to_string(problem.error());
  EXPECT_EQ(problem->fleet[0].power, (plan::GpuPower{Watts{50}, Watts{300}, Watts{5}}));
  const auto priced = costed({"cost", cost_row("A100-80GB,,,,2.5,mine")}, "A100-80GB");
  ASSERT_TRUE(priced);
  EXPECT_EQ(priced->fleet[0].price, 2.5);
}

TEST(GpuCosts, SillyFiguresAreRefusedWithTheirLine) {
  const std::pair<const char*, const char*> wrong[] = {
      {"A100-80GB,,,,0,x", "c.csv:2: price_per_hour"},
      {"A100-80GB,,,,-3,x", "c.csv:2: price_per_hour"},
      {"A100-80GB,,,,nan,x", "c.csv:2"},
      {"A100-80GB,0,400,,,x", "c.csv:2: idle_w"},
      {"A100-80GB,-60,400,,,x", "c.csv:2: idle_w"},
      {"A100-80GB,60,400000,,,x", "c.csv:2: busy_w"},
      {"A100-80GB,400,60,,,x", "c.csv:2: busy_w is 60, no more than idle_w"},
      {"A100-80GB,60,,,,x", "c.csv:2: idle_w and busy_w"},
      {"A100-80GB,60,400,90,,x", "c.csv:2: off_w is 90, more than idle_w"},
      {"A100-80GB,60,400,,,", "c.csv:2: source is empty"},
      {",60,400,,,x", "c.csv:2: gpu is empty"},
      {"A100-80GB,60,400,,,x\nA100-80GB,60,400,,,x", "c.csv:3: gpu 'A100-80GB' is already"},
      {"A100-80G,60,400,,,x", "c.csv:2: unknown GPU 'A100-80G'"}};
  for (const auto& [cells, message] : wrong)
    EXPECT_EQ(cost_refusal({"energy", cost_row(cells)}).find(message), 0u)
        << cells << ": " << cost_refusal({"energy", cost_row(cells)});
}

TEST(GpuCosts, WhatNobodyKnowsIsRefusedWithHowToSayIt) {
  EXPECT_NE(
      cost_refusal({"energy"}, "H100-94GB-NVL").find("no power of a H100-94GB-NVL is known; give"),
      std::string::npos);
  EXPECT_NE(cost_refusal({"cost"}, "H200-141GB").find("no price of a H200-141GB is known; give"),
            std::string::npos);
  EXPECT_NE(cost_refusal({"cost", "", "x"}).find("--power-table"), std::string::npos);
  EXPECT_NE(cost_refusal({"gpus", cost_row("A30-24GB,,,,1,x")}).find("--gpu-costs"),
            std::string::npos);
}

TEST(GpuCosts, APriceOfTheFleetFileStands) {
  const std::string fleet =
      "gpus:\n- {gpu: A100-80GB, profiles: p.csv, price: 7}\n- {gpu: A100-40GB, profiles: p.csv}\n";
  const auto problem = costed({"cost", "", "", fleet}, "");
  ASSERT_TRUE(problem) << to_string(problem.error());
  EXPECT_EQ(problem->fleet[0].price, 7);
  EXPECT_EQ(problem->fleet[1].price, 4.10);
  const auto counted = costed({"gpus", "", "", fleet}, "");
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->fleet[0].price, 1);
  EXPECT_EQ(counted->goal, plan::Goal::gpus);
  // The fewest of one model are planned anyway: that is the plan that nobody asked for by name.
  const auto one = costed({"gpus", "", "", fleet.substr(0, fleet.find("\n-", 8))}, "");
  ASSERT_TRUE(one) << to_string(one.error());
  EXPECT_EQ(one->fleet.size(), 1U);
  EXPECT_EQ(one->fleet[0].price, 7);
}

// By hand: 20 W at rest, 60 W clocked. 108 SMs: on 54 of them 100 W more, on all 160 W.
TEST(GpuCosts, ATableSaysTheWattsOfSlices) {
  const std::string table =
      "model,clock_mhz,units,batch,p95_ms,max_rps,power_w\n-,0,0,0,0,0,20\n-,1000,0,0,0,0,50\n"
      "-,1400,0,0,0,0,60\nm,1000,54,1,12,90,120\nm,1000,108,1,7,160,180\n"
      "m,1400,54,1,10,100,160\nm,1400,108,1,6,180,220\n";
  const auto problem = costed({"energy", "", table}, "A100-80GB");
  ASSERT_TRUE(problem) << to_string(problem.error());
  const plan::GpuPower& power = *problem->fleet[0].power;
  EXPECT_EQ(power.idle.value, 60);
  EXPECT_EQ(power.busy.value, 220);
  EXPECT_NEAR(power.measured.at("m").at(1).value, 100.0 * 2 / 7, 1e-9);
  EXPECT_NEAR(power.measured.at("m").at(7).value, 160, 1e-9);
  EXPECT_NEAR(power.measured.at("m").at(4).value, 100 + 60.0 * (108 * 4 / 7.0 - 54) / 54, 1e-9);
  const std::string other =
      "model,clock_mhz,units,batch,p95_ms,max_rps,power_w\n-,0,0,0,0,0,20\n"
      "-,1400,0,0,0,0,60\nn,1400,54,1,10,100,160\n";
  EXPECT_NE(cost_refusal({"energy", "", other}).find("no row of model 'm' (service 's')"),
            std::string::npos);
}

// The judge counts the watts for itself, and refuses others.
TEST(GpuCosts, PlansOfEnergyAreJudged) {
  const auto problem = costed({}, "A100-80GB");
  ASSERT_TRUE(problem);
  const auto planner = find_planner("--planner", "exact");
  ASSERT_TRUE(planner);
  const auto made = make_plan(**planner, *problem, {});
  ASSERT_TRUE(made) << to_string(made.error());
  ASSERT_TRUE(made->plan);
  plan::ServingPlan plan = **made->plan;
  // Two sevenths at 340 / 7 W, busy 3/4 of the time.
  EXPECT_NEAR(plan.objective.watts, 60 + 2 * 340.0 / 7 * 0.75, 1e-9);
  EXPECT_TRUE(plan.objective.optimal);
  plan.objective.watts -= 1;
  EXPECT_FALSE(verify::judge(*problem, plan));
  plan.objective.watts += 1;
  plan.objective.lower_bound_watts += 1;
  EXPECT_FALSE(verify::judge(*problem, plan));
  plan.objective.lower_bound_watts -= 2;
  EXPECT_FALSE(verify::judge(*problem, plan)) << "still claims an optimum";
  plan.objective.optimal = false;
  EXPECT_TRUE(verify::judge(*problem, plan));
}

// Pooled queues: the bound holds, and the plan takes no more watts than the one of fewest GPUs.
TEST(GpuCosts, PooledPlansOfEnergyAreJudged) {
  auto problem = costed({}, "A100-80GB");
  ASSERT_TRUE(problem);
  problem->rule = {};
  problem->services.push_back(problem->services.front());
  problem->services[1].name = "t";
  problem->services[1].rate = Rps{75};
  const auto planner = find_planner("--planner", "exact");
  const auto made = make_plan(**planner, *problem, {});
  ASSERT_TRUE(made) << to_string(made.error());
  ASSERT_TRUE(made->plan);
  const plan::Objective energy = (**made->plan).objective;
  EXPECT_LE(energy.lower_bound_watts, energy.watts);
  EXPECT_GT(energy.lower_bound_watts, 0.5 * energy.watts);
}

}  // namespace
}  // namespace partita::decide
