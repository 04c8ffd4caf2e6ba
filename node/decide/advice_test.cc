// Advice on latency objectives, and doubts about inputs.
#include "decide/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "decide/doubts.h"
#include "profile/testing/published.h"

namespace partita::decide {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Planner& exact_planner() { return **find_planner("--planner", "exact"); }

// Measured by hand: whole GPUs only. A batch of one takes 20 ms at 50 req/s; of two 38 ms at 52.6;
// of eight 50 ms at 160.
plan::ServingProblem whole_gpus(double rate, double slo_ms) {
  plan::ServingProblem problem;
  plan::Service& service = problem.services.emplace_back();
  service.name = "chat";
  service.model = "lm";
  service.rate = Rps{rate};
  service.slo = Millis{slo_ms};
  problem.rule = {plan::SloRule::Kind::execution, 1};
  profile::ProfileTable table;
  table["lm"] = {"lm",
                 {{7, 1, 1, Rps{50}, Millis{20}, {}},
                  {7, 2, 1, Rps{52.6}, Millis{38}, {}},
                  {7, 8, 1, Rps{160}, Millis{50}, {}}}};
  problem.fleet.push_back({*hw::builtin_catalogue().find("A100-80GB"), table, std::nullopt, 1});
  return problem;
}

std::vector<plan::SloAdvice> advice_on(const plan::ServingProblem& problem) {
  const auto made = make_plan(exact_planner(), problem, {});
  EXPECT_TRUE(made && made->plan);
  return advise(exact_planner(), problem, **made->plan, {});
}

TEST(RounderSlos, EndAtTwiceTheSlo) {
  EXPECT_THAT(rounder_slos(Millis{24.15}),
              ElementsAre(Millis{25}, Millis{30}, Millis{40}, Millis{50}));
  EXPECT_THAT(rounder_slos(Millis{1}), ElementsAre(Millis{1.2}, Millis{1.5}, Millis{2}));
  EXPECT_THAT(rounder_slos(Millis{0.08}),
              ElementsAre(Millis{0.1}, Millis{0.12}, Millis{0.15}, Millis{0.2}));
  EXPECT_THAT(rounder_slos(Millis{900}),
              ElementsAre(Millis{1000}, Millis{1200}, Millis{1500}, Millis{2000}));
}

// 300 req/s: 6 GPUs in batches of one, with more than 50 ms two.
TEST(Advise, NamesTheSmallestRoundSloThatSavesGpus) {
  const auto advice = advice_on(whole_gpus(300, 31));
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0],
            (plan::SloAdvice{"chat", Millis{31}, Millis{20}, Millis{20}, 6, {{Millis{60}, 2}}}));
}

// A language model on whole GPUs: the oracle plans with the easier promise itself.
TEST(Advise, SaysWhatAnEasierPromiseSaves) {
  plan::ServingProblem problem = whole_gpus(30, 0);
  problem.rule = {};
  plan::Service& service = problem.services[0];
  service.tokens = plan::TokenTerms{.ttft = Millis{300}, .tpot = Millis{40}};
  service.tokens->lengths =
      plan::TokenPair{plan::LognormalTokens{1000, 0.7}, plan::LognormalTokens{200, 0.6}};
  service.slo = Millis{6000};
  profile::TokenEngine& engine = problem.fleet[0].engines["lm"].emplace_back();
  engine.spec.cost = {.step = 8, .sequence = 0.05, .prompt_token = 0.04};
  engine.spec.sequences = 64;
  std::set<plan::Eased> eased;
  for (const plan::SloAdvice& advice : advice_on(problem)) {
    eased.insert(advice.eased);
    EXPECT_TRUE(advice.language);
    if (advice.eased == plan::Eased::ttft) {
      EXPECT_EQ(advice.fastest, Millis{8 + 40});
    }
    if (advice.eased == plan::Eased::percentile) {
      EXPECT_EQ(advice.percentile, service.percentile);
    }
    for (const plan::SloOption& option : advice.options) {
      plan::ServingProblem other = problem;
      plan::Service& easier = other.services[0];
      if (advice.eased == plan::Eased::ttft) easier.tokens->ttft = option.slo;
      if (advice.eased == plan::Eased::slo) easier.slo = option.slo;
      if (advice.eased == plan::Eased::percentile) easier.percentile = option.percentile;
      const auto made = make_plan(exact_planner(), other, {});
      ASSERT_TRUE(made && made->plan);
      EXPECT_EQ((*made->plan)->objective.gpus, option.gpus);
      EXPECT_LT(option.gpus, advice.gpus);
    }
  }
  EXPECT_THAT(eased, testing::Contains(plan::Eased::ttft));
  EXPECT_THAT(eased, testing::Contains(plan::Eased::percentile));
}

