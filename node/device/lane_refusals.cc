#include "device/lane_refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace partita::device {

tl::unexpected<Error> refused(ErrorCode code, std::string message, std::string call) {
  return failed({code, std::move(message), std::move(call)});
}

tl::unexpected<Error> within(std::string call, const Error& error) {
  return refused(error.code, to_string(error), std::move(call));
}

std::string lane_call(std::string_view name, int lane) {
  return fmt::format("{}(lane {})", name, lane);
}

Result<void> check_mask(const hw::Topology& topology, const hw::UnitMask& mask,
                        const std::string& call) {
  if (mask.none()) return refused(ErrorCode::invalid_argument, "the mask has no unit", call);
  if ((mask & ~hw::all_units(topology)).any())
    return refused(ErrorCode::invalid_argument,
                   fmt::format("{} has {} units", topology.name, topology.units()), call);
  const auto shares = hw::units_per_die(topology, mask);
  const auto empty = std::ranges::find(shares, 0);
  if (empty == shares.end()) return {};
  return refused(ErrorCode::invalid_argument,
                 fmt::format("{} {} has no unit in it, and a die without any runs unmasked",
                             topology.cluster_name, empty - shares.begin()),
                 call);
}

}  // namespace partita::device
