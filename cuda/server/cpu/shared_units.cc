#include "server/cpu/shared_units.h"

#include <utility>

namespace partita::remote::cpu {

Result<std::shared_ptr<SharedUnits>> SharedUnits::open(int units) {
  auto driver = TRY(drivers::cpu_mask::CpuMaskDriver::open(hw::generic_topology(1, units)));
  return std::shared_ptr<SharedUnits>(new SharedUnits(units, std::move(driver)));
}

std::optional<hw::UnitMask> SharedUnits::take(const Choose& choose, std::function<void()> again) {
  const std::lock_guard lock(mutex_);
  const auto mask = choose(running_);
  if (!mask) waiting_.push_back(std::move(again));
  for (std::size_t unit = 0; mask && unit < running_.size(); ++unit)
    running_[unit] += (*mask)[unit];
  return mask;
}

void SharedUnits::give_back(const hw::UnitMask& mask) {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t unit = 0; unit < running_.size(); ++unit) running_[unit] -= mask[unit];
    waiting.swap(waiting_);
  }
  for (const auto& again : waiting) again();
}

}  // namespace partita::remote::cpu
