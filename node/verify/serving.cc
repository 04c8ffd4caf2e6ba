#include "verify/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "hw/layout.h"
#include "verify/driven_queue.h"
#include "verify/findings.h"
#include "verify/groups.h"
#include "verify/paced_queue.h"
#include "verify/pipelines.h"
#include "verify/pool_memo.h"
#include "verify/replicas.h"
#include "verify/segment.h"
#include "verify/set_instance.h"
#include "verify/share.h"

namespace partita::verify {
namespace {

using plan::PlannedGpu;
using plan::PlannedInstance;
using plan::PlannedService;
using plan::Reason;
using plan::Service;

constexpr double kRelative = 1e-9;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool close(double a, double b) {
  return std::abs(a - b) <= kRelative * std::max(std::abs(a), std::abs(b));
}
// a > b by more than rounding.
bool above(double a, double b) { return a > b && !close(a, b); }

// A planned instance with everything that its words refer to; null where they refer to nothing.
struct Placed {
  const PlannedInstance* planned = nullptr;
  std::size_t gpu = 0;       // position in the plan
  std::size_t instance = 0;  // position on its GPU
  const plan::FleetEntry* entry = nullptr;
  const hw::MigProfile* shape = nullptr;
  const Service* service = nullptr;
  const profile::WorkloadProfile* workload = nullptr;
  const profile::ProfilePoint* point = nullptr;
  const profile::TokenEngine* engine = nullptr;  // of a language model

  // What it really carries: no more than it states, no more than was measured.
  double carried(bool measured_known = true) const {
    const double stated = planned->throughput.value;
    const bool known = measured_known && !engine;
    if (!point) return known || !std::isfinite(stated) ? 0 : std::max(0.0, stated);
    const double measured = point->throughput.value;
    return std::isfinite(stated) ? std::clamp(stated, 0.0, measured) : measured;
  }
  // Its weight when the service's load is shared out.
  double weight() const {
    const double stated = planned->throughput.value;
    return std::isfinite(stated) ? std::max(0.0, stated) : carried();
  }
};

// Judgements of the queueing rule, remembered: equal segments under equal load are common.
struct QueueQuestion {
  const profile::WorkloadProfile* workload = nullptr;
  int gpcs = 0, batch = 0, processes = 0;
  double load = 0, slo = 0, percentile = 0, stated = 0;
  plan::Dispatch server = plan::Dispatch::paced;
  auto operator<=>(const QueueQuestion&) const = default;
};
struct QueueAnswer {
  bool stable = true, meets_slo = true, states_truth = true;
  double latency = 0;     // ms; recomputed only when something is wrong
  double saturation = 0;  // rps
};

// The same for pools: services with equal instances, rates and objectives.
struct PoolQuestion {
  const profile::WorkloadProfile* workload = nullptr;
  std::vector<const profile::ProfilePoint*> parts;
  double load = 0, slo = 0, percentile = 0;
  const plan::Arrivals* arrivals = nullptr;  // where they are not Poisson
  auto operator<=>(const PoolQuestion&) const = default;
};

// One queue over the processes of an instance with no pace: driven, there is no formula.
QueueAnswer answer_by_driving(const QueueQuestion& asked, UnitArrivals& units) {
  const plan::PoolMember member{
      profile::batch_curve(*asked.workload, asked.gpcs, asked.processes, asked.batch),
      asked.processes};
  const plan::DispatchPolicy policy{.members = {member}, .paced = false, .slo = {}};
  const DrivenVerdict verdict =
      drive({policy, Rps{asked.load}, Millis{asked.slo}, asked.percentile}, units);
  const bool true_enough =
      !std::isfinite(asked.stated) || asked.stated * kPredictionFactor >= verdict.latency.value;
  return {verdict.stable, verdict.holds, true_enough, verdict.latency.value,
          full_rate(policy).value};
}

QueueAnswer answer(const QueueQuestion& asked, UnitArrivals& units) {
  if (asked.server == plan::Dispatch::shared_queue) return answer_by_driving(asked, units);
  // A queue per process is a paced queue of one process, whose pace is the batch itself.
  const int queues = asked.server == plan::Dispatch::per_process ? asked.processes : 1;
  const Segment segment{
      profile::batch_curve(*asked.workload, asked.gpcs, asked.processes, asked.batch),
      asked.processes / queues, Rps{asked.load / queues}};
  const PacedQueue queue(segment.curve, segment.processes, segment.load);
  QueueAnswer result;
  result.saturation = queues * PacedQueue::saturation(segment.curve, segment.processes).value;
  result.stable = queue.stable();
  if (!result.stable) return result;
  const auto keeps = [&](double ms) { return meets(segment, queue, Millis{ms}, asked.percentile); };
  const double limit = asked.slo * (1 + kPercentileTolerance);
  const double stated = asked.stated * kPredictionFactor;
  result.meets_slo = keeps(limit);
  // Of two limits only the smaller one needs to be asked when it is kept.
  result.states_truth =
      !std::isfinite(asked.stated) || (result.meets_slo && stated >= limit) || keeps(stated);
  if (!result.meets_slo || !result.states_truth)
    result.latency = latency(segment, queue, asked.percentile).value;
  return result;
}

bool is_mig(const PlannedInstance& planned) { return planned.share_percent == 0; }

int whole_gpcs(const hw::GpuModel& gpu) {
  int most = 0;
  for (const hw::MigProfile& profile : gpu.profiles) most = std::max(most, profile.gpcs);
  return most;
}

bool avoids(const Service& service, std::string_view other) {
  return std::ranges::count(service.avoid, other) > 0;
}

std::string size_of(const Placed& placed) {
  const double share = placed.planned->share_percent;
  if (share == 0) return fmt::format("{} GPCs", placed.shape->gpcs);
  return fmt::format("sizes around {:g} % of {} GPCs", share, placed.shape->gpcs);
}

// "2 x 1g.10gb b8 x3, 3g.40gb b32 x2".
std::string pool_text(const std::vector<Placed>& placed) {
  std::map<std::string, int> counts;
  for (const Placed& one : placed)
    ++counts[fmt::format("{} b{} x{}", one.planned->profile, one.planned->batch,
                         one.planned->processes)];
  std::string text;
  for (const auto& [point, count] : counts)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ",
                        count == 1 ? "" : fmt::format("{} x ", count), point);
  return text;
}

// Above idle, of an instance that is always busy.
double busy_watts(const Placed& placed) {
  const plan::GpuPower& power = *placed.entry->power;
  const bool mig = is_mig(*placed.planned);
  const double share = mig ? 1.0 * placed.shape->gpcs / placed.entry->gpu.compute_slices
                           : placed.planned->share_percent / 100;
  if (mig)
    if (const auto model = power.measured.find(placed.service->model);
        model != power.measured.end())
      if (const auto size = model->second.find(placed.shape->gpcs); size != model->second.end())
        return size->second.value;
  return (power.busy.value - power.idle.value) * share;
}

// None where something about them is unknown.
std::vector<plan::PoolMember> members_of(const std::vector<Placed>& placed) {
  std::vector<plan::PoolMember> members;
  for (const Placed& one : placed) {
    if (!one.point) return {};
    members.push_back({profile::batch_curve(*one.workload, one.shape->gpcs, one.planned->processes,
                                            one.planned->batch),
                       one.planned->processes});
  }
  return members;
}

// How queues and pools of a service do, each asked once.
class Queues {
 public:
  explicit Queues(PoolMemo* memo) : memo_(memo) {}
  PoolMemo* memo() const { return memo_; }

