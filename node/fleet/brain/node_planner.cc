#include "fleet/brain/node_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/check.h"
#include "base/nearest.h"
#include "decide/keeping.h"
#include "hw/layout.h"
#include "planners/serving/in_place.h"

namespace partita::fleet {
namespace {

// A full batch that takes this share of the SLO is a guess of what a pool may run.
constexpr double kBatchShare = 0.5;
constexpr double kGuessedLoad = 0.8;  // of such batches back to back
constexpr std::size_t kPoolsKept = 100'000;
constexpr double kSameRate = 1e-6;       // of a rate, relative

// What is there, all usable GPUs in it, empty ones too.
plan::ServingPlan plan_of(const NodeRecord& node, bool without_lent) {
  plan::ServingPlan plan;
  for (const NodeGpu& gpu : node.gpus) {
    if (!gpu.unusable.empty() || (without_lent && !gpu.lent.empty())) continue;
    plan::PlannedGpu& one = plan.gpus.emplace_back(plan::PlannedGpu{gpu.index, gpu.model, {}});
    const auto there = std::ranges::find(node.runs, gpu.index, &plan::PlannedGpu::index);
    if (there != node.runs.end() && there->model == gpu.model) one.instances = there->instances;
  }
  if (!plan.gpus.empty()) plan.gpu_model = plan.gpus.front().model;
  return plan;
}

std::vector<decide::LentPlace> lent_of(const NodeRecord& node) {
  std::vector<decide::LentPlace> all;
  for (const NodeGpu& gpu : node.gpus)
    for (const hw::Placement& one : gpu.lent)
      if (gpu.unusable.empty())
        all.push_back({one,
                       fmt::format("lent {} at {} of gpu {}", one.profile, one.start, gpu.index),
                       gpu.index, gpu.model});
  return all;
}

// What is planned for places that are lent by now is planned again.
void leave_out_lent(plan::ServingPlan& plan, const NodeRecord& node,
                    const std::vector<plan::FleetEntry>& profiles) {
  std::set<std::string> gone;
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    const auto is = std::ranges::find(node.gpus, gpu.index, &NodeGpu::index);
    if (is == node.gpus.end() || is->lent.empty()) continue;
    const auto entry = std::ranges::find(
        profiles, is->model, [](const auto& one) -> const auto& { return one.gpu.name; });
    if (entry == profiles.end()) continue;
    std::vector<hw::PlacedProfile> placed;
    for (const hw::Placement& one : is->lent)
      placed.push_back({entry->gpu.profile_index(one.profile), one.start});
    for (const plan::PlannedInstance& one : gpu.instances) {
      placed.push_back({entry->gpu.profile_index(one.profile), one.start});
      if (!hw::conflicts(entry->gpu, placed).empty()) {
        gone.insert(one.service);
        placed.pop_back();
      }
    }
  }
  std::erase_if(plan.services, [&](const auto& row) { return gone.contains(row.name); });
  for (plan::PlannedGpu& gpu : plan.gpus)
    std::erase_if(gpu.instances, [&](const auto& one) { return gone.contains(one.service); });
}

// What its part says, and what serves beside: it may have been told to carry less, and not have
// done so. Nobody has said how slow that is; the judge looks whether it keeps the SLO.
plan::ServingPlan serving_on(const NodeAsk& ask, const std::vector<plan::FleetEntry>& profiles) {
  plan::ServingPlan all = ask.planned != nullptr ? *ask.planned : plan::ServingPlan{};
  leave_out_lent(all, ask.node, profiles);
  for (const Carried& one : ask.node.carries) {
    const auto terms = std::ranges::find(ask.services, one.service, &plan::Service::name);
    const auto row = std::ranges::find(all.services, one.service, &plan::PlannedService::name);
    const bool more = row == all.services.end() || row->rate.value < one.rate_rps * (1 - kSameRate);
    if (!more || terms == ask.services.end() || terms->pipeline) continue;
    if (row != all.services.end()) all.services.erase(row);
    plan::PlannedService& is = all.services.emplace_back();
    static_cast<plan::Terms&>(is) = *terms;
    is.rate = Rps{one.rate_rps};
    is.predicted_latency = terms->slo;
    for (plan::PlannedGpu& gpu : all.gpus)
      std::erase_if(gpu.instances, [&](const auto& its) { return its.service == one.service; });
    for (const plan::PlannedGpu& gpu : ask.node.runs)
      for (const plan::PlannedInstance& its : gpu.instances) {
        if (its.service != one.service) continue;
        auto at = std::ranges::find(all.gpus, gpu.index, &plan::PlannedGpu::index);
        if (at == all.gpus.end())
          at = all.gpus.insert(at, plan::PlannedGpu{gpu.index, gpu.model, {}});
        at->instances.push_back(its);
        is.planned += its.throughput;
      }
  }
  return all;
}

constexpr const char* kNoGpu = "none";  // a node may have none that works

// What of a GPU plans hang on.
bool same_for_plans(const NodeGpu& a, const NodeGpu& b) {
  return a.index == b.index && a.model == b.model && a.nvlink == b.nvlink &&
         a.unusable.empty() == b.unusable.empty() && a.lent == b.lent;
}

// Most of what asks differ by, but for what may move.
std::string key_of(const NodeAsk& ask) {
  std::string key;
  const auto add = [&](const std::string& name, double rate) {
    key += name + '=';
    key.append(reinterpret_cast<const char*>(&rate), sizeof rate);
  };
  for (const plan::Service& one : ask.services) add(one.name, one.rate.value);
  for (const Carried& one : ask.node.carries) add(one.service, one.rate_rps);
  for (const NodeGpu& gpu : ask.node.gpus)
    key += static_cast<char>(gpu.unusable.empty() ? gpu.lent.size() : -1);
  return key;
}

// What a node need not be told is left out; it judges the plan itself.
Result<plan::ServingPlan> told(const Result<decide::Made<plan::ServingPlan>>& made) {
  if (!made) return failed(made.error());
  if (!made->plan) return failed({ErrorCode::infeasible, to_string(made->refusals.front()), ""});
  plan::ServingPlan plan = **made->plan;
  plan.explanation.clear();
  plan.problem_digest.clear();
  plan.stats = {};
  return plan;
}

// With numbers of GPUs that the node has, each once: groups that stand side by side nowhere keep
// those that their planner counts by.
Result<plan::ServingPlan> on_node(Result<plan::ServingPlan> plan, const plan::ServingPlan& node) {
  if (!plan) return plan;
  std::set<int> free;
  for (const plan::PlannedGpu& gpu : node.gpus) free.insert(gpu.index);
  for (const plan::PlannedGpu& gpu : plan->gpus)
    if (free.erase(gpu.index) == 0)
      return failed({ErrorCode::infeasible, "groups of GPUs find no place side by side", ""});
  return plan;
}

}  // namespace

