#include "decide/pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/check.h"
#include "plan/digest.h"
#include "plan/predictions.h"
#include "planners/serving/finish.h"
#include "planners/serving/pool_memo.h"
#include "sim/serving.h"

namespace partita::decide {
namespace {

using planners::serving::Outcome;

constexpr double kMostSplitRoom = 0.64;  // more rate, at the last

const plan::Service& service_named(const plan::ServingProblem& problem, const std::string& name) {
  const auto found = std::ranges::find(problem.services, name, &plan::Service::name);
  CHECK(found != problem.services.end());
  return *found;
}

std::set<std::string> steps_of(const plan::ServingProblem& problem) {
  std::set<std::string> steps;
  for (const plan::Service& service : problem.services)
    if (service.pipeline)
      for (const plan::PipelineStep& step : service.pipeline->steps) steps.insert(step.service);
  return steps;
}

// Every way from a step that reads from none to one that none reads from.
void add_ways(const plan::Service& pipeline, std::vector<SplitQuestion::Way>& ways) {
  const auto graph = plan::graph_of(*pipeline.pipeline);
  CHECK(graph.has_value());
  const std::size_t steps = graph->after.size();
  std::vector<std::vector<std::vector<std::string>>> to(steps);
  std::vector<bool> read(steps);
  for (const std::size_t s : graph->order) {
    const std::string& name = pipeline.pipeline->steps[s].service;
    if (graph->after[s].empty()) to[s] = {{name}};
    for (const std::size_t before : graph->after[s]) {
      read[before] = true;
      for (std::vector<std::string> way : to[before]) {
        way.push_back(name);
        to[s].push_back(std::move(way));
      }
    }
  }
  for (std::size_t s = 0; s < steps; ++s)
    for (std::vector<std::string>& way : to[s])
      if (!read[s]) ways.push_back({std::move(way), pipeline.slo});
}

std::vector<SplitQuestion::Way> ways_of(const plan::ServingProblem& problem) {
  std::vector<SplitQuestion::Way> ways;
  for (const plan::Service& service : problem.services)
    if (service.pipeline) add_ways(service, ways);
  return ways;
}

// The fastest batch measured of a model.
Millis fastest(const plan::ServingProblem& problem, const std::string& model) {
  double least = std::numeric_limits<double>::infinity();
  for (const plan::FleetEntry& entry : problem.fleet)
    if (const auto found = entry.profiles.find(model); found != entry.profiles.end())
      for (const profile::ProfilePoint& point : found->second.points)
        least = std::min(least, point.latency.value);
  return Millis{least};
}

double sum_of(const std::vector<std::string>& steps, const Shares& shares) {
  double sum = 0;
  for (const std::string& step : steps) sum += shares.at(step).value;
  return sum;
}

// The services that have instances, each step with its share.
plan::ServingProblem without_pipelines(const plan::ServingProblem& problem, const Shares& shares) {
  plan::ServingProblem asked = problem;
  std::erase_if(asked.services, [](const plan::Service& one) { return one.pipeline.has_value(); });
  for (plan::Service& service : asked.services)
    if (const auto share = shares.find(service.name); share != shares.end())
      service.slo = service.member ? share->second : std::min(service.slo, share->second);
  return asked;
}

// ---- what a step costs

// The compute slices that a step alone takes, ever fewer for longer shares.
std::vector<ShareCost> costs_of(const plan::ServingProblem& problem, const plan::Service& step,
                                Millis most, const PlanServices& plan_services) {
  const double least = fastest(problem, step.model).value;
  plan::ServingProblem alone = problem;
  alone.services = {step};
  alone.services.front().avoid = {};
  const auto planned = [&](Millis share) {
    alone.services.front().slo = step.member ? share : std::min(step.slo, share);
    return plan_services(alone);
  };
  const auto share_of = [&](int i) {
    const double part = 1.0 * i / (kSharesOfStep - 1);
    return Millis{1.2 * least * std::pow(most.value / (1.2 * least), part)};
  };
  // No share takes less than what is proven for the longest, if that is one GPU.
  const Outcome easiest = planned(share_of(kSharesOfStep - 1));
  const double bound = easiest.plan && easiest.plan->objective.gpus == 1
                           ? easiest.plan->objective.lower_bound_gpcs
                           : 0;
  std::vector<ShareCost> costs;
  for (int i = 0; i < kSharesOfStep && (costs.empty() || costs.back().gpcs > bound); ++i) {
    const Millis share = share_of(i);
    if (!(share.value <= most.value * (1 + 1e-9))) continue;
    const Outcome outcome = i == kSharesOfStep - 1 ? easiest : planned(share);
    if (!outcome.plan) continue;
    const double gpcs = outcome.plan->objective.gpcs;
    if (costs.empty() || gpcs < costs.back().gpcs) costs.push_back({share, gpcs});
  }
  return costs;
}

// ---- the cheapest choice

class SplitSearch {
 public:
  SplitSearch(const SplitQuestion& question, long budget) : question_(question), left_(budget) {
    for (const auto& [name, costs] : question.costs) steps_.push_back(&name);
    // The least that is still to come behind each step.
    least_.assign(steps_.size() + 1, 0);
    for (std::size_t s = steps_.size(); s-- > 0;)
      least_[s] = least_[s + 1] + question.costs.at(*steps_[s]).back().gpcs;
    for (const SplitQuestion::Way& way : question.ways) {
      double sum = 0;
      for (const std::string& step : way.steps) sum += question.costs.at(step).front().share.value;
      taken_.push_back(sum);
    }
  }

