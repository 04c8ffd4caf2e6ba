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

void LeasedDriver::show_leases(device::GpuState& state) {
  if (state.instances.empty()) return;
  const Result<StandingLeases> leases = standing();
  if (!leases) return;
  for (const auto& [number, lease] : leases->leases) {
    if (lease.gpu != state.uuid) continue;
    const device::Instance* const there = instance_of(state, lease);
    if (there == nullptr) continue;
    auto& holders =
        state.instances[static_cast<std::size_t>(there - state.instances.data())].holders;
    holders.insert(holders.begin(), {.pid = 0, .name = "lease " + lease.owner});
  }
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

Result<device::Answer> LeasedDriver::on_call(const device::Call& call, const Make& make) {
  using device::Method;
  if (call.method == Method::destroy_instance || call.method == Method::destroy_compute)
    TRY(not_lent(call.arguments[0], call.arguments[1]));
  auto answer = make(*bare_);
  if (answer && call.method == Method::read) show_leases(std::get<device::GpuState>(*answer));
  return answer;
}

}  // namespace partita::lease