  const QueueAnswer& ask(const QueueQuestion& question) {
    auto found = answers_.find(question);
    if (found == answers_.end()) found = answers_.emplace(question, answer(question, units_)).first;
    return found->second;
  }

  // Instances as one pool under the service's rate; null where something about them is unknown.
  const DrivenVerdict* pool(const Service& service, const std::vector<Placed>& placed) {
    const double rate = plan::planning_rate(service).value, slo = service.slo.value;
    std::vector<plan::PoolMember> members = members_of(placed);
    PoolQuestion asked{nullptr, {}, rate, slo, service.percentile};
    const plan::Arrivals& arrivals = service.traffic.arrivals;
    if (!plan::is_poisson(arrivals)) asked.arrivals = &arrivals;
    for (const Placed& one : placed) {
      asked.workload = one.workload;
      asked.parts.push_back(one.point);
    }
    if (members.empty() || !(rate > 0) || !(slo > 0)) return nullptr;
    std::sort(asked.parts.begin(), asked.parts.end());
    auto known = pools_.find(asked);
    if (known == pools_.end()) {
      const auto limit = static_cast<plan::Nanos>(std::llround(slo * 1e6));
      known = pools_
                  .emplace(asked, driven({plan::pooled_policy(std::move(members), limit), Rps{rate},
                                          service.slo, service.percentile, arrivals}))
                  .first;
    }
    return &known->second;
  }

 private:
  // A policy of the pooled rule.
  DrivenVerdict driven(const DrivenQueue& queue) {
    if (memo_ == nullptr || !plan::is_poisson(queue.arrivals)) return drive(queue, units_);
    const PoolMemo::Key key = PoolMemo::key_of(queue);
    const DrivenVerdict* const found = memo_->driven.find(key);
    return found ? *found : memo_->driven.keep(key, drive(queue, units_));
  }

  std::map<QueueQuestion, QueueAnswer> answers_;
  std::map<PoolQuestion, DrivenVerdict> pools_;
  UnitArrivals units_;
  PoolMemo* const memo_;
};

// What the words of a plan refer to.
class Places {
 public:
  explicit Places(const plan::ServingProblem& problem) : problem_(problem) {
    for (std::size_t s = 0; s < problem.services.size(); ++s)
      service_index_.emplace(problem.services[s].name, s);
  }

  const plan::FleetEntry* fleet_entry(const std::string& model) const {
    const auto found = std::ranges::find_if(
        problem_.fleet, [&](const plan::FleetEntry& entry) { return entry.gpu.name == model; });
    return found == problem_.fleet.end() ? nullptr : &*found;
  }
  // Null: the problem has no such service.
  const Service* service(std::string_view name) const {
    const auto found = service_index_.find(name);
    return found == service_index_.end() ? nullptr : &problem_.services[found->second];
  }

  Placed resolve(const plan::ServingPlan& plan, std::size_t g, std::size_t i) {
    const PlannedInstance& planned = plan.gpus[g].instances[i];
    Placed placed{.planned = &planned, .gpu = g, .instance = i};
    placed.entry = fleet_entry(plan.gpus[g].model);
    if (placed.entry) {
      const int profile = placed.entry->gpu.profile_index(planned.profile);
      if (profile >= 0)
        placed.shape = &placed.entry->gpu.profiles[static_cast<std::size_t>(profile)];
    }
    placed.service = service(planned.service);
    if (!placed.shape || !placed.service) return placed;
    if (placed.service->tokens) {
      placed.engine = plan::engine_of(problem_, plan.gpus[g].model, *placed.service, planned);
      return placed;
    }
    const auto workload = placed.entry->profiles.find(placed.service->model);
    if (workload == placed.entry->profiles.end()) return placed;
    placed.workload = planned.share_percent == 0
                          ? &workload->second
                          : shared(workload->second, placed.shape->gpcs, planned.share_percent);
    placed.point =
        profile::find_point(*placed.workload, placed.shape->gpcs, planned.batch, planned.processes);
    return placed;
  }