TEST(Advise, APlanOfALanguageModelSaysWhatATokenCosts) {
  plan::ServingProblem problem = whole_gpus(30, 0);
  problem.rule = {};
  plan::Service& service = problem.services[0];
  service.tokens = plan::TokenTerms{.ttft = Millis{900}, .tpot = Millis{40}};
  service.tokens->lengths =
      plan::TokenPair{plan::LognormalTokens{1000, 0.7}, plan::LognormalTokens{200, 0.6}};
  profile::TokenEngine& engine = problem.fleet[0].engines["lm"].emplace_back();
  engine.spec.cost = {.step = 8, .sequence = 0.05, .prompt_token = 0.04};
  engine.spec.sequences = 64;
  const auto made = make_plan(exact_planner(), problem, {});
  ASSERT_TRUE(made && made->plan);
  // 200 tokens a request, and no prices are known.
  const plan::TokenOutlook& outlook = *(*made->plan)->services[0].outlook;
  EXPECT_DOUBLE_EQ(outlook.tokens_per_s, 6000);
  EXPECT_DOUBLE_EQ(outlook.gpus, (*made->plan)->objective.gpus);
  EXPECT_FALSE(outlook.cost_per_million);
  problem.fleet[0].price = 3.6;  // an hour of a GPU: a thousandth a second
  const auto priced = make_plan(exact_planner(), problem, {});
  ASSERT_TRUE(priced && priced->plan);
  EXPECT_DOUBLE_EQ(*(*priced->plan)->services[0].outlook->cost_per_million,
                   (*priced->plan)->objective.gpus * 1e-3 * 1e6 / 6000);
}

TEST(Advise, SaysTheFirstSavingAndTheGreatest) {
  // 9 GPUs in batches of one, 8 of two, 3 of eight.
  const auto advice = advice_on(whole_gpus(420, 31));
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].gpus, 9);
  EXPECT_THAT(advice[0].options,
              ElementsAre(plan::SloOption{Millis{40}, 8}, plan::SloOption{Millis{60}, 3}));
}

// What it says is what plans with that SLO need, and no round SLO below it saves anything.
TEST(Advise, HoldsForEveryRule) {
  for (const char* rule : {"queueing", "execution:0.5"}) {
    plan::ServingProblem problem;
    plan::Service& service = problem.services.emplace_back();
    service.name = service.model = "densenet201";
    problem.rule = *plan::parse_slo_rule(rule);
    problem.fleet.push_back({*hw::builtin_catalogue().find("A100-80GB"),
                             profile::published_profiles(), std::nullopt, 1});
    const Millis fastest = *fastest_batch(problem, "densenet201");
    EXPECT_EQ(fastest, Millis{20});
    const bool execution = problem.rule.kind == plan::SloRule::Kind::execution;
    service.slo = Millis{execution ? 45.0 : 27.6};
    service.rate = Rps{execution ? 1300.0 : 600.0};
    const auto advice = advice_on(problem);
    ASSERT_EQ(advice.size(), 1u) << rule;
    EXPECT_EQ(advice[0].least, execution ? Millis{40} : Millis{20});
    const auto gpus = [&](Millis slo) {
      problem.services[0].slo = slo;
      return (*make_plan(exact_planner(), problem, {})->plan)->objective.gpus;
    };
    for (const plan::SloOption& option : advice[0].options) {
      EXPECT_EQ(gpus(option.slo), option.gpus) << rule;
      EXPECT_LT(option.gpus, advice[0].gpus);
    }
    for (const Millis slo : rounder_slos(advice[0].slo)) {
      if (slo >= advice[0].options.front().slo) break;
      EXPECT_GE(gpus(slo), advice[0].gpus) << rule;
    }
  }
}

TEST(Advise, IsSilentWithoutNeed) {
  EXPECT_THAT(advice_on(whole_gpus(300, 33)), IsEmpty());  // 1.65 x the fastest
  EXPECT_THAT(advice_on(whole_gpus(40, 31)), IsEmpty());   // one GPU
  EXPECT_THAT(advice_on(whole_gpus(53, 23)), IsEmpty());   // 2 GPUs, up to 50 ms too
  plan::ServingProblem many = whole_gpus(1, 31);
  many.services.resize(kMaxServicesForAdvice + 1, many.services[0]);
  for (std::size_t s = 0; s < many.services.size(); ++s)
    many.services[s].name = "s" + std::to_string(s);
  EXPECT_THAT(advice_on(many), IsEmpty());
}

// A tight service that hardly counts is not worth a plan; of four large ones three are tried.
TEST(Advise, IsLimitedToTheLargestServices) {
  plan::ServingProblem problem = whole_gpus(300, 31);
  problem.services.push_back(problem.services[0]);
  problem.services[1].name = "small";
  problem.services[1].rate = Rps{10};
  const auto advice = advice_on(problem);  // 6 GPUs and one
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].service, "chat");
  plan::ServingProblem four = whole_gpus(300, 31);
  four.services.resize(4, four.services[0]);
  for (std::size_t s = 0; s < 4; ++s) four.services[s].name = "s" + std::to_string(s);
  EXPECT_EQ(advice_on(four).size(), kMaxAdvised);
}