  Shares best() {
    if (tightest() <= 1) choose(0, 0);
    return best_;
  }

 private:
  double tightest() const {
    double most = 0;
    for (std::size_t w = 0; w < taken_.size(); ++w)
      most = std::max(most, taken_[w] / question_.ways[w].most.value);
    return most;
  }
  void lengthen(const std::string& step, double more) {
    for (std::size_t w = 0; w < taken_.size(); ++w)
      taken_[w] += more * static_cast<double>(std::ranges::count(question_.ways[w].steps, step));
  }

  // Steps from this one on have their shortest shares in the sums.
  void choose(std::size_t s, double gpcs) {
    if (left_-- <= 0) return;
    const double room = tightest();
    if (room > 1 + 1e-9 || gpcs + least_[s] > best_gpcs_ + 1e-9) return;
    if (s == steps_.size()) {
      if (gpcs > best_gpcs_ - 1e-9 && room >= best_room_) return;
      best_gpcs_ = gpcs;
      best_room_ = room;
      best_ = now_;
      return;
    }
    const std::string& step = *steps_[s];
    const std::vector<ShareCost>& costs = question_.costs.at(step);
    for (std::size_t c = costs.size(); c-- > 0;) {
      const double more = (costs[c].share - costs.front().share).value;
      now_[step] = costs[c].share;
      lengthen(step, more);
      choose(s + 1, gpcs + costs[c].gpcs);
      lengthen(step, -more);
    }
  }