 private:
  const profile::WorkloadProfile* shared(const profile::WorkloadProfile& measured, int gpcs,
                                         double percent) {
    if (!std::isfinite(percent)) percent = 0;  // check_shares says so
    const auto [at, fresh] = shared_.try_emplace({&measured, gpcs, percent});
    if (fresh) at->second = shared_workload(measured, gpcs, percent);
    return &at->second;
  }

  const plan::ServingProblem& problem_;
  std::map<std::string_view, std::size_t> service_index_;
  // What was measured, read for shares of a GPU of so many GPCs.
  std::map<std::tuple<const profile::WorkloadProfile*, int, double>, profile::WorkloadProfile>
      shared_;
};

// What a plan says of its GPUs, slices, price and watts, counted again.
class ObjectiveJudge {
 public:
  ObjectiveJudge(const plan::ServingProblem& problem, const plan::ServingPlan& plan,
                 const Places& places, Findings& findings)
      : problem_(problem), plan_(plan), places_(places), findings_(findings) {}

  // `placed` by service of the problem; `measured`: profiles and prices are known.
  void check(const std::vector<std::vector<Placed>>& placed, bool measured) {
    const plan::Objective& stated = plan_.objective;
    check_sum("gpus", stated.gpus, static_cast<double>(plan_.gpus.size()));
    double gpcs = 0;
    double cost = 0;
    for (const PlannedGpu& gpu : plan_.gpus) {
      const plan::FleetEntry* entry = places_.fleet_entry(gpu.model);
      cost += entry ? entry->price : kUnknown;
      if (entry && !std::ranges::all_of(gpu.instances, is_mig)) {
        gpcs += whole_gpcs(entry->gpu);  // nobody else can have the rest of it
        continue;
      }
      for (const PlannedInstance& instance : gpu.instances) {
        const int profile = entry ? entry->gpu.profile_index(instance.profile) : -1;
        gpcs += profile < 0 ? kUnknown
                            : 1.0 * entry->gpu.profiles[static_cast<std::size_t>(profile)].gpcs;
      }
    }
    check_sum("gpcs", stated.gpcs, gpcs);
    if (stated.cost != 0 && measured) check_sum("cost", stated.cost, cost);
    check_bound("lower_bound_gpus", stated.lower_bound_gpus, stated.gpus);
    check_bound("lower_bound_gpcs", stated.lower_bound_gpcs, stated.gpcs);
    if (stated.cost != 0) check_bound("lower_bound_cost", stated.lower_bound_cost, stated.cost);
    if (problem_.goal == plan::Goal::energy) check_watts(stated, placed);
    check_optimal(stated);
  }

 private:
  // A GPU with instances idles; an instance is busy for its part of its service's rate at what was
  // measured of it; the others of a counted fleet are off.
  void check_watts(const plan::Objective& stated,
                   const std::vector<std::vector<Placed>>& placed_of) {
    double watts = 0;
    std::map<const plan::FleetEntry*, int> on;
    for (const PlannedGpu& gpu : plan_.gpus) {
      const plan::FleetEntry* entry = places_.fleet_entry(gpu.model);
      if (!entry || !entry->power) return;  // said elsewhere
      ++on[entry];
      watts += entry->power->idle.value;
    }
    for (const plan::FleetEntry& entry : problem_.fleet)
      if (entry.count && entry.power)
        watts += std::max(0, *entry.count - on[&entry]) * entry.power->off.value;
    for (std::size_t s = 0; s < placed_of.size(); ++s) {
      double weights = 0, busy = 0;
      for (const Placed& placed : placed_of[s]) {
        if (!placed.point && !placed.engine) return;
        weights += placed.weight();
        busy +=
            placed.weight() * busy_watts(placed) *
            (placed.engine ? busy_seconds(*placed.service, *placed.engine, placed.planned->batch)
                           : 1 / placed.point->throughput.value);
      }
      if (weights > 0) watts += problem_.services[s].rate.value * busy / weights;
    }
    check_sum("watts", stated.watts, watts);
    check_bound("lower_bound_watts", stated.lower_bound_watts, stated.watts);
  }

  // Sums over something unknown are NaN and say nothing.
  void check_sum(const std::string& field, double stated, double right) {
    if (std::isfinite(stated) && std::isfinite(right) && !close(stated, right))
      findings_.report("objective", "objective " + field, stated, right, "stated, and counted");
  }
  void check_bound(const std::string& field, double bound, double value) {
    if (std::isfinite(bound) && std::isfinite(value) && above(bound, value))
      findings_.report("objective", "objective " + field, bound, value,
                       "a lower bound above the plan's own");
  }
  void check_optimal(const plan::Objective& stated) {
    if (!stated.optimal) return;
    if (stated.goal == plan::Goal::energy) {
      if (!close(stated.watts, stated.lower_bound_watts))
        findings_.report("objective", "objective optimal", stated.watts, stated.lower_bound_watts,
                         "claims an optimum above its lower bound on watts");
      return;
    }
    const bool fewest = stated.gpus == stated.lower_bound_gpus ||
                        (stated.cost != 0 && close(stated.cost, stated.lower_bound_cost));
    const bool smallest = stated.lower_bound_gpcs == 0 || stated.gpcs == stated.lower_bound_gpcs;
    if (!fewest)
      findings_.report("objective", "objective optimal", stated.gpus, stated.lower_bound_gpus,
                       "claims an optimum above its lower bound on GPUs");
    else if (!smallest)
      findings_.report("objective", "objective optimal", stated.gpcs, stated.lower_bound_gpcs,
                       "claims an optimum above its lower bound on GPCs");
  }

