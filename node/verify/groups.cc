#include "verify/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace partita::verify {

void check_groups(const plan::ServingPlan& plan, const plan::FleetEntry& entry, bool only_model,
                  Findings& findings) {
  std::vector<const plan::PlannedGpu*> gpus;
  for (const plan::PlannedGpu& gpu : plan.gpus)
    if (gpu.model == entry.gpu.name) gpus.push_back(&gpu);
  std::ranges::stable_sort(gpus, {}, &plan::PlannedGpu::index);
  const auto node = [&](std::size_t g) {
    return (only_model ? gpus[g]->index : static_cast<int>(g)) / entry.node_gpus;
  };
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const auto grouped =
        std::ranges::find_if(gpus[g]->instances, [](const auto& one) { return one.group != 1; });
    if (grouped == gpus[g]->instances.end()) continue;
    const auto size = static_cast<std::size_t>(std::max(1, grouped->group));
    std::size_t end = g;
    while (end < std::min(gpus.size(), g + size) && gpus[end]->instances.size() == 1 &&
           gpus[end]->instances.front() == *grouped)
      ++end;
    if (end - g != size || node(g) != node(end - 1))
      findings.report("group", fmt::format("gpu {}", gpus[g]->index), static_cast<double>(end - g),
                      static_cast<double>(size),
                      fmt::format("GPUs of service {} that follow one another in a node of {}",
                                  grouped->service, entry.node_gpus));
    g = std::max(g + 1, end) - 1;
  }
}

}  // namespace partita::verify
