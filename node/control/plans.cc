#include "control/plans.h"

#include <fmt/format.h>

#include <algorithm>

#include "act/change_forms.h"
#include "control/sent_plan.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

// The key of the notice that this change waits for a person.
std::string waits_key(long change) { return "waits:" + std::to_string(change); }
constexpr const char* kReduced = "reduced";  // the notice that a plan serves a part only

// Why services may not use a GPU of a plan.
std::string why_not_used(const GpuUse& use, const GpuNamed* gpu, int index) {
  if (gpu != nullptr) {
    if (const auto why = use.not_used.find(gpu->uuid); why != use.not_used.end())
      return why->second;
    if (std::ranges::count(use.batch, gpu->uuid, &GpuUse::Gpu::uuid) > 0)
      return fmt::format("gpu {} is for batches", index);
  }
  return fmt::format("gpu {} is not there any more", index);
}

std::string gpus_of(const GpuUse& use) {
  std::string all;
  for (const GpuUse::Gpu& gpu : use.usable) all += " " + gpu.uuid;
  return all;
}

}  // namespace

ChangeNow shown_of(const World& world, const Target& target, const PlanGround& ground,
                   PlanMemo& memo) {
  ChangeNow shown;
  shown.number = target.change;
  shown.cause = target.cause;
  shown.planned_ms = target.planned_ms;
  shown.plan = target.plan;
  shown.explanation = target.plan.explanation;
  if (!ground.node.known) return shown;
  const auto verdict =
      judge_target(world, ground.node.use, {ground.desired.services, target}, memo);
  if (!verdict) return shown;
  if (auto change = change_to(world, ground.node, wanted_of(ground.node, *verdict, target)))
    shown.change = *std::move(change);
  return shown;
}

void Plans::look(const PlanGround& ground) {
  ask_again(ground);
  if (!kept_.proposal) return;
  if (ground.mode == Mode::automatic) {
    kept_.proposal->unasked = true;
    adopt(Target(*kept_.proposal), "agent", "the mode is automatic", ground.now_ms);
  } else if (kept_.proposal->services != ground.desired.key ||
             !same_gpus_usable(*kept_.proposal, ground.node.use) ||
             (!proposed_on_.empty() && proposed_on_ != gpus_of(ground.node.use))) {
    drop("it no longer fits: services or GPUs have changed");
  }
}

// What was decided while nobody was asked, and was never made, waits for a person where one is.
void Plans::ask_again(const PlanGround& ground) {
  if (ground.mode != Mode::approve || !kept_.target || !kept_.target->unasked) return;
  Target target = *std::exchange(kept_.target, std::exchange(kept_.before, {}));
  judged_.reset();
  judge_says_.clear();
  stuck_.clear();
  if (kept_.proposal) return end_reduced();
  report_.tell(NoticeKind::approval, waits_key(target.change), "",
               fmt::format("change {} waits for approval: it was not made while the mode was "
                           "automatic",
                           target.change),
               target.change);
  kept_.proposal = std::move(target);
  proposed_.reset();
  proposed_on_ = gpus_of(ground.node.use);
}

std::string Plans::must_replan(const PlanGround& ground) const {
  const std::optional<Target>& basis = kept_.proposal ? kept_.proposal : kept_.target;
  const GpuUse& use = ground.node.use;
  if (!basis) return "no plan is in force";
  if (basis->services != ground.desired.key)
    return fmt::format("the services were changed by {}", ground.desired.who);
  for (const plan::PlannedGpu& gpu : basis->plan.gpus) {
    const GpuNamed* named = basis->named(gpu.index);
    if (gpu.instances.empty() || (named != nullptr && use.is_usable(named->uuid))) continue;
    return why_not_used(use, named, gpu.index);
  }
  if (const auto lent = lent_in_the_way(world_, ground.node, *basis); !lent.empty())
    return lent.begin()->second;
  if (!judge_says_.empty()) return judge_says_;
  if (!stuck_.empty() && !kept_.proposal) return stuck_;
  if (basis->reduced.empty()) return {};
  for (const GpuUse::Gpu& gpu : use.usable)
    if (std::ranges::count(basis->gpus, gpu.uuid, &GpuNamed::uuid) == 0 &&
        !ground.node.has_lent(gpu.uuid))
      return fmt::format("gpu {} can be used again", gpu.index);
  const std::vector<std::string> lent = ground.node.what_is_lent();
  for (const std::string& place : basis->beside)
    if (std::ranges::count(lent, place) == 0) return place + " is not lent any more";
  return {};
}

