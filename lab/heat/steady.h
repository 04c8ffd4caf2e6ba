// The steady state of a network: every node's temperature once powers have not changed for long.
#pragma once

#include <span>

#include "heat/network.h"

namespace partita::thermal {

struct SteadyState {
  Solution solution;
  double power = 0;    // watts put in
  double removed = 0;  // watts that leave to ambient; the difference is the solver's error
  double primary = 0;  // of these, through the sink; the rest through the board
};

// `block_watts` in the order of Network::block_names(); any sign, finite.
SteadyState steady_state(const Network& network, std::span<const double> block_watts);

// Watts that every cell of every layer gets, and 0 for package nodes.
std::vector<double> node_watts(const Network& network, std::span<const double> block_watts);

}  // namespace partita::thermal
