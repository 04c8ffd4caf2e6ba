// The serving planners behind one table: a name, one line, the source, and a pure function.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "hw/packing.h"
#include "plan/serving.h"

namespace partita::planners::serving {

struct PoolMemo;
class TokenOracle;

// Packing rules by GPU model and profiles.
using KnownRules = std::map<std::pair<std::string, std::vector<int>>, hw::PackingRules>;

// What a planner may be told besides the problem.
inline constexpr int kMostPlannedGpus = 20'000;  // who needs more plans parts of the rates apart

struct Options {
  long node_budget = 2'000'000;    // search nodes; at the limit the gap is stated
  std::function<double()> cpu_ms;  // CPU clock for stats, injected by apps; may be empty
  std::function<void(const std::string&)>
      progress;                   // a line now and then on long solves; may be empty
  PoolMemo* pools = nullptr;      // of whoever plans again and again (pool_memo.h); may be null
  TokenOracle* tokens = nullptr;  // the same of language models (token_points.h)
  // Groups of GPUs that carry less per GPU than smaller ones may run, or be fewer to make.
  bool all_groups = false;
  KnownRules* rules = nullptr;    // of whoever plans the same fleet several times; may be null
  // Where more are needed for certain, nothing is searched for. A plan that is found may have more.
  int most_gpus = kMostPlannedGpus;
};

// A plan, or the reasons why there is none (every service that cannot be served, with what it
// misses by).
struct Outcome {
  std::optional<plan::ServingPlan> plan;
  std::vector<plan::Reason> refusals;  // not empty exactly when there is no plan
};

struct Planner {
  std::string name;
  std::string summary;  // one line
  std::string source;   // paper or "Partita"
  Outcome (*plan)(const plan::ServingProblem&, const Options&);
  // The rule that it plans by when none is asked for; none: the standard one.
  std::optional<plan::SloRule> own_rule = {};
  // Offers other plans on so many GPUs until one is taken (on_gpus.h); null: it has none.
  bool (*on_gpus)(const plan::ServingProblem&, int gpus, const Options&,
                  const std::function<bool(plan::ServingPlan)>& accept) = nullptr;
};

// All planners, in the order in which `partita planners` lists them; the first is the default.
const std::vector<Planner>& planners();

}  // namespace partita::planners::serving