const plan::Judged<plan::ServingPlan>* Plans::judged(const PlanGround& ground) {
  if (!judged_ && kept_.target) {
    auto verdict =
        judge_target(world_, ground.node.use, {ground.desired.services, *kept_.target}, memo_);
    if (verdict)
      judged_ = *std::move(verdict);
    else
      judge_says_ = "the judge refuses the plan in force now: " +
                    to_string(verdict.error().violations.front());
  }
  return judged_ ? &*judged_ : nullptr;
}

bool Plans::settle_on(Decision decision, const PlanGround& ground) {
  if (decision.why == Why::must) {
    judge_says_.clear();
    stuck_.clear();
  }
  Target target = std::move(decision.planned.target);
  target.planned_ms = ground.now_ms;
  target.services = ground.desired.key;
  target.gain = decision.why == Why::gain;
  const Difference differs = difference(kept_.target, target);
  const bool same = kept_.target && differs.services.empty() && target.reduced.empty() &&
                    kept_.target->reduced.empty() && ground.mode != Mode::observe;
  if (same && decision.why != Why::person) {
    rerate(std::move(target));
    return true;
  }
  target.change = ++kept_.changes;
  target.cause = decision.cause;
  ChangeNow shown = shown_of(world_, target, ground, memo_);
  std::string detail = ground.node.known ? actuate::instances_text(shown.change)
                                         : to_string(decision.planned.changes);
  if (!target.reduced.empty()) detail += "; " + target.reduced;
  report_.record(history::EventKind::proposed,
                 {.change = target.change,
                  .cause = decision.cause,
                  .detail = detail,
                  .documents = {{"plan", forms::plan_json(target.plan)},
                                {"change", actuate::change_json(shown.change)}}});
  if (!target.reduced.empty())
    report_.tell_anew(NoticeKind::slo_risk, kReduced, "", target.reduced, target.change);
  proposed_ = std::move(shown);
  if (ground.mode == Mode::automatic) {
    target.unasked = true;
    adopt(std::move(target), "agent", "the mode is automatic", ground.now_ms);
    return true;
  }
  kept_.proposal = std::move(target);
  proposed_on_ = gpus_of(ground.node.use);
  const long change = kept_.proposal->change;
  if (decision.why != Why::gain)
    report_.tell(NoticeKind::approval, waits_key(change), "",
                 fmt::format("change {} waits for approval: {}", change, decision.cause), change);
  return false;
}

// The same instances carry other rates: no change of the node, only what is promised.
void Plans::rerate(Target target) {
  target.change = kept_.target->change;
  target.cause = kept_.target->cause;
  target.unasked = kept_.target->unasked;
  rerated_ = kept_.target->done || rerated_;
  kept_.target = std::move(target);
  end_reduced();
  judged_.reset();
  judge_says_.clear();
}

// Neither what is in force nor what waits leaves anything out.
void Plans::end_reduced() {
  for (const std::optional<Target>* one : {&kept_.target, &kept_.proposal})
    if (*one && !(*one)->reduced.empty()) return;
  report_.over(kReduced);
}

void Plans::adopt(Target target, const std::string& user, const std::string& sentence,
                  std::int64_t now_ms) {
  report_.over(waits_key(target.change));
  rerated_ = false;
  damping_.adopt(difference(kept_.target, target), !kept_.target, now_ms);
  report_.record(history::EventKind::approved, {.change = target.change,
                                                .user = user,
                                                .cause = target.cause,
                                                .outcome = history::Outcome::succeeded,
                                                .detail = sentence});
  if (kept_.target) kept_.before = kept_.target;
  kept_.target = std::move(target);
  kept_.proposal.reset();
  end_reduced();
  judged_.reset();
  judge_says_.clear();
  stuck_.clear();
}

void Plans::drop(const std::string& why) {
  if (!kept_.proposal) return;
  report_.over(waits_key(kept_.proposal->change));
  report_.record(history::EventKind::rejected, {.change = kept_.proposal->change,
                                                .cause = why,
                                                .outcome = history::Outcome::refused,
                                                .detail = "superseded"});
  kept_.proposal.reset();
  proposed_.reset();
  end_reduced();
}

void Plans::forget() {
  drop("no services are wanted");
  if (kept_.target) kept_.before = std::exchange(kept_.target, {});
  end_reduced();
  judged_.reset();
  judge_says_.clear();
  stuck_.clear();
}

