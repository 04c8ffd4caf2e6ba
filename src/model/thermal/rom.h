// A reduced model of a chip and its package: block powers in, block temperatures out, microseconds
// per sample. Made once from a Network by projection onto a rational Krylov space of the block
// inputs; a step with constant power over a fixed time is then exact but for the projection.
// Temperatures are kelvin. A value: copies are independent.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace partita::thermal {

class ReducedModel {
 public:
  // Power per block over the step that follows, in watts, in the order of the network's blocks.
  // Advances the state by the model's interval.
  void step(std::span<const double> block_watts);
  // Mean temperature of every block now, kelvin.
  std::vector<double> block_temperatures() const;
  // To the steady state of these powers.
  void settle(std::span<const double> block_watts);
  // The rise above ambient of every block per watt in every block, in the steady state: row i,
  // column j is the effect of block j on block i, K/W.
  const std::vector<std::vector<double>>& steady_response() const;

  int blocks() const;
  Seconds interval() const;
  double ambient() const;  // kelvin
};

}  // namespace partita::thermal