  const plan::ServingProblem& problem_;
  const plan::ServingPlan& plan_;
  const Places& places_;
  Findings& findings_;
};

std::vector<ReplicaPart> replica_parts(const std::vector<Placed>& placed) {
  std::vector<ReplicaPart> parts;
  for (const Placed& one : placed) parts.push_back({one.planned, one.engine, one.weight()});
  return parts;
}

// Instances of a set of models, each under its share of the requests.
std::vector<SetPart> set_parts(const Service& service, const std::vector<Placed>& placed) {
  std::vector<SetPart> parts;
  double total = 0;
  for (const Placed& one : placed) total += one.weight();
  for (const Placed& one : placed) {
    const Rps load = plan::planning_rate(service) * (one.weight() / total);
    if (one.point && one.planned->held >= 1 && load.value > 0 && std::isfinite(load.value))
      parts.push_back(
          {one.planned->profile, {load, profile::batch_time(*one.point), one.planned->held}});
  }
  return parts;
}

// Of services that pipelines use, each as the gateway will run it: with the SLO of its row.
Pools pools_of_steps(const plan::ServingProblem& problem,
                     const std::map<std::string_view, const PlannedService*>& rows,
                     const std::vector<std::vector<Placed>>& placed_of) {
  const std::set<std::string> steps = steps_of_pipelines(problem.services);
  Pools pools;
  for (std::size_t s = 0; s < placed_of.size(); ++s) {
    const Service& service = problem.services[s];
    const auto row = rows.find(service.name);
    if (!steps.contains(service.name) || row == rows.end()) continue;
    const double slo = row->second->slo.value;
    auto members = members_of(placed_of[s]);
    if (!members.empty() && slo > 0 && slo <= service.slo.value * (1 + kRelative))
      pools.emplace(service.name, plan::pooled_policy(std::move(members), std::llround(slo * 1e6)));
  }
  return pools;
}

class ServingJudge : Findings {
 public:
  // Without profiles only what the plan states itself is looked at.
  ServingJudge(const plan::ServingProblem& problem, const plan::ServingPlan& plan,
               bool measured = true, PoolMemo* memo = nullptr)
      : problem_(problem),
        plan_(plan),
        measured_(measured),
        placed_of_(problem.services.size()),
        lost_with_(lost_with(plan)),
        places_(problem),
        queues_(memo) {}

  std::vector<Reason> verdict() {
    check_numbers();
    check_gpu_indices();
    for (std::size_t g = 0; g < plan_.gpus.size(); ++g) check_gpu(g);
    check_fleet();
    check_rows();
    driven_ = judge_pipelines(problem_.services,
                              measured_ ? pools_of_steps(problem_, rows_, placed_of_) : Pools{},
                              queues_.memo());
    for (std::size_t s = 0; s < problem_.services.size(); ++s) check_service(s);
    ObjectiveJudge(problem_, plan_, places_, *this).check(placed_of_, measured_);
    return Findings::take();
  }

 private:
  std::string name_of(std::size_t gpu) const {
    return fmt::format("gpu {}", plan_.gpus[gpu].index);
  }
  std::string name_of(const Placed& placed) const {
    return fmt::format("{} instance {}", name_of(placed.gpu), placed.instance);
  }
  bool by_execution() const { return problem_.rule.kind == plan::SloRule::Kind::execution; }

  // ---- numbers ----

  void check_number(const std::string& subject, std::string_view field, double value) {
    if (!std::isfinite(value))
      report("not_finite", fmt::format("{} {}", subject, field), 0, 0, "not a finite number");
  }

  void check_numbers() {
    for (const PlannedGpu& gpu : plan_.gpus) {
      for (std::size_t i = 0; i < gpu.instances.size(); ++i) {
        const PlannedInstance& instance = gpu.instances[i];
        if (std::isfinite(instance.throughput.value) && std::isfinite(instance.latency.value) &&
            std::isfinite(instance.share_percent))
          continue;
        const std::string subject = fmt::format("gpu {} instance {}", gpu.index, i);
        check_number(subject, "throughput_rps", instance.throughput.value);
        check_number(subject, "latency_ms", instance.latency.value);
        check_number(subject, "share_percent", instance.share_percent);
      }
    }
    for (const PlannedService& row : plan_.services) {
      const std::string subject = "service " + row.name;
      check_number(subject, "rate_rps", row.rate.value);
      check_number(subject, "planned_rps", row.planned.value);
      check_number(subject, "slo_ms", row.slo.value);
      check_number(subject, "predicted_latency_ms", row.predicted_latency.value);
      check_number(subject, "percentile", row.percentile);
      check_number(subject, "headroom", row.traffic.headroom);
    }
    check_number("objective", "cost", plan_.objective.cost);
    check_number("objective", "lower_bound_cost", plan_.objective.lower_bound_cost);
    check_number("objective", "watts", plan_.objective.watts);
    check_number("objective", "lower_bound_watts", plan_.objective.lower_bound_watts);
    check_number("plan", "slo_rule", plan_.rule.fraction);
    check_number("stats", "planning_ms", plan_.stats.planning_ms);
    check_number("stats", "capacity_ms", plan_.stats.capacity_ms);
  }

