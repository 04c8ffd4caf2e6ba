// NodePlanner: the plan of one node of a fleet, by the planner and the judge that a node's own
// agent has, from what runs there; and guesses of what a service takes, which say where to try
// first. Answers are pure; what was found of pools is remembered. One thread at a time.
#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "decide/made.h"
#include "fleet/brain/values.h"
#include "plan/serving.h"
#include "planners/serving/pool_memo.h"
#include "planners/serving/token_points.h"
#include "verify/pool_memo.h"

namespace partita::fleet {

class PlannerMemory;
class ReadTexts;

// What plans are made with; the same on all nodes that may lead.
struct FleetGround {
  std::vector<plan::FleetEntry> profiles;  // by GPU model; count and price are not looked at
  plan::SloRule rule = {};
  int max_processes = plan::kDefaultMaxProcesses;
  long node_budget = 20'000;  // of a planner's search, per node
  // Of brains in one thread that remember together; null: each has its own.
  std::shared_ptr<PlannerMemory> memory = {};
  std::shared_ptr<ReadTexts> texts = {};
};

// What serves on a node, or shall by its part, stays as it is where there is room beside it. Else
// nothing of it changes; or what others take over in turn, so that nothing is interrupted; or all.
enum class Moves { none, in_turn, any };

struct NodeAsk {
  const NodeRecord& node;
  const std::vector<plan::Service>& services;  // at the rates that the node shall carry
  int survive = 0;                             // GPUs of the node that may be lost
  const plan::ServingPlan* planned = nullptr;  // by its part; null: it has none
  Moves moves = Moves::any;
};

// Compute slices that a rate takes: in proportion, and at least so many.
struct Guess {
  double rate_per_slice = 0;  // 0: nothing was measured; infinite: any rate takes the least
  double least = 1;
  double slices(double rate_rps) const {
    if (rate_rps <= 0) return 0;
    return rate_per_slice > 0 ? std::max(least, rate_rps / rate_per_slice)
                              : std::numeric_limits<double>::infinity();
  }
};

// What was asked and found with one ground. It changes no answer: who asks again what was asked
// lately, of whichever node, is told the same sooner. One thread at a time.
class PlannerMemory {
 public:
  // So many answers are kept. A leader whose services find no room asks thousands of things at each
  // decision.
  explicit PlannerMemory(std::size_t answers = 16'384);
  // Of an ask, whatever may move for it; what is not known yet is missing.
  struct Known {
    std::optional<Result<plan::ServingPlan>> keeping;  // nothing of what serves changes
    bool is_all = false;                               // nothing else is to be asked
    std::optional<Result<plan::ServingPlan>> anew;     // all may change
    bool in_turn = false;                              // can `anew` follow what runs
    bool enough(Moves moves) const { return keeping && (is_all || moves == Moves::none || anew); }
    const Result<plan::ServingPlan>& answer(Moves moves) const;
  };
  // Of one that was not asked lately nothing is known. Valid until the next call.
  Known& of(const NodeAsk& ask);

  planners::serving::PoolMemo planners_pools;
  planners::serving::TokenOracle planners_tokens;
  verify::PoolMemo judges_pools;
  // By GPU model, model and SLO.
  std::map<std::tuple<std::string, std::string, double>, double, std::less<>> per_slice;

 private:
  // All of an ask that its answer hangs on, and the answer.
  struct Place {
    std::vector<NodeGpu> gpus;
    std::vector<plan::PlannedGpu> runs;
    std::vector<Carried> carries;
    std::optional<plan::ServingPlan> planned;
    bool is_of(const NodeAsk& ask) const;
  };
  struct Answered {
    std::shared_ptr<const Place> place;
    std::vector<plan::Service> services;
    int survive = 0;
    Known known;
    bool is_of(const NodeAsk& ask) const;
  };
  std::unordered_map<std::string, std::deque<Answered>> answered_;
  std::deque<std::string> order_;      // their keys, the oldest first
  std::shared_ptr<const Place> last_;  // much is asked of one node, one after another
  std::size_t most_;
};

class NodePlanner {
 public:
  explicit NodePlanner(FleetGround ground);

  // A judged plan on the usable GPUs of the node; infeasible, with the first reason. Without
  // services it is empty. Who asks again what it asked lately is told the same.
  Result<plan::ServingPlan> plan(const NodeAsk& ask);

  // Compute slices of the usable GPUs.
  double slices(const NodeRecord& node) const;
  // Compute slices that a plan takes.
  double slices(const plan::ServingPlan& plan) const;
  // A guess of what a service takes on the node's GPUs.
  Guess guess(const plan::Service& service, const NodeRecord& node);
  // Whether profiles of this GPU model are known.
  bool knows(const std::string& gpu_model) const { return entry_of(gpu_model) != nullptr; }
  // Why no GPU of these models carries any of it, a sentence; empty: one may, or nothing is known.
  std::string why_none(const plan::Service& service,
                       const std::vector<std::string>& gpu_models) const;
  long plans_made() const { return made_; }

 private:
  void find_out(const NodeAsk& ask, PlannerMemory::Known& known);
  void find_out(const plan::ServingProblem& problem, const plan::ServingPlan& current,
                const NodeAsk& ask, PlannerMemory::Known& known);
  const plan::FleetEntry* entry_of(const std::string& model) const;
  plan::ServingPlan empty_plan(const NodeRecord& node) const;
  double rate_per_slice(const plan::Service& service, const plan::FleetEntry& entry) const;
  double rate_of_steps(const plan::Service& pipeline, const plan::FleetEntry& entry) const;

  FleetGround ground_;
  std::shared_ptr<PlannerMemory> memory_;
  long made_ = 0;
};

// A service as a node is asked to carry it: at this rate, with its part of the replicas.
plan::Service piece_of(const plan::Service& service, double rate_rps, double need_rps);

}  // namespace partita::fleet