// Why a change cannot be decided on: there never was one, or it does not wait.
Reply Plans::not_waiting(long change) const {
  if (change < 1 || change > kept_.changes)
    return failed({ErrorCode::not_found, fmt::format("there is no change {}", change), ""});
  return failed(
      {ErrorCode::infeasible, fmt::format("change {} does not wait for approval", change), ""});
}

Reply Plans::approve(const Approve& request, const std::string& user, const PlanGround& ground) {
  if (!kept_.proposal || kept_.proposal->change != request.change)
    return not_waiting(request.change);
  if (ground.mode == Mode::observe)
    return failed({ErrorCode::infeasible,
                   "the agent only observes: set the mode automatic or approve first", ""});
  kept_.proposal->unasked = false;
  adopt(Target(*kept_.proposal), user,
        fmt::format("{} approved it{}", user, request.why.empty() ? "" : ": " + request.why),
        ground.now_ms);
  return Receipt{request.change, fmt::format("change {} is made now", request.change)};
}

Reply Plans::reject(const Reject& request, const std::string& user, const PlanGround& ground) {
  if (!kept_.proposal || kept_.proposal->change != request.change)
    return not_waiting(request.change);
  report_.record(history::EventKind::rejected, {.change = request.change,
                                                .user = user,
                                                .cause = request.why,
                                                .outcome = history::Outcome::refused,
                                                .detail = "rejected by a person"});
  report_.over(waits_key(request.change));
  kept_.proposal.reset();
  proposed_.reset();
  end_reduced();
  be_quiet(ground.now_ms);
  kept_.no_to = ground.desired.key + gpus_of(ground.node.use);
  return Receipt{request.change,
                 fmt::format("change {} is not made; nothing is proposed for {:.0f} min unless "
                             "services or GPUs change",
                             request.change, world_.settings.damping.cooldown_s / 60)};
}

Reply Plans::roll_back(const std::string& user, const PlanGround& ground) {
  if (!kept_.before)
    return failed(
        {ErrorCode::infeasible, "there was no change before that this could go back to", ""});
  Target target = *kept_.before;
  const long from = kept_.target ? kept_.target->change : 0;
  target.change = ++kept_.changes;
  target.cause = fmt::format("{} went back to what was before change {}", user, from);
  target.planned_ms = ground.now_ms;
  target.services = ground.desired.key;
  target.done = target.unasked = false;
  be_quiet(ground.now_ms);
  const long number = target.change;
  adopt(std::move(target), user, "a rollback", ground.now_ms);
  return Receipt{number, fmt::format("change {} goes back to what was before change {}; the mode "
                                     "is approve now",
                                     number, from)};
}

Reply Plans::send(const SetPlan& request, const std::string& user, const PlanGround& ground) {
  auto planned = TRY(sent_plan(world_, ground, memo_, request.text));
  const std::string cause = fmt::format("{} sent a plan", user);
  drop(cause);
  settle_on({std::move(planned), cause, Why::person}, ground);
  const bool waits = kept_.proposal.has_value();
  const long number = waits ? kept_.proposal->change : kept_.target->change;
  return Receipt{
      number, waits ? fmt::format("the judge lets the plan pass; change {} waits for "
                                  "approval",
                                  number)
                    : fmt::format("the judge lets the plan pass; change {} is made now", number)};
}

void Plans::be_quiet(std::int64_t now_ms) {
  const double cooldown_s = world_.settings.damping.cooldown_s;
  kept_.quiet_until_ms = now_ms + static_cast<std::int64_t>(cooldown_s * 1000);
  kept_.no_to.clear();
}

std::string Plans::refused_until(const PlanGround& ground) const {
  if (!is_quiet(ground.now_ms) || kept_.no_to != ground.desired.key + gpus_of(ground.node.use))
    return {};
  return fmt::format("nothing is proposed before {}, since a person said no",
                     utc_text(kept_.quiet_until_ms));
}

void Plans::is_there(bool by_repair, std::int64_t now_ms) {
  // A cooldown is counted from when a change was there, not from when it was decided.
  if (!kept_.target->done && !by_repair) damping_.begin_cooldown(kept_.target->planned_ms, now_ms);
  kept_.target->done = true;
  kept_.target->unasked = false;
  rerated_ = false;
  stuck_.clear();
}

void Plans::show_proposal(const PlanGround& ground) {
  // Of an agent before this one, or as it was before a repair.
  if (kept_.proposal && !proposed_) proposed_ = shown_of(world_, *kept_.proposal, ground, memo_);
}

}  // namespace partita::control