  // ---- GPUs and instances ----

  void check_gpu_indices() {
    std::map<int, int> count;
    for (const PlannedGpu& gpu : plan_.gpus) ++count[gpu.index];
    for (const auto& [index, times] : count) {
      const std::string subject = fmt::format("gpu {}", index);
      if (index < 0) report("gpu_index", subject, index, 0, "GPUs are numbered from 0");
      if (times > 1)
        report("duplicate_gpu", subject, times, 1, "several GPUs of the plan have this index");
    }
  }

  void check_gpu(std::size_t g) {
    const PlannedGpu& gpu = plan_.gpus[g];
    std::vector<Placed> placed;
    for (std::size_t i = 0; i < gpu.instances.size(); ++i)
      placed.push_back(places_.resolve(plan_, g, i));
    if (const plan::FleetEntry* entry = places_.fleet_entry(gpu.model)) {
      const bool mig = std::ranges::all_of(gpu.instances, is_mig);
      mig ? check_layout(entry->gpu, placed) : check_shares(entry->gpu, placed);
    } else {
      report("unknown_gpu_model", name_of(g), 0, 0,
             fmt::format("the {} has no {}", measured_ ? "fleet" : "catalogue", gpu.model));
    }
    for (const Placed& one : placed) {
      check_instance(one);
      if (one.service) placed_of_[index_of(*one.service)].push_back(one);
    }
    check_neighbours(g, placed);
  }

  std::size_t index_of(const Service& service) const {
    return static_cast<std::size_t>(&service - problem_.services.data());
  }

  void check_layout(const hw::GpuModel& gpu, const std::vector<Placed>& placed) {
    std::vector<hw::PlacedProfile> known;
    std::vector<const Placed*> who;
    for (const Placed& one : placed) {
      if (!one.shape) {
        report("unknown_profile", name_of(one), 0, 0,
               fmt::format("{} has no profile {}", gpu.name, one.planned->profile));
        continue;
      }
      const auto profile = static_cast<int>(one.shape - gpu.profiles.data());
      known.push_back({profile, one.planned->start});
      who.push_back(&one);
    }
    for (const hw::Conflict& conflict : hw::conflicts(gpu, known))
      report(conflict.constraint, subject_of(conflict, placed.front().gpu, who), conflict.have,
             conflict.need, "on " + gpu.name);
  }

  // A GPU without MIG: every instance is a share of all of it.
  void check_shares(const hw::GpuModel& gpu, const std::vector<Placed>& placed) {
    const int whole = whole_gpcs(gpu);
    double percent = 0;
    double memory = 0;
    std::optional<Mib> there;
    for (const Placed& one : placed) {
      const double share = one.planned->share_percent;
      if (is_mig(*one.planned)) {
        report("mixed_gpu", name_of(one), 0, 0, "a MIG instance on a GPU that is shared whole");
        continue;
      }
      if (!(share > 0 && share <= 100))
        report("share", name_of(one), share, 100, "percent of the GPU, above 0 and at most 100");
      else
        percent += share;
      if (!one.shape)
        report("unknown_profile", name_of(one), 0, 0,
               fmt::format("{} has no profile {}", gpu.name, one.planned->profile));
      else if (one.shape->gpcs != whole || one.planned->start != 0)
        report("whole_gpu", name_of(one), one.shape->gpcs, whole,
               "a share is of the profile that covers the whole GPU, from slice 0");
      if (one.shape) there = one.shape->memory;
      if (one.point && one.point->memory) memory += one.point->memory->value;
    }
    if (above(percent, 100))
      report("shares", name_of(placed.front().gpu), 100, percent, "percent there, and given away");
    if (there && above(memory, there->value))
      report("memory", name_of(placed.front().gpu), there->value, memory,
             "MiB that the GPU has and its segments need");
  }
  // Conflicts name instances by their place among those of a known profile.
  std::string subject_of(const hw::Conflict& conflict, std::size_t g,
                         const std::vector<const Placed*>& who) const {
    const auto at = [&](int i) { return who[static_cast<std::size_t>(i)]; };
    if (conflict.first >= 0 && conflict.second >= 0) {
      const auto [a, b] = std::minmax(at(conflict.first)->instance, at(conflict.second)->instance);
      return fmt::format("{} instances {} and {}", name_of(g), a, b);
    }
    const bool of_gpu = conflict.first < 0 || conflict.constraint == "media_engines";
    return of_gpu ? name_of(g) : name_of(*at(conflict.first));
  }

  void check_instance(const Placed& placed) {
    const PlannedInstance& planned = *placed.planned;
    if (planned.processes > problem_.max_processes)
      report("processes", name_of(placed), planned.processes, problem_.max_processes,
             "more processes on an instance than allowed");
    if (!placed.service) {
      report("unknown_service", name_of(placed), 0, 0,
             fmt::format("the {} has no service {}", measured_ ? "problem" : "plan's own list",
                         planned.service));
    } else if (!measured_) {
      check_throughput(placed);
    } else if (placed.service->tokens) {
      check_engine(placed);
    } else if (placed.shape && !placed.point) {
      report("unknown_point", name_of(placed), 0, 0,
             fmt::format("model {} was not measured on {} with batch {} and {} processes",
                         placed.service->model, size_of(placed), planned.batch, planned.processes));
    } else if (placed.point) {
      check_point(placed);
    }
  }

