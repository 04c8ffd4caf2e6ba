#include "device/nvlinks.h"

#include <algorithm>
#include <string>

namespace partita::device {

std::map<int, int> nvlink_domains(const NodeState& state) {
  std::map<int, int> domains;
  std::map<std::string, int> of_end;  // by end of a link
  bool linked = false;
  for (const GpuState& gpu : state.gpus) {
    if (gpu.lost) continue;
    if (gpu.nvlinks.empty() || (gpu.nvlinks.size() == 1 && gpu.mig_enabled)) return {};
    linked = linked || gpu.nvlinks.size() > 1;
    const int one = domains[gpu.index] = gpu.index;
    for (const std::string& end : gpu.nvlinks) {
      const int other = of_end.try_emplace(end, one).first->second;
      const auto [least, most] = std::minmax({domains.at(gpu.index), domains.at(other)});
      for (auto& [index, domain] : domains)
        if (domain == most) domain = least;
    }
  }
  if (!linked) domains.clear();
  return domains;
}

}  // namespace partita::device
