#include "act/lease/leased_driver.h"

#include <fmt/format.h>

#include "act/lease/lease_brain.h"

namespace partita::lease {

Result<StandingLeases> LeasedDriver::standing() {
  if (!path_)
    path_ = TRY(log_());
  if (path_->empty() || !files_.exists(*path_)) return StandingLeases{};
  const std::string text = TRY(files_.read(*path_));
  return parse_leases(*path_, text);
}

Result<device::GpuState> LeasedDriver::read(int gpu) {
  Result<device::GpuState> state = bare_->read(gpu);
  if (!state || state->instances.empty()) return state;
  const Result<StandingLeases> leases = standing();
  if (!leases) return state;
  for (const auto& [number, lease] : leases->leases) {
    if (lease.gpu != state->uuid) continue;
    const device::Instance* const there = instance_of(*state, lease);
    if (there == nullptr) continue;
    auto& holders =
        state->instances[static_cast<std::size_t>(there - state->instances.data())].holders;
    holders.insert(holders.begin(), {.pid = 0, .name = "lease " + lease.owner});
  }
  return state;
}

Result<void> LeasedDriver::not_lent(int gpu, int gi_id) {
  const StandingLeases leases = TRY(standing());
  if (leases.leases.empty()) return {};
  const device::GpuState state = TRY(bare_->read(gpu));
  for (const auto& [number, lease] : leases.leases) {
    if (lease.gpu != state.uuid) continue;
    const device::Instance* const there = instance_of(state, lease);
    if (there == nullptr || there->gi_id != gi_id) continue;
    return failed({ErrorCode::in_use,
                   fmt::format("{} at {} is lent to '{}'", there->profile, there->start,
                               lease.owner),
                   fmt::format("gpu {}", gpu)});
  }
  return {};
}

Result<void> LeasedDriver::destroy_instance(int gpu, int gi_id) {
  TRY(not_lent(gpu, gi_id));
  return bare_->destroy_instance(gpu, gi_id);
}

Result<void> LeasedDriver::destroy_compute(int gpu, int gi_id, int ci_id) {
  TRY(not_lent(gpu, gi_id));
  return bare_->destroy_compute(gpu, gi_id, ci_id);
}

}  // namespace partita::lease
