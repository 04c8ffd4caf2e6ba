#include "device/lane_refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <variant>

#include "base/append.h"

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

Result<const DeviceKernel*> device_kernel(const Kernel& kernel, const std::string& call) {
  constexpr std::uint64_t kMostX = std::numeric_limits<std::int32_t>::max(), kMostOther = 65'535,
                          kMostThreads = 1024;
  const auto* const code = std::get_if<DeviceKernel>(&kernel.code);
  if (code == nullptr)
    return refused(ErrorCode::not_supported, "a kernel of threads, not of a GPU", call);
  if (code->function == nullptr)
    return refused(ErrorCode::invalid_argument, "a kernel without code", call);
  const auto volume = [](const std::array<std::uint32_t, 3>& sizes) {
    return std::uint64_t{sizes[0]} * sizes[1] * sizes[2];
  };
  const auto& [x, y, z] = code->grid;
  const std::uint64_t threads = volume(code->block);
  if (x > kMostX || y > kMostOther || z > kMostOther || threads < 1 || threads > kMostThreads ||
      std::uint64_t{x} * code->block[0] > std::numeric_limits<std::uint32_t>::max())
    return refused(ErrorCode::invalid_argument,
                   fmt::format("no GPU has a grid of {} work-groups of {} threads",
                               joined(code->grid, " x "), joined(code->block, " x ")),
                   call);
  if (kernel.groups < 1 || static_cast<std::uint64_t>(kernel.groups) != volume(code->grid))
    return refused(
        ErrorCode::invalid_argument,
        fmt::format("{} work-groups, and a grid of {}", kernel.groups, joined(code->grid, " x ")),
        call);
  return code;
}

}  // namespace partita::device
