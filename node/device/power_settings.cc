#include "device/power_settings.h"

#include <fmt/format.h>

namespace partita::device {

Result<std::optional<Watts>> limit_to_set(const PowerState& board, const PowerSettings& settings,
                                          std::string_view what) {
  const std::optional<Watts> limit = settings.limit ? settings.limit : board.default_limit;
  if (!limit || limit == board.now.limit) return std::nullopt;
  if (limit >= board.least_limit && limit <= board.most_limit) return limit;
  return failed({ErrorCode::invalid_argument,
                 fmt::format("a {} of {:g} W; it may be {:g} to {:g} W", what, limit->value,
                             board.least_limit.value_or(Watts{}).value,
                             board.most_limit.value_or(Watts{}).value),
                 {}});
}

Result<void> check_clocks(const PowerSettings& settings, Mhz low, Mhz high) {
  if (!settings.clocks) return {};
  const ClockRange& clocks = *settings.clocks;
  if (clocks.low > Mhz{} && clocks.low >= low && clocks.low <= clocks.high && clocks.high <= high)
    return {};
  return failed({ErrorCode::invalid_argument,
                 fmt::format("clocks from {:g} to {:g} MHz", clocks.low.value, clocks.high.value),
                 {}});
}

}  // namespace partita::device