plan::ServingPlan NodePlanner::empty_plan(const NodeRecord& node) const {
  plan::ServingPlan plan;
  plan.gpu_model = node.gpus.empty() ? kNoGpu : node.gpus.front().model;
  plan.rule = ground_.rule;
  return plan;
}

PlannerMemory::PlannerMemory(std::size_t answers)
    : planners_pools(kPoolsKept), judges_pools(kPoolsKept), most_(answers) {}

bool PlannerMemory::Place::is_of(const NodeAsk& ask) const {
  return carries == ask.node.carries && std::ranges::equal(gpus, ask.node.gpus, same_for_plans) &&
         runs == ask.node.runs && (ask.planned == nullptr ? !planned : planned == *ask.planned);
}

bool PlannerMemory::Answered::is_of(const NodeAsk& ask) const {
  return survive == ask.survive && services == ask.services && place->is_of(ask);
}

const Result<plan::ServingPlan>& PlannerMemory::Known::answer(Moves moves) const {
  const bool kept =
      is_all || moves == Moves::none || (moves == Moves::in_turn && anew->has_value() && !in_turn);
  return kept ? *keeping : *anew;
}

PlannerMemory::Known& PlannerMemory::of(const NodeAsk& ask) {
  std::string key = key_of(ask);
  if (const auto found = answered_.find(key); found != answered_.end())
    for (Answered& one : found->second)
      if (one.is_of(ask)) return one.known;
  if (order_.size() == most_) {
    const auto oldest = answered_.find(order_.front());
    oldest->second.pop_front();
    if (oldest->second.empty()) answered_.erase(oldest);
    order_.pop_front();
  }
  if (!last_ || !last_->is_of(ask)) {
    Place place{ask.node.gpus, ask.node.runs, ask.node.carries, {}};
    if (ask.planned != nullptr) place.planned = *ask.planned;
    last_ = std::make_shared<const Place>(std::move(place));
  }
  order_.push_back(key);
  return answered_[std::move(key)]
      .emplace_back(Answered{last_, ask.services, ask.survive, {}})
      .known;
}

NodePlanner::NodePlanner(FleetGround ground)
    : ground_(std::move(ground)),
      memory_(ground_.memory ? ground_.memory : std::make_shared<PlannerMemory>()) {}

const plan::FleetEntry* NodePlanner::entry_of(const std::string& model) const {
  const auto found =
      std::ranges::find(ground_.profiles, model, [](const auto& entry) { return entry.gpu.name; });
  return found == ground_.profiles.end() ? nullptr : &*found;
}