  const SplitQuestion& question_;
  long left_;
  std::vector<const std::string*> steps_;
  std::vector<double> least_, taken_;
  Shares now_, best_;
  double best_gpcs_ = std::numeric_limits<double>::infinity();
  double best_room_ = std::numeric_limits<double>::infinity();
};

// What is left over is shared out, until the sum of the tightest way that a step is on is the SLO,
// times the stretch. Nothing gets more than `most`.
Shares filled(Shares shares, const std::vector<SplitQuestion::Way>& ways, double stretch,
              const Shares& most) {
  std::map<std::string, double> factor;
  for (const SplitQuestion::Way& way : ways) {
    const double more = stretch * way.most.value / sum_of(way.steps, shares);
    for (const std::string& step : way.steps) {
      const auto [at, fresh] = factor.emplace(step, more);
      at->second = std::min(at->second, more);
    }
  }
  for (auto& [name, share] : shares) share = std::min(most.at(name), share * factor.at(name));
  return shares;
}

// ---- one split, planned and judged

// The plan of the services that have instances, as one for all.
plan::ServingPlan with_rows(const plan::ServingProblem& problem, plan::ServingPlan plan,
                            const Shares& shares) {
  std::vector<plan::PlannedService> rows;
  for (const plan::Service& service : problem.services) {
    plan::PlannedService row = plan::row_of(service, plan.rule);
    const auto own = std::ranges::find(plan.services, service.name, &plan::PlannedService::name);
    if (own != plan.services.end()) {
      row = *own;
      const plan::Dispatch dispatch = row.dispatch;
      static_cast<plan::Terms&>(row) = service;
      row.dispatch = dispatch;
      if (service.member) row.slo = shares.at(service.name);
    } else if (row.pipeline) {
      row.planned = Rps{std::numeric_limits<double>::infinity()};
      for (plan::PipelineStep& step : row.pipeline->steps) {
        step.share = shares.at(step.service);
        const auto of = std::ranges::find(plan.services, step.service, &plan::PlannedService::name);
        row.planned = std::min(row.planned, row.rate * (of->planned / of->rate));
      }
    }
    rows.push_back(std::move(row));
  }
  plan.services = std::move(rows);
  plan.problem_digest.clear();
  return plan;
}

// What pipelines are planned with.
struct Asked {
  const plan::ServingProblem& problem;
  const PlanServices& plan_services;
  std::vector<SplitQuestion::Way> ways;
  PipelineMemos memos = {};
};

// All that the latencies of pipelines depend on: their terms, and the pools of their steps.
std::string key_of_latencies(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  const std::set<std::string> steps = steps_of(problem);
  plan::ServingProblem chained = problem;
  std::erase_if(chained.services, [&](const plan::Service& one) {
    return !one.pipeline && !steps.contains(one.name);
  });
  std::string key = plan::digest(chained);
  for (const plan::Service& one : chained.services)
    if (one.pipeline)
      for (const plan::PipelineStep& step : one.pipeline->steps) {
        key += fmt::format("|{}>{}*{}", one.name, step.service, step.fan_out);
        for (const auto& [input, tensor] : step.inputs) key += fmt::format("<{}={}", input, tensor);
        for (const auto& [output, tensor] : step.outputs)
          key += fmt::format(">{}={}", output, tensor);
      }
  for (const plan::PlannedService& row : plan.services)
    if (steps.contains(row.name)) key += fmt::format("|{}<{}", row.name, row.slo.value);
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const plan::PlannedInstance& one : gpu.instances)
      if (steps.contains(one.service))
        key += fmt::format("|{}:{}:{}:{}:{}:{}", one.service, gpu.model, one.profile, one.batch,
                           one.processes, one.share_percent);
  return key;
}

Result<std::map<std::string, Millis>> latencies_of(const plan::ServingProblem& problem,
                                                   const plan::ServingPlan& plan,
                                                   planners::serving::PoolMemo* memo) {
  const bool known = memo && std::ranges::all_of(problem.services, [](const plan::Service& one) {
                       return plan::is_poisson(one.traffic.arrivals) && !plan::adds_up(one);
                     });
  if (!known) return sim::pipeline_latencies(problem, plan);
  std::string key = key_of_latencies(problem, plan);
  if (const auto* found = memo->pipelines.find(key)) return *found;
  return memo->pipelines.keep(std::move(key), TRY(sim::pipeline_latencies(problem, plan)));
}

// With what was simulated of all steps together.
Result<plan::ServingPlan> with_latencies(const Asked& asked, plan::ServingPlan plan) {
  const auto seen = TRY(latencies_of(asked.problem, plan, asked.memos.planners));
  for (plan::PlannedService& row : plan.services)
    if (const auto found = seen.find(row.name); found != seen.end())
      row.predicted_latency = found->second;
  return plan;
}

// How long ways were tried; 0: the shares are those of the plan before.
std::string origin_of(double stretch) {
  if (stretch == 0) return "as in the plan before; the judge timed the whole way";
  return fmt::format(
      "ways of up to {:g} x the SLO were chosen from, since the steps are seldom "
      "slow at once; the judge timed the whole way",
      stretch);
}

std::string text_of(const plan::Service& pipeline, const Shares& shares, double stretch) {
  std::string text;
  double sum = 0;
  for (const plan::PipelineStep& step : pipeline.pipeline->steps) {
    text += fmt::format("{}{} {:.4g} ms", text.empty() ? "" : ", ", step.service,
                        shares.at(step.service).value);
    sum += shares.at(step.service).value;
  }
  return fmt::format(
      "pipeline {}: of {:g} ms its steps are planned with {} ({:.4g} ms together; {})",
      pipeline.name, pipeline.slo.value, text, sum, origin_of(stretch));
}

struct Tried {
  std::optional<plan::Judged<plan::ServingPlan>> plan;
  std::vector<plan::Reason> refusals;
  bool wrong = false;  // the judge found more than pools that are too tight
};

Tried tried(const Asked& asked, const Shares& shares, double stretch, double room) {
  plan::ServingProblem services = without_pipelines(asked.problem, shares);
  for (plan::Service& service : services.services)
    if (shares.contains(service.name))
      service.traffic.headroom = (1 + service.traffic.headroom) * (1 + room) - 1;
  Outcome outcome = asked.plan_services(services);
  if (!outcome.plan) return {std::nullopt, std::move(outcome.refusals)};
  auto plan = with_latencies(
      asked,
      with_rows(asked.problem, plan::with_predictions(services, *std::move(outcome.plan)), shares));
  if (!plan) return {std::nullopt, {{"pipeline", "plan", 0, 0, plan.error().message}}, true};
  for (const plan::Service& service : asked.problem.services)
    if (service.pipeline) plan->explanation.push_back(text_of(service, shares, stretch));
  auto verdict = verify::judge(asked.problem, asked.memos.judges, *std::move(plan));
  if (verdict) return {*std::move(verdict), {}};
  const auto& violations = verdict.error().violations;
  const bool tight = std::ranges::all_of(violations, [](const plan::Reason& one) {
    return one.constraint == "slo" || one.constraint == "service_row" ||
           one.constraint == "overload";
  });
  return {std::nullopt, violations, !tight};
}

}  // namespace

