// The vocabulary of serving: ServingProblem (services, SLO rule, fleet) and ServingPlan (which
// service runs with which batch and process count on which instance). Both are values; forms are in
// serving_forms.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "hw/gpu_model.h"
#include "hw/layout.h"
#include "plan/reason.h"
#include "plan/terms.h"
#include "profile/token_engine.h"
#include "profile/workload_profile.h"

namespace partita::plan {

inline constexpr int kDefaultMaxProcesses = 3;  // ParvaGPU, Section III-C

// pooled: at most 1 - percentile of the service's requests end later than the SLO when its
// instances work as one pool. queueing: the predicted end-to-end percentile latency of every
// instance at its share of the load is <= SLO, its queue being of the stated kind. execution: the
// execution latency of a chosen point is < fraction x SLO (batch filling and queueing ignored).
struct SloRule {
  enum class Kind { pooled, queueing, execution };
  Kind kind = Kind::pooled;
  double fraction = 0.5;                 // execution only
  Dispatch dispatch = Dispatch::pooled;  // pooled: pooled; queueing: another; execution: any
  bool operator==(const SloRule&) const = default;
};

inline constexpr SloRule kQueueing{SloRule::Kind::queueing, 0.5, Dispatch::paced};

// "pooled", "queueing", "execution:0.45" (a fraction in (0, 1]); bad_input otherwise.
Result<SloRule> parse_slo_rule(const std::string& text);
std::string to_string(const SloRule& rule);
// The rule for that server: pooled, or queueing.
SloRule rule_for(Dispatch dispatch);
// Whether a plan by the rule can keep its promise on its server at all.
bool fits_its_server(const SloRule& rule);

using Service = Terms;

// What a GPU draws: as long as it has an instance, `idle`, and above that every instance what it
// takes when always busy, times the share of the time in which it is.
struct GpuPower {
  Watts idle;    // with its instances, none of them busy
  Watts busy;    // all its compute slices always busy
  Watts off{0};  // of one that the fleet counts and the plan leaves out
  // By model and compute slices: above idle when always busy. Others: (busy - idle) x their share
  // of the GPU's slices.
  std::map<std::string, std::map<int, Watts>> measured = {};
  bool operator==(const GpuPower&) const = default;
};

// GPUs of a node that may work as a group, where nobody says it: the whole of an HGX or DGX node.
inline constexpr int kNodeGpus = 8;

// GPUs of one model that a plan may use, with the profiles measured on that model.
struct FleetEntry {
  hw::GpuModel gpu;
  profile::ProfileTable profiles;
  std::optional<int> count;            // absent: as many as needed
  double price = 1;                    // per GPU; the objective is the summed price
  std::optional<GpuPower> power = {};  // known in every entry where the goal is energy
  profile::TokenTable engines = {};    // of language models
  int node_gpus = kNodeGpus;           // of a node
  // NVLink domains, within which groups of GPUs are: so many of a node's GPUs each, by their
  // numbers (0: all); or, where these are known one by one, the numbers of the GPUs that there are.
  int nvlink = 0;
  std::vector<std::vector<int>> domains = {};  // ascending, also from one to the next