Result<plan::ServingPlan> NodePlanner::plan(const NodeAsk& ask) {
  PlannerMemory::Known& known = memory_->of(ask);
  if (!known.enough(ask.moves)) find_out(ask, known);
  Result<plan::ServingPlan> answer = known.answer(ask.moves);
  if (!answer) answer.error().context = ask.node.node;  // it may be of another node like this
  return answer;
}

void NodePlanner::find_out(const NodeAsk& ask, PlannerMemory::Known& known) {
  plan::ServingPlan current = plan_of(ask.node, ask.survive != 0);
  plan::ServingProblem problem;
  problem.services = ask.services;
  problem.rule = ground_.rule;
  problem.max_processes = ground_.max_processes;
  problem.survive = ask.survive;
  std::map<std::string, std::map<int, std::vector<int>>> domains;
  std::erase_if(current.gpus, [&](const auto& gpu) { return entry_of(gpu.model) == nullptr; });
  bool several = false;
  for (const plan::PlannedGpu& gpu : current.gpus) {
    const auto is = std::ranges::find(ask.node.gpus, gpu.index, &NodeGpu::index);
    const int domain = is->nvlink.value_or(0);
    domains[gpu.model][domain].push_back(gpu.index);
    several = several || is->nvlink.has_value();
  }
  for (const auto& [model, of] : domains) {
    problem.fleet.push_back(*entry_of(model));
    problem.fleet.back().set_gpus(of, several);
    problem.fleet.back().price = 1;
  }
  known.is_all = ask.services.empty() || problem.fleet.empty();
  if (ask.services.empty()) {
    known.keeping = empty_plan(ask.node);
  } else if (problem.fleet.empty()) {
    known.keeping = Result<plan::ServingPlan>(
        failed({ErrorCode::infeasible, "no GPU of this node can be used", ""}));
  } else {
    for (plan::Service& one : problem.services)
      std::erase_if(one.avoid, [&](const std::string& name) {
        return std::ranges::count(ask.services, name, &plan::Service::name) == 0;
      });
    ++made_;
    find_out(problem, current, ask, known);
  }
}

void NodePlanner::find_out(const plan::ServingProblem& problem, const plan::ServingPlan& current,
                           const NodeAsk& ask, PlannerMemory::Known& known) {
  const decide::PlanOptions options{.node_budget = ground_.node_budget,
                                    .planners_pools = &memory_->planners_pools,
                                    .planners_tokens = &memory_->planners_tokens,
                                    .judges_pools = &memory_->judges_pools};
  if (ask.survive != 0) {  // who plans from what runs does not plan for a lost GPU
    known.is_all = true;
    auto plan = told(decide::make_plan(planners::serving::planners().front(), problem, options));
    // It counts its GPUs from 0: they become those of the node on which most of it runs.
    if (plan) plan = planners::serving::in_place_of(current, *std::move(plan), problem.fleet);
    known.keeping = on_node(std::move(plan), current);
    return;
  }
  const std::vector<decide::LentPlace> lent = lent_of(ask.node);
  if (!known.keeping) {
    const plan::ServingPlan serves = serving_on(ask, ground_.profiles);
    known.keeping =
        on_node(told(decide::make_plan_keeping(problem, current, serves, lent, options)), current);
    known.is_all = known.keeping->has_value() || serves.services.empty();
  }
  if (known.enough(ask.moves)) return;
  auto anew = decide::make_plan_beside(problem, current, std::nullopt, lent, options);
  if (anew)
    known.anew = on_node(told(std::move(anew->made)), current);
  else
    known.anew = Result<plan::ServingPlan>(failed(anew.error()));
  known.in_turn =
      known.anew->has_value() && decide::follows_in_turn(problem, current, **known.anew);
}

double NodePlanner::slices(const NodeRecord& node) const {
  double all = 0;
  for (const NodeGpu& gpu : node.gpus)
    if (const plan::FleetEntry* entry = entry_of(gpu.model); entry && gpu.unusable.empty()) {
      all += entry->gpu.compute_slices;
      for (const hw::Placement& one : gpu.lent)
        if (const int k = entry->gpu.profile_index(one.profile); k >= 0)
          all -= entry->gpu.profiles[static_cast<std::size_t>(k)].gpcs;
    }
  return all;
}

double NodePlanner::slices(const plan::ServingPlan& plan) const { return plan.objective.gpcs; }

