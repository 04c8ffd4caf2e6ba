// A cap on what the boards of a node may draw together, split into a limit per board. Pure.
#pragma once

#include <string>
#include <vector>

#include "device/power_settings.h"

namespace partita::control {

// A board, as the driver says; watts.
struct PowerBoard {
  int index = 0;
  std::string uuid = {};
  double least = 0, most = 0;  // limits that it can be given; most: its default at the most
  double now = 0;              // its limit
  double wants = 0;            // that its work needs to be as fast as it shall be; 0: not known
  bool used = false;           // work runs there, or shall
  bool fixed = false;          // its limit cannot be set
  device::PowerState state = {};
  bool operator==(const PowerBoard&) const = default;
};

// A limit per board in whole watts: fixed ones keep theirs; every other gets its least, then those
// that are used as much as each other up to what they want, then up to their most, then the rest.
// The limits add up to the cap
// at most, but where not even the least of all fit: then everybody has the least.
std::vector<double> split_power(const std::vector<PowerBoard>& boards, double cap);

}  // namespace partita::control
