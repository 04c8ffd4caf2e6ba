#include "planners/serving/token_points.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/index.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "hw/packing.h"
#include "planners/serving/exact.h"
#include "planners/serving/testing/token_cases.h"

namespace partita::planners::serving {
namespace {

plan::Service asking(const std::string& model, double ttft, double tpot, double in, double out) {
  plan::Service service{.name = model + " chat", .model = model, .rate = Rps{1}};
  service.tokens.emplace();
  service.tokens->ttft = Millis{ttft};
  service.tokens->tpot = Millis{tpot};
  service.tokens->lengths =
      plan::TokenPair{plan::LognormalTokens{in, 0.7}, plan::LognormalTokens{out, 0.6}};
  return service;
}

// A dozen kinds of service, of which problems are made, so that each is simulated once.
const std::vector<plan::Service>& kinds_of_service() {
  static const std::vector<plan::Service> kKinds = {
      asking("m3", 400, 30, 500, 100),   asking("m3", 1500, 60, 1000, 200),
      asking("m8", 800, 40, 700, 150),   asking("m8", 2500, 80, 300, 300),
      asking("m14", 1000, 50, 500, 200), asking("m14", 4000, 100, 1500, 150),
      asking("m32", 3000, 60, 600, 200), asking("m70", 4000, 60, 600, 200)};
  return kKinds;
}

TEST(TokenPoints, no_engine_carries_more_than_its_fluid_rate) {
  const plan::FleetEntry fleet = made_up_fleet();
  TokenOracle oracle;
  int carried = 0;
  for (const plan::Service& service : kinds_of_service())
    for (const profile::TokenEngine& engine : fleet.engines.at(service.model)) {
      const TokenRate found = oracle.rate(service, engine);
      EXPECT_LE(found.rate.value, fluid_rate(service, engine).value)
          << service.name << " on " << engine.mig_profile << " x " << engine.gpus;
      carried += found.rate.value > 0;
    }
  EXPECT_GT(carried, 30);
}

// Whatever is promised, and where an answer of one token has no time per token: what comes has to
// be worked off. The oracle: fixed lengths, of which the engine's work is a sum.
TEST(TokenPoints, no_engine_is_given_more_work_than_time) {
  const plan::FleetEntry fleet = made_up_fleet();
  TokenOracle oracle;
  int carried = 0;
  for (const int in : {300, 1000})
    for (const int out : {1, 2, 20, 200})
      for (const profile::TokenEngine& engine : fleet.engines.at("m8")) {
        plan::Service service = asking("m8", 0, 60, 1, 1);
        service.percentile = 90;
        service.tokens->lengths = plan::TokenPair{in, out};
        const TokenRate found = oracle.rate(service, engine);
        const profile::StepCost& cost = engine.spec.cost;
        const double prompt = in * cost.prompt_token + in * in / 2.0 * cost.prompt_context;
        const double n = engine.spec.sequences;
        const double token = cost.step / n + cost.sequence + cost.cached_token * in;
        const double step = 1.0 * in / engine.spec.step_tokens * cost.step;
        const double ms = std::max(prompt + step, prompt + (out - 1) * token);
        EXPECT_LT(found.rate.value * ms, 1000) << in << " " << out << " " << engine.mig_profile;
        carried += found.rate.value > 0;
      }
  EXPECT_GT(carried, 30);
}

// Rates of ever looser promises, the last of them none; `share` of the one before is enough.
void expect_no_lower_rates(const profile::TokenEngine& engine,
                           const std::function<plan::Service(double)>& promising,
                           const std::vector<double>& limits, double share) {
  TokenOracle oracle;
  double before = 0;
  for (const double limit : limits) {
    const plan::Service service = promising(limit);
    const double now = oracle.rate(service, engine).rate.value;
    EXPECT_GE(now, before * share) << engine.gpus << " x " << engine.mig_profile << ", " << limit
                                   << ": " << plan::to_string(*service.tokens);
    before = now;
  }
  EXPECT_GT(before, 0);
}

// Up to where the promise costs nothing, and the engine carries what it serves. The limit of
// requests at once hangs on TPOT, so that rates may differ by one that is tried and one that isn't.
TEST(TokenPoints, a_looser_promise_is_carried_at_no_lower_rate) {
  const plan::FleetEntry fleet = made_up_fleet();
  const std::vector<profile::TokenEngine>& engines = fleet.engines.at("m8");
  for (int i = 0; i < test_rounds(10); ++i) {
    const profile::TokenEngine& engine = engines.at(at(i) % engines.size());
    const auto by_ttft = [&](double ttft) { return asking("m8", ttft, 40, 700, 150); };
    expect_no_lower_rates(engine, by_ttft, {500, 1000, 2000, 4000, 8000, 20'000, 0}, 1);
    const auto by_tpot = [&](double tpot) { return asking("m8", 2000, tpot, 700, 150); };
    expect_no_lower_rates(engine, by_tpot, {20, 30, 40, 60, 100, 200, 0}, 0.97);
    const auto by_e2e = [&](double e2e) {
      plan::Service service = asking("m8", 0, 0, 700, 150);
      service.slo = Millis{e2e};
      return service;
    };
    expect_no_lower_rates(engine, by_e2e, {5000, 10'000, 20'000, 60'000, 0}, 1);
  }
}

// ---- what keeps more off ----

// What an engine carries when one limit is twice as far.
double without(plan::TokenLimit limit, plan::Service service, profile::TokenEngine engine) {
  if (limit == plan::TokenLimit::ttft) service.tokens->ttft = 2 * service.tokens->ttft;
  if (limit == plan::TokenLimit::tpot) service.tokens->tpot = 2 * service.tokens->tpot;
  if (limit == plan::TokenLimit::e2e) service.slo = 2 * service.slo;
  if (limit == plan::TokenLimit::kv) engine.spec.blocks *= 2;
  if (limit == plan::TokenLimit::sequences) engine.spec.sequences *= 2;
  return TokenOracle().rate(service, engine).rate.value;
}

// A service alone on one engine; whether the limit that its plan names is the one that, twice as
// far, lets it carry most, or as good as that.
bool names_its_limit(const plan::Service& service, const profile::TokenEngine& engine) {
  plan::ServingProblem problem;
  problem.fleet.push_back(made_up_fleet());
  problem.fleet[0].engines = {{service.model, {engine}}};
  problem.services.push_back(service);
  const Outcome outcome = plan_exact(problem, {});
  EXPECT_TRUE(outcome.plan);
  const plan::TokenLimit named = outcome.plan->services[0].outlook->limit;
  double most = 0;
  using enum plan::TokenLimit;
  for (const plan::TokenLimit limit : {ttft, tpot, e2e, kv, sequences})
    most = std::max(most, without(limit, service, engine));
  const double gained = without(named, service, engine);
  return gained >= 0.95 * most;
}

TEST(TokenPoints, the_limit_that_is_named_is_the_one_to_loosen) {
  const plan::FleetEntry fleet = made_up_fleet();
  int named = 0, all = 0;
  const int most = test_rounds(300);
  for (const plan::Service& service : kinds_of_service())
    for (profile::TokenEngine engine : fleet.engines.at(service.model)) {
      if (all == most) break;
      const int variant = all++ % 3;
      if (variant == 1) engine.spec.sequences = 12;
      if (variant == 2) engine.spec.blocks = 400;
      if (TokenOracle().rate(service, engine).rate.value > 0)
        named += names_its_limit(service, engine);
      else
        --all;
    }
  EXPECT_GE(all, std::min(30, most));
  EXPECT_GE(named, 0.9 * all);
}

// ---- exhaustive search ----

// What one service may use: requests/s that an instance of each class carries.
struct Ways {
  std::vector<double> rates;
  double demand = 0;
};

struct Brute {
  hw::PackingRules rules;   // of MIG profiles and whole GPUs
  std::vector<int> groups;  // GPUs per class: 1 for those of the rules, then of groups
  std::size_t whole = 0;    // the class of whole GPUs
  std::vector<Ways> services;
  int best = 40;

  std::size_t classes() const { return groups.size(); }
  // Whether fewer GPUs than the best so far hold them; those are the best then.
  void take(const std::vector<int>& counts) {
    const auto plain = static_cast<std::ptrdiff_t>(rules.profiles.size());
    int grouped = 0;
    for (std::size_t k = rules.profiles.size(); k < counts.size(); ++k)
      grouped += counts[k] * groups[k];
    while (best > grouped &&
           hw::pack(rules, {counts.begin(), counts.begin() + plain}, best - 1 - grouped))
      --best;
  }

  // All covers of service s from class k on, none with an instance to spare.
  void cover(std::size_t s, std::size_t k, double needed, std::vector<int>& counts) {
    if (needed <= 1e-12) {
      if (s + 1 == services.size())
        take(counts);
      else
        cover(s + 1, 0, services[s + 1].demand, counts);
      return;
    }
    if (k == classes()) return;
    const double rate = services[s].rates[k];
    const int most = rate > 0 ? static_cast<int>(std::ceil(needed / rate - 1e-12)) : 0;
    for (int n = most; n >= 0; --n) {
      counts[k] += n;
      cover(s, k + 1, needed - n * rate, counts);
      counts[k] -= n;
    }
  }
};

int fewest_gpus(const plan::ServingProblem& problem, TokenOracle& oracle) {
  const plan::FleetEntry& entry = problem.fleet.front();
  Brute brute;
  std::vector<int> profiles;
  for (const char* name : {"1g.10gb", "3g.40gb", "7g.80gb"})
    profiles.push_back(entry.gpu.profile_index(name));
  brute.rules = hw::packing_rules(entry.gpu, profiles);
  brute.groups = {1, 1, 1, 2, 4};
  for (const plan::Service& service : problem.services) {
    Ways ways{std::vector<double>(brute.groups.size(), 0), plan::planning_rate(service).value};
    for (const profile::TokenEngine& engine : entry.engines.at(service.model)) {
      const std::string name = engine.mig_profile.empty() ? "7g.80gb" : engine.mig_profile;
      std::size_t k = engine.gpus == 4 ? 4 : engine.gpus == 2 ? 3 : 0;
      while (k < 3 && entry.gpu.profiles[at(profiles[k])].name != name) ++k;
      ways.rates[k] = std::max(ways.rates[k], oracle.rate(service, engine).rate.value);
    }
    brute.services.push_back(std::move(ways));
  }
  std::vector<int> none(brute.groups.size(), 0);
  brute.cover(0, 0, brute.services.front().demand, none);
  return brute.best;
}

// Of a promise that nothing keeps, the reason names a number and the one it had to be, on the wrong
// side of each other, of the engines that the service may use.
TEST(TokenPoints, what_nothing_keeps_is_told_by_the_number_that_is_missed) {
  plan::ServingProblem problem;
  problem.fleet.push_back(made_up_fleet());
  plan::Service service = asking("m8", 4000, 100, 700, 150);
  const AloneTimes alone = alone_times(problem, service);
  service.tokens->ttft = alone.ttft * 0.9;  // of the mean prompt, alone
  const plan::Reason slow = missed_tokens(problem, service);
  EXPECT_EQ(slow.have, alone.ttft.value);
  EXPECT_EQ(slow.need, service.tokens->ttft.value);
  service.tokens->ttft = alone.ttft * 1.2;  // prompts differ: those above 1.2 of the mean are late
  const plan::Reason few = missed_tokens(problem, service);
  EXPECT_EQ(few.need, service.percentile);
  EXPECT_GT(few.have, 50);
  EXPECT_LT(few.have, few.need);
}

TEST(TokenPoints, plans_are_optimal_in_their_space_of_at_most_16_GPUs) {
  Rng rng(4);
  TokenOracle oracle;
  plan::ServingProblem problem;
  problem.fleet.push_back(made_up_fleet());
  for (auto& [model, engines] : problem.fleet.front().engines)
    std::erase_if(engines, [](const profile::TokenEngine& one) {
      return one.gpus == 8 || one.mig_profile == "2g.20gb" || one.mig_profile == "4g.40gb";
    });
  int planned = 0, grouped = 0;
  for (int round = 0; planned < 200 && round < 400; ++round) {
    problem.services.clear();
    const std::uint64_t count = 1 + rng.below(2);
    for (std::uint64_t s = 0; s < count; ++s) {
      plan::Service service = kinds_of_service()[at(static_cast<int>(rng.below(8)))];
      service.name = "s" + std::to_string(s);
      const bool large = service.model == "m70" || service.model == "m32";
      service.rate = Rps{(large ? 1.5 : 8) * (0.2 + rng.uniform())};
      problem.services.push_back(service);
    }
    Options options;
    options.tokens = &oracle;
    const Outcome outcome = plan_exact(problem, options);
    ASSERT_TRUE(outcome.plan) << round;
    if (outcome.plan->objective.gpus > 16) continue;
    ++planned;
    EXPECT_EQ(outcome.plan->objective.gpus, fewest_gpus(problem, oracle)) << round;
    EXPECT_LE(outcome.plan->objective.lower_bound_gpus, outcome.plan->objective.gpus);
    for (const plan::PlannedGpu& gpu : outcome.plan->gpus)
      grouped += gpu.instances.front().group > 1;
  }
  EXPECT_EQ(planned, 200);
  EXPECT_GT(grouped, 20);
}

}  // namespace
}  // namespace partita::planners::serving
