#include "control/speeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "act/recent_requests.h"
#include "base/hash.h"
#include "decide/expected_tokens.h"

namespace partita::control {
namespace {

constexpr double kSpeedDecay = 0.9;         // a minute
constexpr double kFewestMinutes = 5;   // of those that count
constexpr double kFewestAnswers = 20;  // in kTrafficStretch
constexpr double kSlower = 1.1, kFaster = 0.8;  // than planned with: plans follow
constexpr double kSpeedStep = 1.1;              // factors are powers of it
constexpr double kMostSlower = 8;               // either way

int replicas(const plan::ServingPlan& plan, const std::string& service) {
  int count = 0;
  for (const plan::PlannedGpu& gpu : plan.gpus)
    count += static_cast<int>(
        std::ranges::count(gpu.instances, service, &plan::PlannedInstance::service));
  return count;
}

void slow_down(profile::StepCost& cost, double factor) {
  for (double* one : {&cost.step, &cost.sequence, &cost.root_sequences, &cost.cached_token,
                      &cost.prompt_token, &cost.prompt_context, &cost.mixed, &cost.crowded})
    *one *= factor;
}

}  // namespace

std::vector<plan::FleetEntry> Speeds::corrected(std::vector<plan::FleetEntry> measured) const {
  for (const SpeedKept& kept : kept_)
    for (plan::FleetEntry& entry : measured)
      if (const auto found = entry.engines.find(kept.model); found != entry.engines.end())
        for (profile::TokenEngine& engine : found->second) {
          slow_down(engine.spec.cost, kept.slower);
          slow_down(engine.prompt_spec.cost, kept.slower);
        }
  return measured;
}

void Speeds::note(const plan::Service& service, const Ground& ground, const ServiceLoad& load) {
  const auto& tokens = load.tokens;
  if (!tokens || !tokens->tpot_p50_ms || !(tokens->mean_out > 0)) return;
  // Where replicas are missing, those that are there have more to do.
  if (load.ready_workers < replicas(ground.plan, service.name)) return;
  const double rate = tokens->out_per_s / tokens->mean_out;
  if (rate * actuate::kTrafficStretch < kFewestAnswers) return;
  const Millis expected = decide::expected_tpot({ground.problem, ground.plan, service, Rps{rate}});
  if (!(expected.value > 0) || !(*tokens->tpot_p50_ms > 0)) return;
  Ratios& ratios = ratios_[service.model];
  ratios.minutes = kSpeedDecay * ratios.minutes + 1;
  ratios.sum = kSpeedDecay * ratios.sum + std::log(*tokens->tpot_p50_ms / expected.value);
}

double* Speeds::slower(const std::string& model) {
  auto found = std::ranges::lower_bound(kept_, model, {}, &SpeedKept::model);
  if (found == kept_.end() || found->model != model) found = kept_.insert(found, {model, 1});
  return &found->slower;
}

DesiredNow Speeds::corrected(DesiredNow wanted) const {
  std::string off;
  for (const SpeedKept& kept : kept_)
    if (kept.slower != 1 && std::ranges::any_of(wanted.services, [&](const plan::Service& one) {
          return one.tokens && one.model == kept.model;
        }))
      off += fmt::format("/{} {}", kept.model, kept.slower);
  if (off.empty()) return wanted;
  wanted.key = fmt::format("{:016x}", text_hash(wanted.key + off));
  wanted.who = "their engines, which are slower or faster than was planned for";
  return wanted;
}

bool Speeds::see(const Ground& ground, Report& report) {
  for (const plan::Service& one : ground.problem.services)
    for (const ServiceLoad& load : ground.servers.loads)
      if (one.tokens && load.service == one.name) note(one, ground, load);
  bool changed = false;
  for (auto& [model, ratios] : ratios_) {
    if (ratios.minutes < kFewestMinutes) continue;
    const double ratio = std::exp(ratios.sum / ratios.minutes);
    if (ratio <= kSlower && ratio >= kFaster) continue;
    ratios = {};
    double& factor = *slower(model);
    const double power = std::ceil(std::log(factor * ratio) / std::log(kSpeedStep) - 1e-9);
    const double found = std::clamp(std::pow(kSpeedStep, power), 1 / kMostSlower, kMostSlower);
    if (std::exchange(factor, found) == found) continue;
    changed = true;
    const std::string key = "speed/" + model;
    report.untell(key);
    report.tell(NoticeKind::other, key, "",
                fmt::format("a token of {} takes {:.2f} times as long as its measured points say: "
                            "plans go by that",
                            model, factor));
  }
  return changed;
}

}  // namespace partita::control
