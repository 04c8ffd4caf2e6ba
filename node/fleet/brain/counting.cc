#include "fleet/brain/counting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace partita::fleet {
namespace {

constexpr double kHeadroom = 1.15;  // over what arrived
constexpr double kStep = 1.1;       // of a need by what arrived
constexpr double kMostOver = 4;     // times the rate in the file
constexpr double kStarved = 0.95;   // of what its GPUs may draw

}  // namespace

double need_of(const plan::Service& service, double arrived_rps) {
  const double file = service.rate.value,
               asked = std::min(arrived_rps * kHeadroom, kMostOver * file);
  if (asked <= file) return file;
  return file * std::pow(kStep, std::ceil(std::log(asked / file) / std::log(kStep) - 1e-9));
}

double missing_of(double need_rps, const std::map<std::string, double>& by_domain, bool survive) {
  double all = 0, largest = 0;
  for (const auto& [domain, rate] : by_domain) all += rate, largest = std::max(largest, rate);
  const double missing = need_rps - (survive ? all - largest : all);
  return missing > need_rps * kTiny ? missing : 0;
}

std::string domain_of(const NodeRecord& node, Survive survive,
                      const std::map<std::string, std::string>& feeds) {
  if (survive == Survive::feed) {
    const auto of_tree = feeds.find(node.node);
    const std::string& feed = of_tree == feeds.end() ? node.feed : of_tree->second;
    if (!feed.empty()) return "feed " + feed;
  }
  if (survive == Survive::rack && !node.rack.empty()) return "rack " + node.rack;
  if (survive == Survive::zone && !node.zone.empty()) return "zone " + node.zone;
  return "node " + node.node;
}

std::string why_own_domains(const FleetView& view) {
  const Survive survive = view.wanted ? view.wanted->survive : Survive::none;
  if (survive == Survive::none || survive == Survive::node || view.nodes.empty()) return {};
  const auto feeds = view.power ? feeds_of(*view.power) : std::map<std::string, std::string>{};
  if (!std::ranges::all_of(view.nodes, [&](const auto& one) {
        return domain_of(one.second, survive, feeds).starts_with("node ");
      }))
    return {};
  return fmt::format("no node says its {}: each counts as one of its own",
                     kSurviveWords.begin()[static_cast<int>(survive)]);
}

std::vector<std::string> gpu_models(const FleetView& view) {
  std::set<std::string> models;
  for (const auto& [name, node] : view.nodes)
    for (const NodeGpu& gpu : node.gpus)
      if (gpu.unusable.empty()) models.insert(gpu.model);
  return {models.begin(), models.end()};
}

Result<void> check_carriable(const FleetGround& ground, const FleetView& view,
                             const std::vector<plan::Service>& services, const std::string& file) {
  std::vector<std::string> models = gpu_models(view);
  if (models.empty())
    for (const plan::FleetEntry& entry : ground.profiles) models.push_back(entry.gpu.name);
  const NodePlanner planner(ground);
  for (const std::string& model : models)
    if (!planner.knows(model)) return {};
  for (const plan::Service& one : services)
    if (const std::string why = one.member ? "" : planner.why_none(one, models); !why.empty())
      return bad_input(fmt::format("{}:{}", file, one.line),
                       fmt::format("service '{}': {}", one.name, why));
  return {};
}

std::string why_last(const FleetView& view, const std::string& node) {
  const auto draw = view.draws.find(node);
  if (!view.budgets || !view.power || draw == view.draws.end()) return {};
  const auto budget = std::ranges::find(view.budgets->nodes, node, &NodeBudget::node);
  const auto load = std::ranges::find(view.power->nodes, node, &FleetLoad::node);
  if (budget == view.budgets->nodes.end() || budget->limited_by.empty() ||
      load == view.power->nodes.end())
    return {};
  const double gpus_w = budget->watts - load->other_w;
  if (draw->second < gpus_w * kStarved) return {};
  return fmt::format("its GPUs draw {:.0f} W of the {:.0f} W that {} leaves them", draw->second,
                     gpus_w, budget->limited_by);
}

}  // namespace partita::fleet
