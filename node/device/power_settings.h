// What a GPU may draw and how fast it may run: settings that a node keeps until somebody changes
// them or the driver is loaded anew, whoever set them. Plain data.
#pragma once

#include <optional>
#include <vector>

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

}  // namespace partita::device
