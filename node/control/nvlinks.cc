#include "control/nvlinks.h"

#include <algorithm>
#include <utility>

#include "device/nvlinks.h"

namespace partita::control {

namespace {

// GPUs of a group follow one another in a plan: between them is none of another domain.
std::map<int, int> in_runs(std::map<int, int> domains) {
  int domain = -1, run = 0;
  for (auto& [gpu, is] : domains) {
    if (is != domain) run = gpu;
    domain = std::exchange(is, run);
  }
  return domains;
}

}  // namespace

std::map<int, int> nvlink_domains(const NvLinks& said, const device::NodeState& state) {
  if (said.each == 0 && said.domains.empty()) return in_runs(device::nvlink_domains(state));
  std::map<int, int> domains;
  for (const device::GpuState& gpu : state.gpus) {
    const int each = std::max(1, said.each);
    domains[gpu.index] = gpu.index / each * each;
    for (const std::vector<int>& domain : said.domains)
      if (std::ranges::count(domain, gpu.index) > 0) domains[gpu.index] = std::ranges::min(domain);
  }
  return in_runs(std::move(domains));
}

}  // namespace partita::control
