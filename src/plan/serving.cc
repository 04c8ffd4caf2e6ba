#include "plan/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "base/parse_number.h"

namespace partita::plan {

Result<SloRule> parse_slo_rule(const std::string& text) {
  constexpr std::string_view kExecution = "execution:";
  if (text == "queueing") return SloRule{};
  std::optional<double> fraction;
  if (text.starts_with(kExecution))
    fraction = parse_number<double>(std::string_view(text).substr(kExecution.size()));
  if (!fraction || !(*fraction > 0 && *fraction <= 1)) {
    return bad_input("--slo-rule",
                     fmt::format("'{}' is neither 'queueing' nor 'execution:F' with 0 < F <= 1",
                                 text.substr(0, 64)));
  }
  return SloRule{SloRule::Kind::execution, *fraction};
}

std::string to_string(const SloRule& rule) {
  return rule.kind == SloRule::Kind::queueing ? "queueing"
                                              : fmt::format("execution:{}", rule.fraction);
}

bool Service::operator==(const Service& other) const {
  const auto key = [](const Service& s) {
    return std::tie(s.name, s.model, s.rate, s.slo, s.percentile, s.min_replicas, s.spread,
                    s.avoid);
  };
  return key(*this) == key(other);
}

bool ServingPlan::operator==(const ServingPlan& other) const {
  const auto key = [](const ServingPlan& p) {
    return std::tie(p.gpu_model, p.planner, p.rule, p.objective, p.gpus, p.services);
  };
  return key(*this) == key(other);
}

bool shares_gpus(const ServingPlan& plan) {
  return std::ranges::any_of(plan.gpus, [](const PlannedGpu& gpu) {
    return std::ranges::any_of(gpu.instances, [](const auto& i) { return i.share_percent != 0; });
  });
}

Rps share_of(const PlannedService& service, const PlannedInstance& instance) {
  if (!(service.planned.value > 0)) return Rps{0};
  return service.rate * (instance.throughput / service.planned);
}

}  // namespace partita::plan
