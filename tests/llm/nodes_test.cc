// Groups of GPUs in nodes and NVLink domains of any size, against every way to fill these.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "control/nvlinks.h"
#include "decide/serving.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/node_planner.h"
#include "hw/catalogue.h"
#include "planners/serving/token_points.h"
#include "verify/groups.h"

namespace partita::llm_test {
namespace {

// A model that was measured on 1, 2, 4 and 8 GPUs, or on some of these.
plan::ServingProblem problem_of(Rng& rng, bool domains = false) {
  plan::ServingProblem problem;
  plan::FleetEntry& entry = problem.fleet.emplace_back();
  entry.gpu = *hw::builtin_model("A100-80GB");
  entry.node_gpus = 1 + static_cast<int>(rng.below(12));
  entry.count = 1 + static_cast<int>(rng.below(30));
  if (domains && rng.below(2) == 0) {  // one node, of whose GPUs some are out
    for (int gpu = 0, ends = 1; gpu < 20; ++gpu) {
      if (--ends == 0) entry.domains.emplace_back(), ends = 1 + static_cast<int>(rng.below(9));
      if (rng.below(5) != 0) entry.domains.back().push_back(gpu);
    }
    entry.count = std::accumulate(
        entry.domains.begin(), entry.domains.end(), 0,
        [](int sum, const auto& domain) { return sum + static_cast<int>(domain.size()); });
  } else if (domains) {
    entry.nvlink = 1 + static_cast<int>(rng.below(6));
    entry.node_gpus = entry.nvlink * (1 + static_cast<int>(rng.below(3)));
  }
  for (const int gpus : {1, 2, 4, 8}) {
    if (rng.below(3) == 0) continue;
    profile::TokenEngine& engine = entry.engines["lm"].emplace_back();
    engine.name.configuration = "on " + std::to_string(gpus);
    engine.gpus = gpus;
    const double speed = gpus * (0.7 + 0.6 * rng.uniform());
    engine.spec.cost = {.step = 8 / speed, .sequence = 0.05, .prompt_token = 0.04 / speed};
    engine.spec.sequences = 64;
  }
  plan::Service& service = problem.services.emplace_back();
  service.name = "chat";
  service.model = "lm";
  service.percentile = 90;
  service.rate = Rps{2 + 60 * rng.uniform()};
  service.tokens = plan::TokenTerms{.ttft = Millis{1500}, .tpot = Millis{60}};
  service.tokens->lengths = plan::TokenPair{500, 100};
  return problem;
}

// Of every domain.
std::vector<int> rooms_of(const plan::FleetEntry& entry) {
  std::vector<int> rooms;
  for (const auto& domain : entry.domains) rooms.push_back(static_cast<int>(domain.size()));
  const int linked = entry.nvlink == 0 ? entry.node_gpus : entry.nvlink;
  for (int left = *entry.count; left > 0 && entry.domains.empty();) {
    int node = std::min(left, entry.node_gpus);
    left -= node;
    for (; node > 0; node -= linked) rooms.push_back(std::min(node, linked));
  }
  return rooms;
}

// Whether all of a plan's groups are on GPUs of one domain, which the node has.
bool within_domains(const plan::FleetEntry& entry, const plan::ServingPlan& plan) {
  const auto domain_of = [&](int gpu) {
    for (std::size_t d = 0; d < entry.domains.size(); ++d)
      for (const int one : entry.domains[d])
        if (one == gpu) return static_cast<int>(d);
    const int linked = entry.nvlink == 0 ? entry.node_gpus : entry.nvlink;
    return !entry.domains.empty() || gpu >= *entry.count ? -1 : gpu / linked;
  };
  for (std::size_t g = 0; g < plan.gpus.size();) {
    const int group = plan.gpus[g].instances.front().group, first = domain_of(plan.gpus[g].index);
    for (int k = group; k > 0; --k, ++g)
      if (group > 1 && (first < 0 || domain_of(plan.gpus[g].index) != first)) return false;
  }
  return true;
}

// Whether nodes hold groups of 8, 4, 2 and 1, by trying every node for each.
bool fits(std::vector<int> room, const int (&groups)[4], int which = 0, int placed = 0) {
  if (which == 4) return true;
  if (placed == groups[which]) return fits(room, groups, which + 1);
  std::vector<int> tried;
  for (int& left : room) {
    if (left < (8 >> which) || std::ranges::count(tried, left) > 0) continue;
    tried.push_back(left);
    left -= 8 >> which;
    if (fits(room, groups, which, placed + 1)) return true;
    left += 8 >> which;
  }
  return false;
}

// Fewest GPUs whose groups are within nodes; 0: there is no way.
int fewest_gpus(const plan::ServingProblem& problem) {
  const plan::FleetEntry& entry = problem.fleet[0];
  planners::serving::TokenOracle oracle;
  double rates[4] = {};
  for (const profile::TokenEngine& engine : entry.engines.at("lm"))
    for (int which = 0; which < 4; ++which)
      if (engine.gpus == 8 >> which)
        rates[which] = oracle.rate(problem.services[0], engine).rate.value;
  const std::vector<int> room = rooms_of(entry);
  int best = 0;
  for (int gpus = 1; gpus <= *entry.count && best == 0; ++gpus)
    for (int a = 0; 8 * a <= gpus; ++a)
      for (int b = 0; 8 * a + 4 * b <= gpus; ++b)
        for (int c = 0; 8 * a + 4 * b + 2 * c <= gpus; ++c) {
          const int groups[4] = {a, b, c, gpus - 8 * a - 4 * b - 2 * c};
          double carried = 0;
          for (int which = 0; which < 4; ++which) carried += groups[which] * rates[which];
          if (carried >= plan::planning_rate(problem.services[0]).value * (1 - 1e-12) &&
              fits(room, groups))
            best = gpus;
        }
  return best;
}

TEST(Nodes, groups_are_packed_within_them_as_well_as_can_be) {
  int planned = 0, refused = 0, uneven = 0;
  const int rounds = test_rounds(60);
  for (int round = 0; round < rounds; ++round) {
    Rng rng(static_cast<std::uint64_t>(round) + 300);
    const plan::ServingProblem problem = problem_of(rng);
    if (!problem.fleet[0].engines.contains("lm")) continue;
    const int fewest = fewest_gpus(problem);
    const auto made = decide::make_plan(**decide::find_planner("", "exact"), problem, {});
    ASSERT_TRUE(made) << round << ": " << made.error().message;  // the judge passes it
    EXPECT_EQ(made->plan ? (*made->plan)->objective.gpus : 0, fewest) << round;
    ++(made->plan ? planned : refused);
    if (!made->plan) continue;
    for (const plan::PlannedGpu& gpu : (*made->plan)->gpus) {
      EXPECT_LT(gpu.index, *problem.fleet[0].count) << round;
      uneven += problem.fleet[0].node_gpus % gpu.instances.front().group != 0;
    }
  }
  EXPECT_GT(planned, rounds / 4);
  EXPECT_GT(refused, rounds / 12);
  EXPECT_GT(uneven, 0);
}

// What is left: all GPUs that there are, without what served on one that is lost.
void lose_one(plan::FleetEntry& entry, plan::ServingPlan& current, Rng& rng) {
  const auto lost_with = verify::lost_with(current);
  const std::size_t lost = rng.below(current.gpus.size());
  const int gone = current.gpus[lost].index;
  for (const std::size_t g : lost_with[lost]) current.gpus[g].instances.clear();
  std::vector<plan::PlannedGpu> left;
  for (auto& domain : entry.domains) {
    *entry.count -= static_cast<int>(std::erase(domain, gone));
    for (const int gpu : domain) {
      const auto is = std::ranges::find(current.gpus, gpu, &plan::PlannedGpu::index);
      left.push_back({gpu, entry.gpu.name, {}});
      if (is != current.gpus.end()) left.back() = *is;
    }
  }
  current.gpus = left;
}

TEST(Nodes, groups_are_within_nvlink_domains_and_packed_as_well_as_can_be) {
  int planned = 0, refused = 0, grouped = 0;
  const int rounds = test_rounds(80);
  for (int round = 0; round < rounds; ++round) {
    Rng rng(static_cast<std::uint64_t>(round) + 700);
    plan::ServingProblem problem = problem_of(rng, true);
    const plan::FleetEntry& entry = problem.fleet[0];
    if (!entry.engines.contains("lm")) continue;
    const auto& exact = **decide::find_planner("", "exact");
    const auto made = decide::make_plan(exact, problem, {});
    ASSERT_TRUE(made) << round << ": " << made.error().message;  // the judge passes it
    EXPECT_EQ(made->plan ? (*made->plan)->objective.gpus : 0, fewest_gpus(problem)) << round;
    ++(made->plan ? planned : refused);
    if (!made->plan) continue;
    EXPECT_TRUE(within_domains(entry, **made->plan)) << round;
    grouped += (*made->plan)->gpus.front().instances.front().group > 1;
    // From what runs, at another rate and without a GPU.
    problem.services[0].rate = problem.services[0].rate * (0.3 + 0.6 * rng.uniform());
    plan::ServingPlan current = **made->plan;
    if (!entry.domains.empty()) lose_one(problem.fleet[0], current, rng);
    const auto again = decide::make_plan_again(problem, current, std::nullopt, {});
    ASSERT_TRUE(again) << round << ": " << again.error().message;
    EXPECT_EQ(again->made.plan ? (*again->made.plan)->objective.gpus : 0, fewest_gpus(problem));
    EXPECT_TRUE(!again->made.plan || within_domains(entry, **again->made.plan)) << round;
  }
  EXPECT_GT(planned, rounds / 4);
  EXPECT_GT(refused, rounds / 20);
  EXPECT_GT(grouped, rounds / 8);
}

// GPUs of a node in lists of any size as its settings say them, GPUs of different lists among each
// other at times; which GPU is in which as it follows from the lists.
control::NvLinks any_links(Rng& rng, int gpus) {
  control::NvLinks links;
  for (int gpu = 0, ends = 1; gpu < gpus; ++gpu) {
    if (--ends == 0) links.domains.emplace_back(), ends = 1 + static_cast<int>(rng.below(9));
    links.domains[rng.below(6) == 0 ? rng.below(links.domains.size()) : links.domains.size() - 1]
        .push_back(gpu);
  }
  std::erase_if(links.domains, [](const auto& one) { return one.empty(); });
  return links;
}

TEST(Nodes, of_a_fleet_hold_groups_in_domains_of_any_size_as_well_as_can_be) {
  int planned = 0, refused = 0, grouped = 0;
  const int rounds = test_rounds(80);
  for (int round = 0; round < rounds; ++round) {
    Rng rng(static_cast<std::uint64_t>(round) + 1900);
    plan::ServingProblem problem = problem_of(rng);
    plan::FleetEntry& entry = problem.fleet[0];
    if (!entry.engines.contains("lm")) continue;
    const int gpus = 2 + static_cast<int>(rng.below(15));
    const control::NvLinks links = any_links(rng, gpus);
    device::NodeState state;
    for (int gpu = 0; gpu < gpus; ++gpu) state.gpus.emplace_back().index = gpu;
    fleet::NodeRecord node{.node = "n"};
    entry.count = 0;
    const std::vector<int>* before = nullptr;
    for (const auto& [gpu, domain] : control::nvlink_domains(links, state)) {
      node.gpus.push_back({gpu, fmt::format("GPU-{}", gpu), entry.gpu.name, domain});
      const auto in = std::ranges::find_if(
          links.domains, [&](const auto& one) { return std::ranges::count(one, gpu) > 0; });
      if (std::exchange(before, &*in) != &*in) entry.domains.emplace_back();
      if (rng.below(5) == 0) {
        node.gpus.back().unusable = "it is out";
        continue;
      }
      entry.domains.back().push_back(gpu);
      ++*entry.count;
    }
    const auto read = fleet::parse_node_record("n", fleet::write(node));
    ASSERT_TRUE(read) << to_string(read.error());
    fleet::NodePlanner planner({.profiles = {problem.fleet}, .rule = problem.rule});
    const auto made = planner.plan({.node = *read, .services = problem.services});
    EXPECT_EQ(made ? made->objective.gpus : 0, fewest_gpus(problem)) << round;
    ++(made ? planned : refused);
    if (!made) continue;
    EXPECT_TRUE(within_domains(entry, *made)) << round;
    grouped += made->gpus.front().instances.front().group > 1;
  }
  EXPECT_GT(planned, rounds / 4);
  EXPECT_GE(refused, rounds / 20);  // none in a tenth of the rounds
  EXPECT_GT(grouped, rounds / 8);
}

// Of a node whose second GPU is taken out; and on more than the last node has.
TEST(Nodes, have_gaps_in_their_numbers_and_no_more_gpus_than_they_have) {
  Rng rng(1);
  plan::ServingProblem problem = problem_of(rng);
  plan::FleetEntry& entry = problem.fleet[0];
  plan::ServingPlan plan;
  const auto faults = [&](std::vector<int> numbers, int count, int node_gpus) {
    entry.count = count;
    entry.node_gpus = node_gpus;
    plan.gpus.clear();
    for (const int number : numbers) {
      plan::PlannedInstance one{"7g.80gb", 0, "a", 1, 1, Rps{1}, Millis{1}};
      one.group = 4;
      plan.gpus.push_back({number, entry.gpu.name, {one}});
    }
    verify::Findings findings;
    verify::check_groups(plan, entry, true, findings);
    return findings.take().size();
  };
  EXPECT_EQ(faults({0, 2, 3, 4}, 4, 8), 0U);
  EXPECT_EQ(faults({0, 1, 2, 3}, 3, 8), 2U);  // nowhere
  EXPECT_EQ(faults({8, 9, 10, 11}, 12, 8), 0U);
  EXPECT_EQ(faults({8, 9, 10, 11}, 10, 8), 1U);  // the last node has two
  EXPECT_EQ(faults({6, 7, 8, 9}, 16, 8), 1U);    // in two nodes
  entry.nvlink = 4;
  EXPECT_EQ(faults({12, 13, 14, 15}, 16, 8), 0U);
  EXPECT_EQ(faults({2, 3, 4, 5}, 16, 8), 1U);  // in two domains
  entry.nvlink = 2;
  EXPECT_EQ(faults({0, 1, 2, 3}, 4, 4), 2U);  // in two domains, and none holds it
  entry.domains = {{0, 2, 3, 5}, {6, 7, 8, 9}};
  EXPECT_EQ(faults({0, 2, 3, 5}, 8, 8), 0U);
  EXPECT_EQ(faults({6, 7, 8, 9}, 8, 8), 0U);
  EXPECT_EQ(faults({2, 3, 5, 6}, 8, 8), 1U);
  EXPECT_EQ(faults({0, 2, 3, 4}, 8, 8), 1U);  // one is not there
}

// Two GPUs of each are over, for whoever needs one or two.
TEST(Nodes, of_six_hold_one_group_of_four) {
  Rng rng(1);
  plan::ServingProblem problem = problem_of(rng);
  plan::FleetEntry& entry = problem.fleet[0];
  entry.node_gpus = 6;
  entry.count = 24;
  profile::TokenEngine engine;
  engine.name.configuration = "on 4";
  engine.gpus = 4;
  engine.spec.cost = {.step = 2, .sequence = 0.05, .prompt_token = 0.01};
  engine.spec.sequences = 64;
  entry.engines = {{"lm", {engine}}};
  planners::serving::TokenOracle oracle;
  const Rps each = oracle.rate(problem.services[0], engine).rate;
  const auto plan_at = [&](double groups) {
    problem.services[0].rate = each * groups;
    auto made = decide::make_plan(**decide::find_planner("", "exact"), problem, {});
    EXPECT_TRUE(made);
    return *std::move(made);
  };
  EXPECT_EQ((*plan_at(3.9).plan)->objective.gpus, 16);
  EXPECT_EQ((*plan_at(3.9).plan)->gpus.back().index, 21);
  EXPECT_FALSE(plan_at(4.1).plan);
  const auto refused = plan_at(40);  // by the fluid bound, too
  ASSERT_FALSE(refused.plan);
  EXPECT_EQ(refused.refusals.front().constraint, "fleet_count");
  entry.count = 3;
  const auto few = plan_at(0.5);
  ASSERT_FALSE(few.plan);
  EXPECT_EQ(few.refusals.front().constraint, "fleet_count");
  EXPECT_EQ(few.refusals.front().have, 3);
  EXPECT_EQ(few.refusals.front().need, 4);
  engine.gpus = 2;  // the same with one of two that is too slow
  engine.spec.cost.step = 100;
  entry.engines.at("lm").push_back(engine);
  const auto slow = plan_at(0.5);
  ASSERT_FALSE(slow.plan);
  EXPECT_EQ(slow.refusals.front().constraint, "fleet_count");
  EXPECT_EQ(slow.refusals.front().need, 4);
}

}  // namespace
}  // namespace partita::llm_test