// The best of the points whose batches leave time to wait for one.
double NodePlanner::rate_per_slice(const plan::Service& service,
                                   const plan::FleetEntry& entry) const {
  if (service.tokens) return 0;
  const auto found = entry.profiles.find(service.model);
  if (found == entry.profiles.end()) return 0;
  double best = 0, fallback = 0;
  for (const profile::ProfilePoint& point : found->second.points) {
    if (point.processes > ground_.max_processes || point.gpcs > entry.gpu.compute_slices) continue;
    const double rate = point.throughput.value / point.gpcs;
    if (profile::batch_time(point) <= service.slo * kBatchShare)
      best = std::max(best, rate);
    else if (profile::batch_time(point) < service.slo)
      fallback = std::max(fallback, rate);
  }
  return (best > 0 ? best : fallback) * kGuessedLoad;
}

// Of a pipeline: what its steps take together.
double NodePlanner::rate_of_steps(const plan::Service& pipeline,
                                  const plan::FleetEntry& entry) const {
  const auto graph = plan::graph_of(*pipeline.pipeline);
  CHECK(graph.has_value());
  double slices = 0;  // for a request per second
  for (std::size_t s = 0; s < graph->requests.size(); ++s) {
    const plan::Service step{.model = pipeline.pipeline->steps[s].service, .slo = pipeline.slo};
    const double rate = rate_per_slice(step, entry);
    if (rate <= 0) return 0;
    slices += graph->requests[s] / rate;
  }
  return 1 / slices;
}

Guess NodePlanner::guess(const plan::Service& service, const NodeRecord& node) {
  Guess best;
  const std::string* last = nullptr;
  for (const NodeGpu& gpu : node.gpus) {
    if (!gpu.unusable.empty() || (last && gpu.model == *last)) continue;
    last = &gpu.model;
    const plan::FleetEntry* entry = entry_of(gpu.model);
    if (entry == nullptr) continue;
    if (service.pipeline) {
      best.rate_per_slice = std::max(best.rate_per_slice, rate_of_steps(service, *entry));
      best.least = static_cast<double>(service.pipeline->steps.size());
      continue;
    }
    if (service.tokens && entry->engines.contains(service.model))  // the planner says how much
      return {std::numeric_limits<double>::infinity(), double(entry->gpu.compute_slices)};
    const auto key = std::tie(gpu.model, service.model, service.slo.value);
    auto known = memory_->per_slice.find(key);
    if (known == memory_->per_slice.end())
      known = memory_->per_slice.emplace(key, rate_per_slice(service, *entry)).first;
    best.rate_per_slice = std::max(best.rate_per_slice, known->second);
  }
  return best;
}

std::string NodePlanner::why_none(const plan::Service& service,
                                  const std::vector<std::string>& gpu_models) const {
  if (service.pipeline) {
    for (const plan::PipelineStep& step : service.pipeline->steps)
      if (const std::string why = why_none({.model = step.service, .slo = service.slo}, gpu_models);
          !why.empty())
        return why;
    return {};
  }
  std::vector<std::string> known;
  std::optional<std::pair<Millis, std::string>> fastest;  // batch, and the GPU
  for (const std::string& gpu : gpu_models) {
    const plan::FleetEntry* entry = entry_of(gpu);
    if (entry == nullptr) continue;
    if (service.tokens && entry->engines.contains(service.model)) return {};
    if (!service.tokens && rate_per_slice(service, *entry) > 0) return {};
    for (const auto& [model, profile] : entry->profiles) known.push_back(model);
    const auto its = entry->profiles.find(service.model);
    if (its == entry->profiles.end()) continue;
    for (const profile::ProfilePoint& point : its->second.points)
      if (const Millis takes = profile::batch_time(point); !fastest || takes < fastest->first)
        fastest.emplace(takes, gpu);
  }
  if (known.empty()) return {};
  if (service.tokens)
    return fmt::format("no points of the language model '{}' were measured (docs/llm.md)",
                       service.model);
  if (fastest)
    return fmt::format(
        "its SLO of {:.4g} ms is below the fastest batch of model '{}': {:.4g} ms "
        "on {}",
        service.slo.value, service.model, fastest->first.value, fastest->second);
  return fmt::format("there is no profile of model '{}'{}", service.model,
                     did_you_mean(service.model, known));
}

plan::Service piece_of(const plan::Service& service, double rate_rps, double need_rps) {
  plan::Service piece = service;
  piece.rate = Rps{rate_rps};
  piece.traffic.rates.clear();  // the rate is that of the moment
  const double share = need_rps > 0 ? std::min(1.0, rate_rps / need_rps) : 1;
  piece.min_replicas =
      std::max(1, static_cast<int>(std::ceil(service.min_replicas * share - 1e-9)));
  return piece;
}

}  // namespace partita::fleet