bool has_pipelines(const plan::ServingProblem& problem) {
  return std::ranges::any_of(problem.services,
                             [](const plan::Service& one) { return one.pipeline.has_value(); });
}

Shares cheapest_split(const SplitQuestion& question, long budget) {
  return SplitSearch(question, budget).best();
}

namespace {

// What the fastest others leave to each step, at most what its own clients are promised: no split
// gives it more.
Shares most_of(const Asked& asked) {
  const auto least = [&](const std::string& step) {
    return fastest(asked.problem, service_named(asked.problem, step).model).value;
  };
  Shares most;
  for (const SplitQuestion::Way& way : asked.ways) {
    double all = 0;
    for (const std::string& step : way.steps) all += least(step);
    for (const std::string& step : way.steps) {
      const plan::Service& service = service_named(asked.problem, step);
      Millis left{std::max(1e-3, (way.most.value - all + least(step)) * (1 + 1e-9))};
      if (!service.member) left = std::min(left, service.slo);
      const auto [at, fresh] = most.emplace(step, left);
      at->second = std::min(at->second, left);
    }
  }
  return most;
}

// The most that a share of a pipeline's requests can be of a step's, whose numbers are Poisson:
// they may be those that fan out most.
double most_of_fan_out(double share, double mean) {
  const double last = std::ceil(mean + 12 * std::sqrt(mean) + 40);
  double left = share, requests = 0;
  for (double n = last; n >= 1 && left > 0; --n) {
    const double so_many = std::min(left, std::exp(n * std::log(mean) - mean - std::lgamma(n + 1)));
    left -= so_many;
    requests += n * so_many;
  }
  return std::min(1.0, requests / mean);
}

// So many requests of a step are to be in time at least, in percent, whatever pipeline makes them.
void allow_what_pipelines_do(const plan::ServingProblem& problem, plan::Service& step) {
  for (const plan::Service& pipeline : problem.services) {
    if (!pipeline.pipeline) continue;
    const auto graph = plan::graph_of(*pipeline.pipeline);
    CHECK(graph.has_value());
    for (std::size_t s = 0; s < graph->requests.size(); ++s) {
      if (pipeline.pipeline->steps[s].service != step.name) continue;
      double late = 1 - pipeline.percentile / 100;
      if (graph->group[s] < graph->group.size()) late = most_of_fan_out(late, graph->requests[s]);
      step.percentile = std::min(step.percentile, std::max(1e-3, 100 * (1 - late)));
    }
  }
}

// With all of that for every step: no plan of the pipelines is better, and where there is none for
// this, there is none for them.
Outcome plan_easier(const Asked& asked) {
  plan::ServingProblem easier = without_pipelines(asked.problem, most_of(asked));
  for (plan::Service& service : easier.services) allow_what_pipelines_do(asked.problem, service);
  return asked.plan_services(easier);
}

Result<SplitQuestion> question_of(const Asked& asked) {
  SplitQuestion question{{}, asked.ways};
  for (const std::string& step : steps_of(asked.problem)) {
    Millis most{0};
    for (const SplitQuestion::Way& way : asked.ways)
      if (std::ranges::count(way.steps, step) > 0) most = std::max(most, way.most);
    const plan::Service& service = service_named(asked.problem, step);
    question.costs[step] = costs_of(asked.problem, service, most, asked.plan_services);
    if (question.costs[step].empty()) return bad_input(step, "no share of the SLO is enough");
  }
  return question;
}

Shares shares_by(Split split, const Asked& asked, const SplitQuestion& question, double stretch) {
  if (split == Split::planned) {
    SplitQuestion stretched = question;
    for (SplitQuestion::Way& way : stretched.ways) way.most = way.most * stretch;
    Shares shares = cheapest_split(stretched);
    return shares.empty() ? shares : filled(std::move(shares), asked.ways, stretch, most_of(asked));
  }
  Shares shares;
  for (const std::string& step : steps_of(asked.problem))
    shares[step] = split == Split::equal
                       ? Millis{1}
                       : fastest(asked.problem, service_named(asked.problem, step).model);
  return filled(std::move(shares), asked.ways, stretch, most_of(asked));
}

// A plan with the bounds of a problem that asks for less.
plan::ServingPlan with_bound(const plan::ServingProblem& problem, plan::ServingPlan plan,
                             const plan::Objective& bound) {
  plan::Objective& own = plan.objective;
  own.lower_bound_gpus = std::min(own.gpus, bound.lower_bound_gpus);
  own.lower_bound_gpcs =
      own.gpus == bound.lower_bound_gpus ? std::min(own.gpcs, bound.lower_bound_gpcs) : 0;
  own.lower_bound_cost = std::min(own.cost, bound.lower_bound_cost);
  own.optimal = planners::serving::meets_its_bounds(problem, own);
  return plan;
}

}  // namespace

