#include "plan/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "base/append.h"

namespace partita::plan {
namespace {

constexpr std::size_t kShownNames = 5;

using Models = std::set<std::string>;

// The points of one model on one size with so many processes, up to the largest batch.
struct Curve {
  int gpcs, batch, processes;
  bool holds(const profile::ProfilePoint& p) const {
    return p.gpcs == gpcs && p.processes == processes && p.batch <= batch;
  }
};

void mark(PlannedInstance& instance, const profile::WorkloadProfile& profile, int gpcs) {
  const Curve curve{gpcs, instance.batch, instance.processes};
  Models learned_on;
  for (const profile::ProfilePoint& point : profile.points) {
    if (!point.predicted() || !curve.holds(point)) continue;
    instance.predicted = true;
    if (!point.learned_on->empty()) learned_on.insert(*point.learned_on);
  }
  instance.learned_on = joined(learned_on, ", ");
}

bool any_predicted(const profile::ProfileTable& table) {
  return std::ranges::any_of(table, [](const auto& item) {
    return std::ranges::any_of(item.second.points, &profile::ProfilePoint::predicted);
  });
}

// What a problem says of the models that it uses.
class Marker {
 public:
  explicit Marker(const ServingProblem& problem) : problem_(problem) {
    for (const FleetEntry& entry : problem.fleet)
      if (any_predicted(entry.profiles)) entries_.emplace(entry.gpu.name, &entry);
    for (const Service& service : problem.services) {
      models_.emplace(service.name, &service.model);
      if (service.tokens) tokens_.emplace(service.name, &service);
    }
  }

  void mark_instance(const std::string& gpu_model, PlannedInstance& instance) const {
    instance.predicted = false;
    instance.learned_on.clear();
    const auto entry = entries_.find(gpu_model);
    const auto model = models_.find(instance.service);
    if (mark_tokens(gpu_model, instance)) return;
    if (entry == entries_.end() || model == models_.end()) return;
    const auto profile = entry->second->profiles.find(*model->second);
    if (profile == entry->second->profiles.end()) return;
    for (const hw::MigProfile& mig : entry->second->gpu.profiles)
      if (mig.name == instance.profile) return mark(instance, profile->second, mig.gpcs);
  }

 private:
  // A language model whose tokens in and out lie, on average, outside of what was measured.
  bool mark_tokens(const std::string& gpu_model, PlannedInstance& instance) const {
    const auto service = tokens_.find(instance.service);
    if (service == tokens_.end()) return false;
    const auto* const engine = engine_of(problem_, gpu_model, *service->second, instance);
    const MeanLength mean = mean_of(*service->second->tokens);
    instance.predicted = engine != nullptr && !engine->measured(mean.in, mean.out);
    if (instance.predicted) instance.learned_on = gpu_model;
    return true;
  }

  const ServingProblem& problem_;
  std::map<std::string_view, const Service*> tokens_;      // language models
  std::map<std::string_view, const FleetEntry*> entries_;  // with predicted points
  std::map<std::string_view, const std::string*> models_;
};

std::string names_text(const std::vector<std::string_view>& names) {
  const std::size_t shown = std::min(names.size(), kShownNames);
  std::string text = joined(std::span(names).first(shown), ", ");
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace

ServingPlan with_predictions(const ServingProblem& problem, ServingPlan plan) {
  const Marker marker(problem);
  std::set<std::string_view> predicted;
  for (PlannedGpu& gpu : plan.gpus)
    for (PlannedInstance& instance : gpu.instances) {
      marker.mark_instance(gpu.model, instance);
      if (instance.predicted) predicted.insert(instance.service);
    }
  for (PlannedService& service : plan.services)
    service.predicted = predicted.contains(service.name);
  return plan;
}

std::string predictions_text(const ServingPlan& plan) {
  std::vector<std::string_view> names;
  for (const PlannedService& service : plan.services)
    if (service.predicted) names.push_back(service.name);
  Models learned_on, elsewhere;
  for (const PlannedGpu& gpu : plan.gpus)
    for (const PlannedInstance& instance : gpu.instances) {
      if (instance.learned_on.empty()) continue;
      learned_on.insert(instance.learned_on);
      if (instance.learned_on != gpu.model) elsewhere.insert(gpu.model);
    }
  if (names.empty()) return "";
  std::string text = fmt::format("{} of {} services rest on predictions, not on measurements: {}",
                                 names.size(), plan.services.size(), names_text(names));
  if (!learned_on.empty()) text += fmt::format("; by laws learned on {}", joined(learned_on, ", "));
  if (!elsewhere.empty())
    text +=
        fmt::format(", not on {}: measure there before you rely on it", joined(elsewhere, ", "));
  return text;
}

}  // namespace partita::plan
