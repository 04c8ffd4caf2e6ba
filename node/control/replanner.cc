#include "control/replanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "control/own_rates.h"
#include "forms/pipeline_form.h"

namespace partita::control {
namespace {

constexpr std::int64_t kCalmMs = 5 * kMinuteMs;   // between changes for what is only forecast
constexpr std::int64_t kGainMs = 10 * kMinuteMs;  // after a change, and between looks for gain
constexpr double kLeastSavedGpcs = 2;             // that a look for gain is begun for
constexpr double kFirstTryPause = 60;
constexpr double kEnough = 1 + 1e-9;
constexpr int kLazier = 3;  // tries for a plan with fewer moves

// What the plan in force is made for; 0: it does not serve it.
double promised(const PlansKept& plans, const std::string& service) {
  const PlannedFor* rate = plans.target ? plans.target->rate_of(service) : nullptr;
  return rate == nullptr ? 0 : rate->rate_rps;
}

// At least what is promised: plans have some room.
double carried(const PlansKept& plans, const std::string& service) {
  const double least = promised(plans, service);
  if (!plans.target) return least;
  const auto& rows = plans.target->plan.services;
  const auto row = std::ranges::find(rows, service, &plan::PlannedService::name);
  return row == rows.end() ? least : std::max(least, row->planned.value);
}

}  // namespace

namespace {

// Of each service, what its own clients are promised, need, and ask for now.
struct OwnRates {
  std::vector<double> planned, needed;
};
OwnRates own_rates_of(const PlanGround& ground, double ServiceNeed::*need) {
  const std::vector<plan::Service>& services = ground.desired.services;
  std::vector<double> planned, needed;
  for (std::size_t s = 0; s < services.size(); ++s) {
    planned.push_back(promised(ground.plans, services[s].name));
    needed.push_back(ground.needs[s].*need);
  }
  return {own_rates(services, std::move(planned)), own_rates(services, std::move(needed))};
}

}  // namespace

// A pipeline and its steps are decided on together: what a step is planned for follows from what
// the pipelines are.
Want Replanner::want(const PlanGround& ground, double ServiceNeed::*need, Lower lower) const {
  Want want;
  want.survive = ground.desired.survive;
  want.priority = world_.settings.priority;
  want.services = ground.desired.services;
  const auto cools = [&](const plan::Service& one) {
    if (!one.pipeline) return damping_.cools(one.name, ground.now_ms);
    return std::ranges::any_of(one.pipeline->steps, [&](const plan::PipelineStep& step) {
      return damping_.cools(step.service, ground.now_ms);
    });
  };
  const OwnRates own = own_rates_of(ground, need);
  for (std::size_t s = 0; s < want.services.size(); ++s) {
    plan::Service& one = want.services[s];
    const double planned = own.planned[s], needed = own.needed[s];
    const bool enough = planned >= needed / kEnough;
    const bool kept_calm = cools(one) || needed > planned * (1 - world_.settings.damping.slack);
    const bool keep = enough && (lower == Lower::none || (lower == Lower::calm && kept_calm));
    one.rate = Rps{keep ? planned : needed};
  }
  want.services = at_whole_rates(std::move(want.services));
  return want;
}

Result<Planned> Replanner::plan(const PlanGround& ground, const Want& want,
                                const Limits& limits) const {
  // What cannot be brought about is no ground to plan from.
  static const std::optional<Target> none;
  const std::optional<Target>& basis = limits.stuck ? none : ground.plans.target;
  const NodeView& node = ground.node;
  const auto plan_on = [&](const GpuUse& use, bool partial, std::vector<decide::LentPlace> lent) {
    return plan_target(world_, use,
                       {want, current_plan(use, basis, node.assignment), limits.max_moves, partial,
                        std::move(lent)},
                       memo_);
  };
  // Where something is lent that the plan would need, what is lent is planned for, too; else the
  // next plan does without those GPUs.
  const auto noted = [&](Result<Planned> planned) {
    if (planned && !planned->target.reduced.empty()) planned->target.beside = node.what_is_lent();
    return planned;
  };
  const auto beside_lent = [&](GpuUse use, bool partial) -> Result<Planned> {
    while (true) {
      auto planned = plan_on(use, partial, {});
      if (!planned) return planned;
      const auto lent = lent_in_the_way(world_, node, planned->target);
      if (lent.empty()) return noted(std::move(planned));
      if (want.survive == 0) {
        auto beside = plan_on(use, partial, lent_places(node, use));
        if (beside && lent_in_the_way(world_, node, beside->target).empty())
          return noted(std::move(beside));
      }
      std::erase_if(use.usable, [&](const GpuUse::Gpu& gpu) { return lent.contains(gpu.uuid); });
      if (use.usable.empty())
        return failed({ErrorCode::in_use, lent.begin()->second + ", and no other is free", ""});
    }
  };
  // What batches have is left to them where the rest is enough.
  if (const GpuUse spared = node.spared(); spared.usable.size() < node.use.usable.size())
    if (auto planned = beside_lent(spared, false)) return planned;
  return beside_lent(node.use, limits.partial);
}

Result<Planned> Replanner::plan_needed(const PlanGround& ground, const Limits& limits) const {
  auto planned = plan(ground, want(ground, &ServiceNeed::soon_rps, Lower::calm), limits);
  if (planned && planned->target.reduced.empty()) return planned;
  auto least = plan(ground, want(ground, &ServiceNeed::soon_rps, Lower::all), limits);
  return least ? least : planned;
}

Result<Planned> Replanner::plan_all(const PlanGround& ground, bool stuck) const {
  return plan_needed(ground, {.partial = true, .stuck = stuck});
}

std::optional<Decision> Replanner::forced(const PlanGround& ground, const std::string& user,
                                          bool stuck) {
  auto planned = plan_all(ground, stuck);
  report_.over("forced");
  if (!planned) {
    report_.tell(NoticeKind::other, "forced", "", "no plan: " + to_string(planned.error()));
    return {};
  }
  return Decision{*std::move(planned), user + " asked for a plan", Why::person};
}

std::optional<Decision> Replanner::must(const PlanGround& ground, const std::string& cause,
                                        bool stuck) {
  std::string about = cause + ground.desired.key;
  for (const GpuUse::Gpu& gpu : ground.node.use.usable)
    about += gpu.uuid + (ground.node.has_lent(gpu.uuid) ? " lent" : "");
  if (!tries_.may(kMust, about, ground.now_ms)) return {};
  auto planned = plan_all(ground, stuck);
  if (!planned) {
    tries_.note(kMust, about, kFirstTryPause, ground.now_ms);
    const std::string why = to_string(planned.error());
    report_.doing = ground.plans.target
                        ? fmt::format("there is no other plan, though {}: {}", cause, why)
                        : "these services cannot be planned: " + why;
    if (about != std::exchange(told_about_, about)) need_not();
    report_.tell(NoticeKind::slo_risk, kMust, "", report_.doing);
    return {};
  }
  need_not();
  return Decision{*std::move(planned), cause, Why::must};
}

std::optional<Decision> Replanner::consider(const PlanGround& ground) {
  if (in_window(world_.settings.freezes, ground.now_ms, world_.settings.utc_offset_min)) {
    report_.doing = "nothing to do: changes are frozen now";
    return {};
  }
  const Shortage shortage = shortage_of(ground);
  if (shortage.about.empty())
    for (const char* notice : {"budget", "shortage"}) report_.over(notice);
  return shortage.about.empty() ? consider_gain(ground) : relieve(ground, shortage);
}

Replanner::Shortage Replanner::shortage_of(const PlanGround& ground) const {
  Shortage shortage;
  const OwnRates own = own_rates_of(ground, &ServiceNeed::soon_rps);
  std::vector<double> all_now;
  for (const ServiceNeed& one : ground.needs) all_now.push_back(one.now_rps.value_or(0));
  const std::vector<double> own_now = own_rates(ground.desired.services, all_now);
  for (std::size_t s = 0; s < ground.needs.size(); ++s) {
    const std::string& name = ground.desired.services[s].name;
    const double planned = own.planned[s], needed = own.needed[s], now = own_now[s];
    if (needed <= planned * kEnough) continue;
    shortage.measured = shortage.measured || now > planned * kEnough;
    shortage.too_many = shortage.too_many || all_now[s] > carried(ground.plans, name) * kEnough;
    shortage.about += fmt::format("{}:{:.3g} ", name, needed);
    if (shortage.cause.empty())
      shortage.cause = fmt::format(
          "{} needs {:.4g} req/s within {:.0f} min ({:.4g} come now), {:.4g} are "
          "planned for",
          name, needed, world_.settings.forecast.horizon_s / 60, now, planned);
  }
  return shortage;
}

std::optional<Decision> Replanner::relieve(const PlanGround& ground, const Shortage& shortage) {
  const std::int64_t now_ms = ground.now_ms;
  if (!shortage.measured && now_ms - ground.plans.target->planned_ms < kCalmMs) return {};
  if (!tries_.may("shortage", shortage.about, now_ms)) return {};
  if (damping_.moves_left(1, now_ms) <= 0) {
    report_.tell(NoticeKind::slo_risk, "budget", "",
                 fmt::format("{}; {} instances were made in the last hour, so nothing is changed",
                             shortage.cause, world_.settings.damping.moves_per_hour));
    return {};
  }
  report_.over("budget");
  auto planned = plan_shortage(ground, shortage.too_many);
  tries_.note("shortage", shortage.about, kFirstTryPause, now_ms);
  if (!planned) {
    if (shortage.too_many)
      report_.tell(
          NoticeKind::slo_risk, "shortage", "",
          fmt::format("{}, and there is no plan: {}", shortage.cause, to_string(planned.error())));
    return {};
  }
  report_.over("shortage");
  const bool better = std::ranges::any_of(planned->target.rates, [&](const PlannedFor& one) {
    return one.rate_rps > promised(ground.plans, one.service) * (1 + 1e-3);
  });
  if (!better) return {};
  return Decision{*std::move(planned), shortage.cause, Why::shortage};
}

// A plan for a service that is short. It takes back nothing that was just made, if there is such a
// plan; else only where more comes than the plan in force carries.
Result<Planned> Replanner::plan_shortage(const PlanGround& ground, bool too_many) const {
  const std::optional<Target>& target = ground.plans.target;
  const bool reduced = !target->reduced.empty();
  const std::vector<MadeAt> made = damping_.just_made(ground.now_ms);
  const auto fine = [&](const Result<Planned>& planned) {
    return planned && !takes_back(ground.node.use, target, planned->target, made);
  };
  std::optional<int> most;
  if (!reduced) most = damping_.moves_left(1, ground.now_ms);
  // A plan that only just holds for the horizon would have to be raised again soon.
  std::optional<Result<Planned>> any;
  for (const auto need : {&ServiceNeed::later_rps, &ServiceNeed::soon_rps}) {
    const Want want = this->want(ground, need, Lower::none);
    Result<Planned> planned = plan(ground, want, {.max_moves = most});
    for (int lazier = 0; lazier < kLazier && planned && !fine(planned); ++lazier) {
      const int moves = planned->changes.moved + planned->changes.created;
      if (moves < 1) break;
      Result<Planned> other = plan(ground, want, {.max_moves = moves - 1});
      if (!other) break;
      planned = std::move(other);
    }
    if (fine(planned)) return planned;
    if (planned) any = std::move(planned);
  }
  if (!too_many && !reduced)
    return failed(
        {ErrorCode::infeasible, "nothing that was just made is taken back before it must be", ""});
  if (any) return *std::move(any);
  return plan_needed(ground, {.max_moves = most, .partial = true});
}

std::optional<Decision> Replanner::consider_gain(const PlanGround& ground) {
  const Settings& settings = world_.settings;
  const Target& target = *ground.plans.target;
  const std::int64_t now_ms = ground.now_ms;
  if (!target.done || !target.reduced.empty() || now_ms - target.planned_ms < kGainMs) return {};
  const bool open =
      settings.windows.empty() || in_window(settings.windows, now_ms, settings.utc_offset_min);
  const int moves = damping_.moves_left(0.5, now_ms);
  if (!open || moves <= 0) return {};
  const Want want = this->want(ground, &ServiceNeed::later_rps, Lower::calm);
  std::map<std::string, double> shares;
  double before = 0, after = 0;
  std::string about;
  const OwnRates own = own_rates_of(ground, &ServiceNeed::later_rps);
  const std::vector<plan::Service> asked = forms::at_own_rates(want.services);
  for (std::size_t s = 0; s < want.services.size(); ++s) {
    const plan::Service& one = want.services[s];
    const double planned = promised(ground.plans, one.name);
    before += own.planned[s];
    after += asked[s].rate.value;
    shares[one.name] = planned > 0 ? one.rate.value / planned : 1;
    about += fmt::format("{:.2g} ", one.rate.value);
  }
  double saved = 0;
  for (const plan::PlannedGpu& gpu : target.plan.gpus)
    for (const plan::PlannedInstance& one : gpu.instances)
      if (shares.contains(one.service))
        saved += gpcs_of_profile(one.profile) * (1 - shares[one.service]);
  if (saved < kLeastSavedGpcs || gpus_in_use(target.plan) < 2 || !tries_.may("gain", about, now_ms))
    return {};
  auto planned = plan(ground, want, {.max_moves = moves});
  tries_.note("gain", about, static_cast<double>(kGainMs) / 1000, now_ms);
  if (!planned || !worth_it(ground, *planned)) return {};
  const double ahead_s = std::max(settings.damping.lasts_s, settings.forecast.horizon_s);
  const std::string cause = fmt::format(
      "{:.4g} req/s of all services are enough for the next {:.0f} min, {:.4g} "
      "are planned for: {} GPUs instead of {}",
      after, ahead_s / 60, before, gpus_in_use(planned->target.plan), gpus_in_use(target.plan));
  return Decision{*std::move(planned), cause, Why::gain};
}

bool Replanner::worth_it(const PlanGround& ground, const Planned& planned) const {
  const DampingSettings& damping = world_.settings.damping;
  const std::optional<Target>& target = ground.plans.target;
  const Difference differs = difference(target, planned.target);
  const int gpus = gpus_in_use(target->plan) - gpus_in_use(planned.target.plan);
  const auto made = static_cast<double>(differs.made.size());
  if (gpus < 1 || gpus * damping.lasts_s / 3600 < damping.min_gain_gpu_hours * made) return false;
  return !takes_back(ground.node.use, target, planned.target, damping_.just_made(ground.now_ms)) &&
         !damping_.cools(differs, ground.now_ms);
}

}  // namespace partita::control
