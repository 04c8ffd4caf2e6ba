// What a GPU may draw and how fast it may run: settings that a node keeps until somebody changes
// them or the driver is loaded anew, whoever set them. Values.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace partita::device {

// Whole MHz.
struct ClockRange {
  Mhz low, high;
  bool operator==(const ClockRange&) const = default;
};

// Total: what is empty here is as the driver has it by default.
struct PowerSettings {
  std::optional<Watts> limit;        // of the board
  std::optional<ClockRange> clocks;  // the SM clock stays in it
  bool operator==(const PowerSettings&) const = default;
};

// What is set, and what can be.
struct PowerState {
  PowerSettings now;        // `limit` always, where the board has one
  bool clocks_told = true;  // false: the driver does not tell whether clocks are locked (NVML)
  std::optional<Watts> default_limit, least_limit, most_limit;
  std::vector<Mhz> clocks;  // SM clocks that can be locked, ascending
  bool operator==(const PowerState&) const = default;
};

// The limit that these settings mean, where it is another than the board has; invalid_argument
// outside of what the board takes. `what` it is called: "power cap".
Result<std::optional<Watts>> limit_to_set(const PowerState& board, const PowerSettings& settings,
                                          std::string_view what);
// invalid_argument for clocks that go backwards, or leave `low` to `high`.
Result<void> check_clocks(const PowerSettings& settings, Mhz low, Mhz high);

}  // namespace partita::device