Result<Made<plan::ServingPlan>> plan_pipelines(const plan::ServingProblem& problem,
                                               const PlanServices& plan_services, Split split,
                                               double most_stretch, PipelineMemos memos) {
  const Asked asked{problem, plan_services, ways_of(problem), memos};
  const Outcome easier = plan_easier(asked);  // first, since what steps cost takes many plans
  if (!easier.plan) return Made<plan::ServingPlan>{std::nullopt, easier.refusals};
  SplitQuestion question{{}, asked.ways};
  if (split == Split::planned) {
    auto costs = question_of(asked);
    if (!costs)
      return Made<plan::ServingPlan>{
          std::nullopt,
          {{plan::kNotFound, "service " + costs.error().context, 0, 0, costs.error().message}}};
    question = *std::move(costs);
  }
  Tried last;
  const auto accepted = [&](double stretch, double room) {
    const Shares shares = shares_by(split, asked, question, stretch);
    if (shares.empty()) return false;
    last = tried(asked, shares, stretch, room);
    return last.plan.has_value() || last.wrong;
  };
  bool found = std::ranges::any_of(
      kStretches, [&](double stretch) { return stretch <= most_stretch && accepted(stretch, 0); });
  for (double room = 0.02; !found && room <= kMostSplitRoom; room *= 2) found = accepted(1, room);
  if (last.wrong) return failed(refused_by_judge("planned pipelines", last.refusals));
  if (!last.plan) {
    for (plan::Reason& reason : last.refusals) reason.constraint = plan::kNotFound;
    if (last.refusals.empty())
      last.refusals = {{plan::kNotFound, "pipelines", 0, 0, "no split of the SLO is enough"}};
    return Made<plan::ServingPlan>{std::nullopt, std::move(last.refusals)};
  }
  auto verdict = verify::judge(problem, memos.judges,
                               with_bound(problem, **last.plan, easier.plan->objective));
  if (!verdict) return failed(refused_by_judge("planned pipelines", verdict.error().violations));
  return Made<plan::ServingPlan>{*std::move(verdict), {}};
}

