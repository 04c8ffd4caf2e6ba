#include "control/sent_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/document.h"
#include "forms/serving_forms.h"
#include "plan/digest.h"

namespace partita::control {
namespace {

constexpr std::size_t kReasonsSaid = 3;

// The plan with the indexes of the node's GPUs, chosen so that the least changes.
Result<plan::ServingPlan> on_these_gpus(const GpuUse& use, plan::ServingPlan plan,
                                        const plan::ServingPlan& current) {
  std::map<std::string, std::vector<std::size_t>> wanted;
  for (std::size_t i = 0; i < plan.gpus.size(); ++i) {
    std::string& model = plan.gpus[i].model;
    if (model.empty()) model = plan.gpu_model;
    wanted[model].push_back(i);
  }
  for (const auto& [model, all] : wanted) {
    std::vector<plan::GpuTenancies> next, there;
    for (const std::size_t i : all) next.push_back(plan::tenancies_of(plan.gpus[i]));
    for (const plan::PlannedGpu& gpu : current.gpus)
      if (gpu.model == model) there.push_back(plan::tenancies_of(gpu));
    if (next.size() > there.size() || there.size() > plan::kMaxMatchedGpus)
      return failed({ErrorCode::infeasible,
                     fmt::format("the plan takes {} GPUs of model {}; {} of {} can be used here",
                                 next.size(), model, there.size(), use.usable.size()),
                     ""});
    const std::vector<int> matched = plan::match_gpus(next, there);
    for (std::size_t i = 0; i < all.size(); ++i)
      plan.gpus[all[i]].index = there[static_cast<std::size_t>(matched[i])].index;
  }
  std::ranges::sort(plan.gpus, {}, &plan::PlannedGpu::index);
  return plan;
}

Error refused(const std::vector<plan::Reason>& reasons) {
  std::string why;
  for (std::size_t i = 0; i < reasons.size() && i < kReasonsSaid; ++i)
    why += (i == 0 ? "" : "; ") + to_string(reasons[i]);
  if (reasons.size() > kReasonsSaid)
    why += fmt::format("; and {} more", reasons.size() - kReasonsSaid);
  return {ErrorCode::infeasible, "the judge refuses the plan: " + why, ""};
}

}  // namespace

bool is_plan(const std::string& text) {
  const auto document = parse_document("plan", text);
  const Node* kind = document ? document->root.find("kind") : nullptr;
  return kind != nullptr && kind->text == "ServingPlan";
}

Result<Planned> sent_plan(const World& world, const PlanGround& ground, PlanMemo& memo,
                          const std::string& text) {
  const std::vector<plan::Service>& services = ground.desired.services;
  const GpuUse& use = ground.node.use;
  auto parsed = TRY(forms::parse_plan("plan", text));
  if (!ground.node.known)
    return failed({ErrorCode::environment, "the node cannot be read now", ""});
  if (services.empty())
    return failed({ErrorCode::infeasible,
                   "no services are wanted: send those first that the plan is for", ""});
  if (plan::shares_gpus(parsed))
    return failed({ErrorCode::infeasible, "an agent makes MIG instances, no shares of GPUs", ""});
  const plan::ServingPlan current = current_plan(use, ground.plans.target, ground.node.assignment);
  auto placed = TRY(on_these_gpus(use, plan::with_terms(std::move(parsed), services), current));
  const Want want{services, ground.desired.survive, world.settings.priority};
  plan::ServingProblem problem = problem_of(world, use, want, false);
  plan::ServingProblem own = problem;  // as the file has them: what the plan was made from
  own.services = services;
  own.rule = placed.rule;
  if (placed.problem_digest == plan::digest(own)) placed.problem_digest.clear();
  const auto verdict = verify::judge(problem, placed);
  memo.count("person", verdict.has_value());
  if (!verdict) return failed(refused(verdict.error().violations));
  Planned planned;
  planned.changes = plan::changes_between(current, placed);
  planned.target.plan = **verdict;
  planned.target.survive = ground.desired.survive;
  for (const plan::Service& one : services)
    planned.target.rates.push_back({.service = one.name, .rate_rps = one.rate.value});
  for (const GpuUse::Gpu& gpu : use.usable) planned.target.gpus.push_back({gpu.index, gpu.uuid});
  if (const auto lent = lent_in_the_way(world, ground.node, planned.target); !lent.empty())
    return failed({ErrorCode::in_use, lent.begin()->second, ""});
  return planned;
}

}  // namespace partita::control