TEST(FastestBatch, IsOfWhatTheProblemAllows) {
  plan::ServingProblem problem = whole_gpus(1, 100);
  auto& points = problem.fleet[0].profiles["lm"].points;
  EXPECT_EQ(fastest_batch(problem, "lm"), Millis{20});
  points.push_back({7, 1, 5, Rps{500}, Millis{10}, {}});       // more processes than allowed
  points.push_back({5, 1, 1, Rps{500}, Millis{2}, {}});        // no such instance
  points.push_back({1, 1, 1, Rps{500}, Millis{2}, Mib{1e6}});  // no such memory
  EXPECT_EQ(fastest_batch(problem, "lm"), Millis{20});
  problem.max_processes = 5;
  EXPECT_EQ(fastest_batch(problem, "lm"), Millis{10});
  EXPECT_EQ(fastest_batch(problem, "ml"), std::nullopt);
}

// ---- doubts ----

std::string refused_units(double slo_ms) {
  plan::ServingProblem problem = whole_gpus(1, slo_ms);
  problem.services[0].line = 7;
  const auto checked = check_units(problem, "s.yaml");
  return checked ? "" : to_string(checked.error());
}

TEST(CheckUnits, RefusesSecondsForMilliseconds) {
  EXPECT_EQ(refused_units(0.05),
            "s.yaml:7: service 'chat': slo_ms 0.05 is 1/400 of the fastest batch of lm, 20 ms; in "
            "seconds? Then write slo_ms: 50");
  EXPECT_EQ(refused_units(0.4), "");  // 1/50: infeasible, and said so by the planner
  EXPECT_NE(refused_units(0.39), "");
  EXPECT_NE(refused_units(0.02), "");
  EXPECT_EQ(refused_units(0.019), "");  // not in seconds either
  EXPECT_EQ(refused_units(20), "");
}

std::vector<std::string> doubted(double rate, double slo_ms) {
  plan::ServingProblem problem = whole_gpus(rate, slo_ms);
  problem.services[0].line = 7;
  return doubts(problem, "s.yaml");
}

TEST(Doubts, AreAboutUnitsThatWereProbablyNotMeant) {
  EXPECT_THAT(doubted(1, 20), IsEmpty());
  EXPECT_THAT(doubted(1, 399'999), IsEmpty());
  EXPECT_THAT(doubted(1, 6.4),
              ElementsAre("s.yaml:7: service 'chat': slo_ms 6.4 is 1/3.12 of the fastest batch of "
                          "lm, 20 ms; in seconds? Then write slo_ms: 6400"));
  EXPECT_THAT(doubted(1, 400'000),
              ElementsAre("s.yaml:7: service 'chat': slo_ms 400000 is 20000 x the fastest batch of "
                          "lm, 20 ms; in microseconds? Then write slo_ms: 400"));
  EXPECT_THAT(doubted(160'000, 100), IsEmpty());
  EXPECT_THAT(doubted(240'000, 100),
              ElementsAre("s.yaml:7: service 'chat': rate_rps 240000 needs at least 1500 GPUs; per "
                          "minute? Then write rate_rps: 4000"));
  EXPECT_THAT(doubted(1.0 / 3600, 100), IsEmpty());
  EXPECT_THAT(doubted(0.0002, 100), ElementsAre(HasSubstr("less than a request an hour")));
}

TEST(Doubts, IncludeProfilesAndAreLimited) {
  plan::ServingProblem problem = whole_gpus(1, 100);
  problem.fleet[0].profiles["lm"].points[0].latency = Millis{40};  // 50 req/s mean 20 ms
  EXPECT_THAT(doubts(problem, "s.yaml"), ElementsAre(HasSubstr("profile of lm: ")));
  problem = whole_gpus(1, 6.4);
  problem.services.resize(20, problem.services[0]);
  const auto said = doubts(problem, "s.yaml");
  ASSERT_EQ(said.size(), kMaxDoubts + 1);
  EXPECT_EQ(said.back(), "and 12 more warnings of this kind");
}

TEST(Doubts, AreNoneAboutThePublishedScenarios) {
  plan::ServingProblem problem = whole_gpus(1, 100);
  problem.fleet[0].profiles = profile::published_profiles();
  problem.services[0].model = "bert";
  problem.services[0].slo = Millis{6434};  // S1, the longest SLO there is
  EXPECT_THAT(doubts(problem, "s.yaml"), IsEmpty());
}

}  // namespace
}  // namespace partita::decide
