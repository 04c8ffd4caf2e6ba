#include "plan/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "base/check.h"
#include "base/parse_number.h"

namespace partita::plan {

SloRule rule_for(Dispatch dispatch) {
  const bool pooled = dispatch == Dispatch::pooled;
  return {pooled ? SloRule::Kind::pooled : SloRule::Kind::queueing, 0.5, dispatch};
}

int FleetEntry::domain_of(int index) const {
  if (domains.empty()) return index / linked_gpus();
  const auto found = std::ranges::find_if(
      domains, [&](const std::vector<int>& one) { return std::ranges::count(one, index) > 0; });
  return found == domains.end() ? -1 - index : static_cast<int>(found - domains.begin());
}

void FleetEntry::set_gpus(const std::map<int, std::vector<int>>& by_domain, bool several) {
  count = 0;
  domains.clear();
  for (const auto& [domain, gpus] : by_domain) {
    *count += static_cast<int>(gpus.size());
    if (several) domains.push_back(gpus);
  }
}

bool fits_its_server(const SloRule& rule) {
  const bool pooled = rule.kind == SloRule::Kind::pooled;
  return rule.kind == SloRule::Kind::execution || pooled == (rule.dispatch == Dispatch::pooled);
}

Result<SloRule> parse_slo_rule(const std::string& text) {
  constexpr std::string_view kExecution = "execution:";
  if (text == "pooled") return SloRule{};
  if (text == "queueing") return kQueueing;
  std::optional<double> fraction;
  if (text.starts_with(kExecution))
    fraction = parse_number<double>(std::string_view(text).substr(kExecution.size()));
  if (!fraction || !(*fraction > 0 && *fraction <= 1)) {
    return bad_input(
        "--slo-rule",
        fmt::format("'{}' is neither 'pooled' nor 'queueing' nor 'execution:F' with 0 < F <= 1",
                    text.substr(0, 64)));
  }
  return SloRule{SloRule::Kind::execution, *fraction};
}

std::string to_string(const SloRule& rule) {
  switch (rule.kind) {
    case SloRule::Kind::pooled:
      return "pooled";
    case SloRule::Kind::queueing:
      return "queueing";
    case SloRule::Kind::execution:
      break;
  }
  return fmt::format("execution:{}", rule.fraction);
}

PlannedService row_of(const Service& service, const SloRule& rule) {
  PlannedService row{service, Rps{0}, Millis{0}};
  row.dispatch = rule.dispatch;
  return row;
}

bool PlannedService::operator==(const PlannedService& other) const {
  const auto key = [](const PlannedService& s) {
    return std::tie(s.planned, s.predicted_latency, s.predicted, s.wanted);
  };
  return Terms::operator==(other) && key(*this) == key(other);
}

bool ServingPlan::operator==(const ServingPlan& other) const {
  const auto key = [](const ServingPlan& p) {
    return std::tie(p.gpu_model, p.planner, p.rule, p.objective, p.gpus, p.services, p.survive);
  };
  return key(*this) == key(other);
}

ServingPlan with_terms(ServingPlan plan, const std::vector<Service>& services) {
  for (PlannedService& row : plan.services) {
    if (all_said(row)) continue;
    const auto service = std::ranges::find(services, row.name, &Service::name);
    if (service == services.end()) continue;
    Terms terms = *service;
    terms.rate = row.rate;
    terms.slo = row.slo;
    terms.dispatch = plan.rule.dispatch;
    static_cast<Terms&>(row) = std::move(terms);
  }
  return plan;
}

bool shares_gpus(const ServingPlan& plan) {
  return std::ranges::any_of(plan.gpus, [](const PlannedGpu& gpu) {
    return std::ranges::any_of(gpu.instances, [](const auto& i) { return i.share_percent != 0; });
  });
}

const profile::TokenEngine* engine_of(const ServingProblem& problem, const std::string& gpu_model,
                                      const Service& service, const PlannedInstance& instance) {
  const auto entry = std::ranges::find_if(
      problem.fleet, [&](const FleetEntry& e) { return e.gpu.name == gpu_model; });
  if (entry == problem.fleet.end()) return nullptr;
  const auto engines = entry->engines.find(service.model);
  if (engines == entry->engines.end()) return nullptr;
  const auto whole = std::ranges::max_element(entry->gpu.profiles, {}, &hw::MigProfile::gpcs);
  for (const profile::TokenEngine& engine : engines->second) {
    const std::string& profile = engine.mig_profile.empty() ? whole->name : engine.mig_profile;
    if (engine.name.configuration == instance.engine.configuration &&
        engine.gpus == instance.group && profile == instance.profile)
      return &engine;
  }
  return nullptr;
}

Rps share_of(const PlannedService& service, const PlannedInstance& instance) {
  if (!(service.planned.value > 0)) return Rps{0};
  return service.rate * (instance.throughput / service.planned);
}

}  // namespace partita::plan