plan::PlannedService shares_kept(const plan::PlannedService& row) {
  plan::PlannedService kept;
  kept.name = row.name;
  kept.slo = row.slo;
  kept.percentile = row.percentile;
  kept.pipeline = row.pipeline;
  return kept;
}

namespace {

// Nothing where a pipeline is another one than it was.
std::optional<Shares> shares_of(const plan::ServingProblem& problem,
                                const plan::ServingPlan& current) {
  Shares shares;
  for (const plan::Service& service : problem.services) {
    if (!service.pipeline) continue;
    const auto row = std::ranges::find(current.services, service.name, &plan::PlannedService::name);
    if (row == current.services.end() || !row->pipeline || row->slo != service.slo ||
        row->percentile != service.percentile ||
        !plan::same_graph(*row->pipeline, *service.pipeline))
      return std::nullopt;
    for (const plan::PipelineStep& step : row->pipeline->steps) {
      const auto [at, fresh] = shares.emplace(step.service, step.share);
      if (!(step.share.value > 0) || at->second != step.share) return std::nullopt;
    }
  }
  return shares;
}

}  // namespace

std::optional<plan::Judged<plan::ServingPlan>> plan_with_shares(const plan::ServingProblem& problem,
                                                                const plan::ServingPlan& current,
                                                                const PlanServices& plan_services,
                                                                const PlanServices& from_nothing,
                                                                PipelineMemos memos) {
  const auto shares = shares_of(problem, current);
  if (!shares) return std::nullopt;
  const Asked asked{problem, plan_services, ways_of(problem), memos};
  for (double room = 0; room <= kMostSplitRoom; room = std::max(0.02, 2 * room)) {
    const Tried made = tried(asked, *shares, 0, room);
    if (made.wrong) return std::nullopt;
    if (!made.plan) continue;
    const Outcome easier = plan_easier({problem, from_nothing, asked.ways});
    const plan::Objective bound = easier.plan ? easier.plan->objective : plan::Objective{};
    auto verdict = verify::judge(problem, memos.judges, with_bound(problem, **made.plan, bound));
    return verdict ? std::optional(*std::move(verdict)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace partita::decide