  // An instance of a language model.
  void check_engine(const Placed& placed) {
    const PlannedInstance& planned = *placed.planned;
    if (!placed.engine || contradicts(planned.engine, placed.engine->name))
      return report(
          "unknown_point", name_of(placed), 0, 0,
          fmt::format("model {} was not measured as '{}' on {} x {}", placed.service->model,
                      planned.engine.configuration, planned.group, planned.profile));
    const std::optional<int> own = placed.shape ? placed.shape->sms : std::nullopt;
    const int units = own ? *own : placed.entry->gpu.total_sms.value_or(0);
    check_replica(planned, *placed.engine, units, name_of(placed), *this);
    check_throughput(placed);
  }

  void check_throughput(const Placed& placed) {
    const double stated = placed.planned->throughput.value;
    if (std::isfinite(stated) && stated <= 0)
      report("throughput", name_of(placed), stated, 0, "an instance must carry something");
  }

  void check_point(const Placed& placed) {
    const PlannedInstance& planned = *placed.planned;
    const profile::ProfilePoint& point = *placed.point;
    if (point.memory && placed.shape->memory && *point.memory > *placed.shape->memory)
      report("memory", name_of(placed), placed.shape->memory->value, point.memory->value,
             fmt::format("MiB that {} has and the processes need", placed.shape->name));
    const double stated = planned.throughput.value;
    if (std::isfinite(stated) && above(stated, point.throughput.value))
      report("throughput", name_of(placed), point.throughput.value, stated,
             is_mig(planned) ? "req/s measured, and stated"
                             : "req/s between measured sizes, and stated");
    check_throughput(placed);
    if (placed.service->models)
      check_set_room(*placed.service->models, planned, placed.shape->memory.value_or(Mib{}),
                     name_of(placed), *this);
    if (std::isfinite(planned.latency.value) && !close(planned.latency.value, point.latency.value))
      report("latency", name_of(placed), planned.latency.value, point.latency.value,
             is_mig(planned) ? "ms stated, and measured for a full batch"
                             : "ms stated, and between measured sizes, for a full batch");
    const double limit = problem_.rule.fraction * placed.service->slo.value;
    if (by_execution() && !(point.latency.value < limit))
      report("slo", name_of(placed), point.latency.value, limit,
             fmt::format("ms of execution; service {} needs less than {:g} x {:g} ms",
                         placed.service->name, problem_.rule.fraction, placed.service->slo.value));
  }

  void check_neighbours(std::size_t g, const std::vector<Placed>& placed) {
    std::map<std::string_view, int> count;
    for (const Placed& one : placed)
      if (one.service) ++count[one.service->name];
    for (const auto& [name, times] : count) {
      const Service& service = *places_.service(name);
      if (service.spread && times > 1)
        report("anti_affinity", fmt::format("service {} on {}", name, name_of(g)), times, 1,
               "its instances must be on different GPUs");
      for (const auto& [other, unused] : count) {
        if (other <= name || !(avoids(service, other) || avoids(*places_.service(other), name)))
          continue;
        report("anti_affinity", fmt::format("services {} and {} on {}", name, other, name_of(g)), 2,
               1, "must not share a GPU");
      }
    }
  }
  void check_fleet() {
    for (const plan::FleetEntry& entry : problem_.fleet) {
      const auto used = std::ranges::count(plan_.gpus, entry.gpu.name, &PlannedGpu::model);
      if (entry.count && used > *entry.count)
        report("fleet_count", "fleet " + entry.gpu.name, static_cast<double>(used), *entry.count,
               "GPUs used, and available");
    }
    for (const plan::FleetEntry& entry : problem_.fleet)
      check_groups(plan_, entry, problem_.fleet.size() == 1, *this);
    if (problem_.fleet.empty() || plan_.gpu_model == problem_.fleet.front().gpu.name) return;
    report("unknown_gpu_model", "plan", 0, 0,
           fmt::format("'{}' is not the fleet's first model", plan_.gpu_model));
  }

  // ---- services ----

  void check_rows() {
    std::map<std::string_view, int> count;
    for (const PlannedService& row : plan_.services) {
      rows_.emplace(row.name, &row);
      if (++count[row.name] == 2)
        report("duplicate_service", "service " + row.name, 2, 1, "several rows");
      else if (count[row.name] == 1 && places_.service(row.name) == nullptr)
        report("service_row", "service " + row.name, 0, 0, "the problem has no such service");
    }
  }

  void check_service(std::size_t s) {
    const Service& service = problem_.services[s];
    const std::vector<Placed>& placed = placed_of_[s];
    const auto row = rows_.find(service.name);
    if (service.pipeline) {
      if (row == rows_.end())
        return report("service_row", "service " + service.name, 0, 0, "no row");
      if (measured_) check_terms(service, *row->second);
      if (measured_) report_pipeline(service, driven_, row->second, *this);
      return;
    }
    const std::string subject = "service " + service.name;
    double members = 0;  // of groups of GPUs each
    for (const Placed& one : placed) members += 1.0 / std::max(1, one.planned->group);
    const auto replicas = static_cast<int>(std::lround(members));
    double carried = 0;
    for (const Placed& one : placed) carried += one.carried(measured_);
    if (placed.empty()) {
      report("missing_service", subject, 0, std::max(1, service.min_replicas), "no instance");
    } else {
      if (replicas < service.min_replicas)
        report("min_replicas", subject, replicas, service.min_replicas, "instances");
      const double needed = plan::planning_rate(service).value;
      if (above(needed, carried))
        report("rate", subject, carried, needed,
               service.traffic.headroom > 0 ? "req/s carried, and arriving with the headroom"
                                            : "req/s carried, and arriving");
    }
    if (row == rows_.end())
      report("service_row", subject, 0, 0, "no row");
    else if (measured_)
      check_row(service, *row->second, placed);
    else
      check_promise(*row->second, carried);
    if (measured_ && problem_.rule.kind == plan::SloRule::Kind::pooled) check_pool(service, placed);
    if (measured_ && problem_.rule.kind == plan::SloRule::Kind::queueing)
      check_queues(service, placed);
    if (problem_.survive > 0) check_losses(service, placed);
  }

