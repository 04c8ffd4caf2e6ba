// Power of the machine: what of machine.h concerns it.
#include <algorithm>
#include <cstdlib>

#include "base/hash.h"
#include "drivers/sim/machine.h"

namespace partita::drivers::sim {
namespace {

constexpr std::int64_t kAnchorNs = 60'000'000'000;  // longer than this nothing is left unsettled
constexpr double kLeastLevel = 0.55, kMostLevel = 0.95;

// What runs on an instance, or outside any: seed and level of it.
SimLoad load_of(const SimGpu& gpu, int gi_id, double share) {
  SimLoad load{.gi_id = gi_id, .share = share};
  for (const SimProcess& process : gpu.processes) {
    if (process.gi_id != gi_id) continue;
    const std::uint64_t seed =
        mix64(text_hash(process.name) + static_cast<std::uint64_t>(process.pid) * kGolden64) | 1;
    load.seed = load.seed == 0 ? seed : mix64(load.seed ^ seed) | 1;
    const double made_up =
        kLeastLevel + (kMostLevel - kLeastLevel) * static_cast<double>(seed >> 40) * 0x1.0p-24;
    load.level = std::min(1.0, load.level + process.activity.value_or(made_up));
  }
  if (load.level <= 0) load.seed = 0;
  return load;
}

std::vector<SimLoad> loads_of(const SimGpu& gpu) {
  const double slices = std::max(1, gpu.model->compute_slices);
  std::vector<SimLoad> loads{load_of(gpu, -1, 1.0)};
  for (const SimInstance& instance : gpu.instances) {
    const int gpcs = gpu.model->profiles[static_cast<std::size_t>(instance.profile)].gpcs;
    loads.push_back(load_of(gpu, instance.gi_id, std::min(1.0, gpcs / slices)));
  }
  return loads;
}

// The loads of now, with what those of the same instances did so far.
std::vector<SimLoad> continued(std::vector<SimLoad> loads, const std::vector<SimLoad>& before) {
  for (SimLoad& load : loads)
    for (const SimLoad& old : before)
      if (old.gi_id == load.gi_id) load.busy_s = old.busy_s;
  return loads;
}

void settle_gpu(SimGpu& gpu, std::int64_t now_ns) {
  if (gpu.power.at_ns < 0 || gpu.lost) return;
  std::vector<SimLoad> loads = loads_of(gpu);
  const bool same = std::ranges::equal(loads, gpu.power.loads, &SimLoad::same_work);
  const bool near = std::abs(now_ns - gpu.power.at_ns) < kAnchorNs;
  if (same && near) return;
  gpu.power = evolved(gpu.power, figures_of(*gpu.model), now_ns);
  gpu.power.loads = continued(std::move(loads), gpu.power.loads);
}

}  // namespace

void Machine::settle(std::int64_t now_ns) {
  for (SimGpu& gpu : gpus_) settle_gpu(gpu, now_ns);
}

std::optional<SimPower> Machine::power_glance(int gpu, std::int64_t now_ns) const {
  const SimGpu* found = find(gpu);
  if (!found || found->lost || found->power.at_ns < 0) return std::nullopt;
  return evolved(found->power, figures_of(*found->model), now_ns);
}

Result<SimPower> Machine::power_at(int gpu, std::int64_t now_ns) {
  const auto found = TRY(usable(gpu));
  SimGpu& it = *found;
  if (it.power.at_ns < 0) {
    it.power = evolved(it.power, figures_of(*it.model), now_ns);
    it.power.loads = loads_of(it);
  }
  settle_gpu(it, now_ns);
  return evolved(it.power, figures_of(*it.model), now_ns);
}

Result<void> Machine::set_power(int gpu, const device::PowerSettings& settings,
                                std::int64_t now_ns) {
  const auto now = TRY(power_at(gpu, now_ns));
  SimGpu& it = gpus_[static_cast<std::size_t>(gpu)];
  const Figures& board = figures_of(*it.model);
  if (board.limit_w == 0)
    return failed({ErrorCode::not_supported, "power and clocks of this GPU are not known", {}});
  if (std::string fault = settings_fault(settings, board); !fault.empty())
    return failed({ErrorCode::invalid_argument, std::move(fault), {}});
  it.power = now;
  it.power.settings = settings;
  if (settings.limit == Watts{1.0 * board.limit_w}) it.power.settings.limit.reset();
  return {};
}

void Machine::set_ambient(Celsius ambient) {
  for (SimGpu& gpu : gpus_) gpu.power.ambient_c = ambient.value;
}

}  // namespace partita::drivers::sim
