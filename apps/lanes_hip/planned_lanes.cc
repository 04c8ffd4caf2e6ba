#include "planned_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "decide/kernel_inputs.h"

namespace partita::lanes_hip {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The lane of a kernel on so many units; 0 on all of them.
Result<std::size_t> lane_of(const forms::StatedWorker& worker, int units, int all,
                            PlannedLanes& planned, const std::string& file) {
  if (units == all) return std::size_t{0};
  const auto lane = std::ranges::find(worker.lanes, units, &forms::StatedLane::units);
  const auto mask = lane == worker.lanes.end() ? std::nullopt : hw::mask_of_hex(lane->mask_hex);
  if (!mask)
    return bad_input(file, fmt::format("worker {} has no lane of {} units", worker.name, units));
  const auto known = std::ranges::find(planned.masks, *mask);
  const auto at = static_cast<std::size_t>(known - planned.masks.begin());
  if (known == planned.masks.end()) planned.masks.push_back(*mask);
  return at + 1;
}

}  // namespace

PlanNames names_of_environment() {
  return {variable("PARTITA_KERNEL_PLAN"), variable("PARTITA_KERNEL_PROFILES"),
          variable("PARTITA_KERNEL_WORKER")};
}

Result<PlannedLanes> read_planned_lanes(Files& files, const PlanNames& names) {
  if (names.plan.empty())
    return bad_input("PARTITA_KERNEL_PLAN", "names no plan of `partita kernels plan`");
  const auto text = TRY(files.read(names.plan));
  const auto plan = TRY(forms::parse_kernel_plan(names.plan, text));
  const auto worker = std::ranges::find(plan.workers, names.worker, &forms::StatedWorker::name);
  if (worker == plan.workers.end())
    return bad_input("PARTITA_KERNEL_WORKER",
                     fmt::format("'{}' is no worker of {}", names.worker, names.plan));
  const auto topology = TRY(decide::load_topology(plan.gpu));
  const std::string model = names.worker.substr(0, names.worker.find('#'));
  const auto models = TRY(decide::load_kernels(
      files, {.workers = model, .profiles = names.profiles, .gpu = plan.gpu}, topology));
  const auto& kernels = models.front().kernels;
  if (kernels.size() != worker->units.size())
    return bad_input(names.plan, fmt::format("{} kernels of {}, whose profile has {}",
                                             worker->units.size(), names.worker, kernels.size()));
  PlannedLanes planned{.total_units = topology.units(), .masks = {}, .steps = {}};
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto lane =
        TRY(lane_of(*worker, worker->units[i], topology.units(), planned, names.plan));
    planned.steps.push_back({kernels[i].name, lane});
  }
  return planned;
}

}  // namespace partita::lanes_hip