  // What a row promises against what its instances state, without the profiles.
  void check_promise(const PlannedService& row, double carried) {
    const std::string subject = "service " + row.name;
    if (above(row.planned.value, carried))
      report("service_row", subject + " planned_rps", row.planned.value, carried,
             "stated, and carried by its instances");
    if (above(row.rate.value, row.planned.value))
      report("rate", subject, row.planned.value, row.rate.value, "req/s planned, and arriving");
    const double limit = by_execution() ? problem_.rule.fraction * row.slo.value
                                        : row.slo.value * (1 + kPercentileTolerance);
    if (row.predicted_latency.value > limit && !row.member && !(row.tokens && row.slo.value == 0))
      report("slo", subject, row.predicted_latency.value, limit, "ms predicted, and allowed");
  }

  // A field of a service's row against what it must be; silent about what is not finite.
  void check_field(const Service& service, std::string_view field, double stated, double right) {
    if (std::isfinite(stated) && std::isfinite(right) && !close(stated, right))
      report("service_row", fmt::format("service {} {}", service.name, field), stated, right,
             "stated, and recomputed");
  }

  // A plan promises what was asked for, term by term; of what an older version's plan leaves out
  // nothing can be said.
  void check_terms(const Service& service, const PlannedService& row) {
    check_field(service, "rate_rps", row.rate.value, service.rate.value);
    if (!service.member) check_field(service, "slo_ms", row.slo.value, service.slo.value);
    if (!plan::all_said(row)) return;
    plan::Terms asked = service;
    asked.rate = row.rate;
    asked.slo = row.slo;
    asked.dispatch = row.dispatch;  // the rule is the judge's own
    for (const plan::TermDifference& found : plan::differences(row, asked))
      report("service_row", fmt::format("service {} {}", service.name, found.term), 0, 0,
             fmt::format("the plan says {}, asked for is {}", found.one, found.other));
  }

  void check_row(const Service& service, const PlannedService& row,
                 const std::vector<Placed>& placed) {
    check_terms(service, row);
    double planned = 0;
    double slowest = 0;
    for (const Placed& one : placed) {
      planned += one.planned->throughput.value;
      slowest = one.point ? std::max(slowest, one.point->latency.value) : kUnknown;
    }
    check_field(service, "planned_rps", row.planned.value, planned);
    if (by_execution() && slowest > 0)
      check_field(service, "predicted_latency_ms", row.predicted_latency.value, slowest);
  }

  // A language model: every replica under its share of the requests.
  void check_replicas(const Service& service, const std::vector<Placed>& placed) {
    const double slowest =
        Replicas(service, queues_.memo()).check(replica_parts(placed), *this).value;
    const auto row = rows_.find(service.name);
    if (row == rows_.end()) return;
    const double stated = row->second->predicted_latency.value;
    if (std::isfinite(stated) && stated * kPredictionFactor < slowest)
      report("service_row", fmt::format("service {} predicted_latency_ms", service.name), stated,
             slowest, fmt::format("stated, and p{:g} in a simulation", service.percentile));
  }

  // The pooled rule.
  void check_pool(const Service& service, const std::vector<Placed>& placed) {
    if (service.tokens) return check_replicas(service, placed);
    const auto row = rows_.find(service.name);
    const plan::PlannedService* const planned = row == rows_.end() ? nullptr : row->second;
    if (service.models) return check_set_parts(service, planned, set_parts(service, placed), *this);
    if (service.member || driven_.contains(service.name))
      return report_pipeline(service, driven_, planned, *this);
    const DrivenVerdict* const found = queues_.pool(service, placed);
    if (found == nullptr) return;
    const DrivenVerdict& verdict = *found;
    const std::string subject = "service " + service.name;
    const double rate = plan::planning_rate(service).value, slo = service.slo.value;
    if (!verdict.stable) {
      report("overload", subject, rate, rate,
             "req/s arriving, which full batches on all its processes cannot carry");
    } else if (!verdict.holds) {
      report("slo", subject, 100 * (1 - verdict.late), service.percentile,
             fmt::format("percent within {:g} ms {} its pool ({}), and wanted", slo,
                         verdict.by_formula ? "in the long run, so near saturation, of"
                                            : "in a simulation of",
                         pool_text(placed)));
    }
    if (!verdict.stable || planned == nullptr) return;
    const double stated = planned->predicted_latency.value;
    if (std::isfinite(stated) && stated * kPredictionFactor < verdict.latency.value)
      report("service_row", subject + " predicted_latency_ms", stated, verdict.latency.value,
             fmt::format("stated, and p{:g} in a simulation", service.percentile));
    else if (std::isfinite(stated) && stated > slo * (1 + kPercentileTolerance))
      report("service_row", subject + " predicted_latency_ms", stated, slo,
             "states that it misses the SLO");
  }

