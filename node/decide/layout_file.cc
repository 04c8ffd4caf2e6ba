#include "decide/layout_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "forms/serving_forms.h"

namespace partita::decide {
namespace {

plan::ServingPlan plan_of(const device::StateDocument& document) {
  plan::ServingPlan plan;
  for (const device::GpuState& gpu : document.state.gpus) {
    plan.gpus.push_back({gpu.index, gpu.lost ? "" : gpu.model, {}});
    for (const device::Instance& instance : gpu.instances) {
      const auto occupant = document.occupants.find(instance.uuid());
      if (!instance.whole() || occupant == document.occupants.end()) continue;
      const device::Occupant& runs = occupant->second;
      plan.gpus.back().instances.push_back(
          {instance, runs.service, runs.batch, runs.processes, Rps{0}, Millis{0}});
    }
  }
  return plan;
}

}  // namespace

Result<LayoutFile> read_layout(const Document& document, const hw::Catalogue& catalogue) {
  const Node* kind = document.root.find("kind");
  if (kind != nullptr && kind->text == "NodeState") {
    device::StateDocument state = TRY(device::read_state(document, catalogue));
    return state;
  }
  if (kind == nullptr || kind->text != "ServingPlan")
    return bad_input(document.at(kind != nullptr ? *kind : document.root),
                     "'kind' must be ServingPlan or NodeState");
  Result<plan::ServingPlan> plan = forms::read_plan(document);
  if (!plan) return failed(plan.error());
  if (plan::shares_gpus(*plan))
    return bad_input(
        document.at(document.root),
        fmt::format("planner '{}' shares whole GPUs under MPS; such a plan is there to "
                    "be compared, and is no layout of MIG instances",
                    plan->planner));
  return *std::move(plan);
}

Result<LayoutFile> load_layout(Files& files, const std::string& flag, const std::string& path,
                               const hw::Catalogue& catalogue) {
  const Document document = TRY(read_document(files, flag, path));
  return read_layout(document, catalogue);
}

plan::ServingPlan running(LayoutFile layout) {
  if (const auto* state = std::get_if<device::StateDocument>(&layout)) return plan_of(*state);
  return std::get<plan::ServingPlan>(std::move(layout));
}

std::string serves_others(const plan::ServingPlan& current, const plan::ServingProblem& problem) {
  bool any = false;
  for (const plan::PlannedGpu& gpu : current.gpus) {
    for (const plan::PlannedInstance& instance : gpu.instances) {
      any = true;
      if (std::ranges::count(problem.services, instance.service, &plan::Service::name) > 0)
        return {};
    }
  }
  return any ? "none of its services is among the given ones, so nothing of it is kept" : "";
}

}  // namespace partita::decide
