#include "plan/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "base/check.h"
#include "base/parse_number.h"

namespace partita::plan {

namespace {

struct DispatchName {
  Dispatch dispatch;
  std::string_view name;
};
constexpr DispatchName kDispatchNames[] = {{Dispatch::pooled, "pooled"},
                                           {Dispatch::paced, "paced"},
                                           {Dispatch::shared_queue, "shared-queue"},
                                           {Dispatch::per_process, "per-process"}};

}  // namespace

Result<Dispatch> parse_dispatch(const std::string& text) {
  for (const DispatchName& known : kDispatchNames)
    if (text == known.name) return known.dispatch;
  return bad_input("--dispatch",
                   fmt::format("'{}' is none of pooled, paced, shared-queue and per-process",
                               text.substr(0, 64)));
}

std::string to_string(Dispatch dispatch) {
  for (const DispatchName& known : kDispatchNames)
    if (dispatch == known.dispatch) return std::string(known.name);
  CHECK(false);
}

SloRule rule_for(Dispatch dispatch) {
  const bool pooled = dispatch == Dispatch::pooled;
  return {pooled ? SloRule::Kind::pooled : SloRule::Kind::queueing, 0.5, dispatch};
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

bool Service::operator==(const Service& other) const {
  const auto key = [](const Service& s) {
    return std::tie(s.name, s.model, s.rate, s.slo, s.percentile, s.min_replicas, s.spread, s.avoid,
                    s.traffic);
  };
  return key(*this) == key(other);
}

Rps planning_rate(const Service& service) { return service.rate * (1 + service.traffic.headroom); }

bool PlannedService::operator==(const PlannedService& other) const {
  return name == other.name && rate == other.rate && planned == other.planned && slo == other.slo &&
         predicted_latency == other.predicted_latency && predicted == other.predicted;
}

bool ServingPlan::operator==(const ServingPlan& other) const {
  const auto key = [](const ServingPlan& p) {
    return std::tie(p.gpu_model, p.planner, p.rule, p.objective, p.gpus, p.services, p.survive);
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