  // The queueing rule: every instance under its share of the load that is planned for; what is
  // stated is of the rate alone.
  void check_queues(const Service& service, const std::vector<Placed>& placed) {
    double total = 0;
    for (const Placed& one : placed) total += one.weight();
    const auto row = rows_.find(service.name);
    const double stated = row == rows_.end() ? kUnknown : row->second->predicted_latency.value;
    double understated = 0;
    for (const Placed& one : placed) {
      const double load = plan::planning_rate(service).value * (one.weight() / total);
      if (!one.point || !(load > 0)) continue;
      QueueQuestion question{
          one.workload,      one.shape->gpcs,    one.point->batch, one.point->processes,  load,
          service.slo.value, service.percentile, stated,           problem_.rule.dispatch};
      const QueueAnswer& found = queues_.ask(question);
      question.load = service.rate.value * (one.weight() / total);
      const QueueAnswer& usual = queues_.ask(question);
      if (!found.stable)
        report("overload", name_of(one), load, found.saturation,
               "req/s that arrive, and that full batches back to back would carry");
      else if (!found.meets_slo)
        report("slo", name_of(one), found.latency, service.slo.value,
               fmt::format("ms: p{:g} of service {} at {:.6g} req/s", service.percentile,
                           service.name, load));
      if (!usual.states_truth) understated = std::max(understated, usual.latency);
    }
    if (understated > 0)
      report("service_row", fmt::format("service {} predicted_latency_ms", service.name), stated,
             understated, "stated, and recomputed");
    else if (stated > service.slo.value * (1 + kPercentileTolerance) && std::isfinite(stated))
      report("service_row", fmt::format("service {} predicted_latency_ms", service.name), stated,
             service.slo.value, "states that it misses the SLO");
  }

  // ---- losses ----

  // The service on what is left, once for every GPU that it uses; with one of a group all of it is
  // gone.
  void check_losses(const Service& service, const std::vector<Placed>& placed) {
    std::set<std::size_t> gpus;
    for (const Placed& one : placed) gpus.insert(one.gpu);
    Replicas replicas(service, queues_.memo());
    for (const std::size_t lost : gpus) {
      std::vector<Placed> left;
      for (const Placed& one : placed)
        if (std::ranges::count(lost_with_[lost], one.gpu) == 0) left.push_back(one);
      const std::string subject =
          fmt::format("service {} without {}", service.name, name_of(lost));
      if (service.tokens && measured_ && !left.empty())
        replicas.check_left(replica_parts(left), subject, *this);
      else
        check_loss(service, left, subject);
    }
  }

  void check_loss(const Service& service, const std::vector<Placed>& left,
                  const std::string& subject) {
    const double needed = plan::planning_rate(service).value;
    if (left.empty()) return report("survive", subject, 0, 1, "no instance is left");
    if (!measured_) return;
    if (problem_.rule.kind == plan::SloRule::Kind::pooled) {
      const DrivenVerdict* const verdict = queues_.pool(service, left);
      if (verdict && !verdict->stable)
        report("survive", subject, needed, needed,
               "req/s arriving, which full batches on what is left cannot carry");
      else if (verdict && !verdict->holds)
        report("survive", subject, 100 * (1 - verdict->late), service.percentile,
               fmt::format("percent within {:g} ms in a simulation of what is left, and wanted",
                           service.slo.value));
      return;
    }
    double carried = 0, total = 0;
    for (const Placed& one : left) {
      carried += one.carried();
      total += one.weight();
    }
    if (above(needed, carried))
      report("survive", subject, carried, needed, "req/s that the others carry, and that arrive");
    if (problem_.rule.kind != plan::SloRule::Kind::queueing) return;
    for (const Placed& one : left) {
      const double load = needed * (one.weight() / total);
      if (!one.point || !(load > 0)) continue;
      const QueueAnswer& found =
          queues_.ask({one.workload, one.shape->gpcs, one.point->batch, one.point->processes, load,
                       service.slo.value, service.percentile,
                       std::numeric_limits<double>::infinity(), problem_.rule.dispatch});
      if (found.stable && found.meets_slo) continue;
      report("survive", subject, found.latency, service.slo.value,
             fmt::format("ms: p{:g} on {} at {:.6g} req/s{}", service.percentile, name_of(one),
                         load, found.stable ? "" : ", which is more than it can sustain"));
    }
  }

  const plan::ServingProblem& problem_;
  const plan::ServingPlan& plan_;
  const bool measured_;
  std::map<std::string_view, const PlannedService*> rows_;
  std::vector<std::vector<Placed>> placed_of_;  // per service of the problem
  PipelineVerdicts driven_;
  const std::vector<std::vector<std::size_t>> lost_with_;  // per GPU of the plan (groups.h)
  Places places_;
  Queues queues_;
};

}  // namespace

std::vector<Reason> verify(const plan::ServingProblem& problem, const plan::ServingPlan& plan,
                           PoolMemo* memo) {
  return ServingJudge(problem, plan, true, memo).verdict();
}

std::vector<Reason> verify_alone(const hw::Catalogue& catalogue, const plan::ServingPlan& plan) {
  plan::ServingProblem stated;
  stated.rule = plan.rule;
  stated.survive = plan.survive;
  stated.max_processes = profile::kMaxProcesses;
  std::set<std::string_view> services, models;
  for (const PlannedService& row : plan.services)
    if (services.insert(row.name).second) {
      stated.services.push_back(row);
    }
  const auto add_model = [&](const std::string& name) {
    const hw::GpuModel* const model = catalogue.find(name);
    if (model == nullptr || !models.insert(name).second) return;
    stated.fleet.push_back({*model, {}, std::nullopt, 1});
    stated.fleet.back().gpu.name = name;  // plans may use a short name
  };
  add_model(plan.gpu_model);
  for (const PlannedGpu& gpu : plan.gpus) add_model(gpu.model);
  return ServingJudge(stated, plan, false).verdict();
}

}  // namespace partita::verify