  int linked_gpus() const { return nvlink > 0 ? nvlink : node_gpus; }  // without `domains`
  int domain_of(int index) const;  // of a GPU; below 0: one that nothing is linked with
  // As many as a node has of the model: their numbers by domain; `several`: the node has others.
  void set_gpus(const std::map<int, std::vector<int>>& by_domain, bool several);
};

// What a plan has least of: GPUs, their summed price, or expected watts at the services' rates.
enum class Goal { gpus, cost, energy };
inline constexpr const char* kGoalWords[] = {"gpus", "cost", "energy"};

struct ServingProblem {
  std::vector<Service> services;
  std::vector<FleetEntry>
      fleet;  // at least one; `partita plan --gpu` makes exactly one with price 1
  SloRule rule;
  int max_processes = kDefaultMaxProcesses;
  // GPUs that may be lost, any of them: the others keep every SLO as they are. min_replicas is then
  // not asked of what is left.
  int survive = 0;
  // None: GPUs of one model, the price of several. Asked for: `cost` and `energy` only.
  std::optional<Goal> goal = {};
};
inline constexpr int kMostLost = 1;

// An instance of the plan with the segment (batch size, processes) that runs on it. With a share it
// is no MIG instance: the GPU has MIG off, its segments share it under MPS, `profile` is the one
// that covers the whole GPU, and start is 0.
struct PlannedInstance : hw::Placement {
  std::string service;
  int batch = 0;
  int processes = 0;
  Rps throughput;  // rate that the instance is planned to carry at most under the SLO rule
  Millis latency;  // execution latency of a full batch
  double share_percent = 0;     // of the whole GPU's compute; 0: a MIG instance
  bool predicted = false;       // by a law, not measured (predictions.h)
  std::string learned_on = {};  // the GPU models of such laws, with commas; may be unknown
  // Of a service with tokens: `batch` requests at once, how they are served, and on how many whole
  // GPUs of a node together, which stand one after another in the plan (each carries its part).
  profile::EngineName engine = {};
  int group = 1;
  // Of a service with tokens: SMs of the GPU on which prompts are computed, and those that decode,
  // side by side (lanes); 0: all do both.
  int prefill_units = 0, decode_units = 0;
  int held = 0;  // of a service with a set: models at once
  bool operator==(const PlannedInstance&) const = default;
};

struct PlannedGpu {
  int index = 0;
  std::string model;                       // catalogue name
  std::vector<PlannedInstance> instances;  // ascending start
  bool operator==(const PlannedGpu&) const = default;
};

// What becomes of a service when more arrives than it was planned for.
struct Overload {
  double factor = 1;   // times its rate
  double in_time = 0;  // share of the requests; those refused at once are not
  bool operator==(const Overload&) const = default;
};

// What keeps a replica of a language model from carrying more: a promise, the KV cache, or that no
// more requests at once were measured.
enum class TokenLimit { ttft, tpot, e2e, kv, sequences };

// A language model at its rate, as simulated.
struct TokenOutlook {
  double tokens_per_s = 0;                      // produced
  double gpus = 0;                              // that its instances take, by compute slices
  std::optional<double> cost_per_million = {};  // tokens produced; prices being per hour
  double kv_used = 0;                           // of the fullest replica's cache, at most
  TokenLimit limit = TokenLimit::ttft;          // of the replicas that carry most
  bool operator==(const TokenOutlook&) const = default;
};

// A service's terms, and what is planned for them.
struct PlannedService : Terms {
  Rps planned = {};  // sum of its instances' throughput
  // execution rule: worst execution latency; queueing: worst percentile latency at its load;
  // pooled: percentile latency of the pool.
  Millis predicted_latency = {};
  bool predicted = false;  // an instance of it is
  // What was asked for, where the plan is made for a part of that: `rate`.
  std::optional<Rps> wanted = {};
  std::vector<Overload> overload = {};  // as simulated; empty: not stated
  std::optional<TokenOutlook> outlook = {};
  std::optional<SetOutlook> set_outlook = {};
  // Equal decisions; what was simulated of them does not count.
  bool operator==(const PlannedService& other) const;
};
// The row of a service that the plan under this rule begins with: nothing planned yet.
PlannedService row_of(const Service& service, const SloRule& rule);

struct Objective {
  int gpus = 0;
  int gpcs = 0;
  double cost = 0;  // summed price of the GPUs
  int lower_bound_gpus = 0;
  int lower_bound_gpcs = 0;  // given that many GPUs
  double lower_bound_cost = 0;
  bool optimal = false;  // proven: (gpus or cost) and gpcs both equal their bounds; energy: watts
  std::optional<Goal> goal = {};            // as the problem's
  double watts = 0, lower_bound_watts = 0;  // goal energy; else 0: not stated
  bool operator==(const Objective&) const = default;
};

struct PlanStats {
  double planning_ms = 0;  // CPU time of the planner alone
  double capacity_ms =
      0;  // CPU time of turning profile points into rates (queueing rule), not part of planning_ms
  long nodes = 0;  // search nodes
};

struct ServingPlan {
  std::string gpu_model;  // of the first fleet entry
  std::string planner;
  SloRule rule;
  Objective objective;
  std::vector<PlannedGpu> gpus;
  std::vector<PlannedService> services;
  std::vector<std::string> explanation;  // why: one sentence each, for --explain
  PlanStats stats;
  std::string problem_digest = {};  // of what it answers (digest.h); empty: not stated
  int survive = 0;                  // as the problem's
  // Equal decisions; stats, explanation and digest do not count.
  bool operator==(const ServingPlan& other) const;
};

// Rows that an older version wrote without their terms get those of the services, all but the rate
// and the SLO that they say.
ServingPlan with_terms(ServingPlan plan, const std::vector<Service>& services);

// Whether any of its instances is a share of a whole GPU, and what is to be said of such plans.
bool shares_gpus(const ServingPlan& plan);
inline constexpr const char* kSharesJudged =
    "shares are judged between the measured MIG sizes, without what neighbours do to one another";

// The engine of a language model that an instance on that GPU model runs; null: none such.
const profile::TokenEngine* engine_of(const ServingProblem& problem, const std::string& gpu_model,
                                      const Service& service, const PlannedInstance& instance);

// How much of its service's rate an instance receives: proportional to its planned throughput.
Rps share_of(const PlannedService& service, const PlannedInstance& instance);

}  // namespace partita::plan
