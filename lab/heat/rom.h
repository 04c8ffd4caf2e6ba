// A reduced model of a chip and its package: block powers in, block temperatures out, microseconds
// per sample. Made once from a Network (network.h) by projection onto a rational Krylov space of
// the block inputs; a step with constant power over a fixed time is then exact but for the
// projection. Temperatures are kelvin. A value: copies are independent, each with its own state;
// what they share never changes. Right after reduce() the state is ambient everywhere.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "heat/network.h"
#include "heat/raster/grid.h"

namespace partita::thermal {

struct ReduceOptions {
  // Rates (1/s) at which the space holds the network's answer, besides the steady state. Empty:
  // decades that fit the interval.
  std::vector<double> rates;
  // Without rates of one's own: no more are taken once what blocks see of the next is less, K/W;
  // errors of temperatures are then some microkelvin per watt. 0: as fits the number of blocks.
  double tolerance = 0;
  // A state to begin from besides ambient, kelvin: of every node, as Solution::kelvin holds them.
  // The space then holds how it decays. Empty: none.
  std::vector<double> initial;
  bool maps = false;  // whether map() can be asked; costs cells x states numbers of memory
};

class ReducedModel {
 public:
  // Power per block over the step that follows, in watts, in the order of Network::block_names().
  // Advances the state by the model's interval.
  void step(std::span<const double> block_watts);
  // The same in two parts, for powers that come again: what they do to the state (linear in them),
  // and the step. Does not look at the state.
  std::vector<double> drive(std::span<const double> block_watts) const;
  void step_driven(std::span<const double> drive);
  // Mean temperature of every block now, kelvin; of one; of all after a step without power.
  std::vector<double> block_temperatures() const;
  double block_temperature(int block) const;
  std::vector<double> decayed_temperatures() const;
  // To the steady state of these powers.
  void settle(std::span<const double> block_watts);
  // Back to one temperature everywhere, package included (kelvin).
  void start_uniform(double kelvin);
  // Back to ReduceOptions::initial, which must have been given.
  void start_initial();
  // The rise above ambient of every block per watt in every block, in the steady state: row i,
  // column j is the effect of block j on block i, K/W.
  const std::vector<std::vector<double>>& steady_response() const;
  // Temperatures now over the layer with power number `layer` (0 for a chip of one die); only with
  // ReduceOptions::maps.
  raster::Grid map(int layer = 0) const;

  int blocks() const;
  int states() const;  // the reduced model's size
  Seconds interval() const;
  double ambient() const;  // kelvin
  const std::vector<std::string>& block_names() const;

 private:
  struct Shared;
  friend Result<ReducedModel> reduce(const Network& network, Seconds interval,
                                     const ReduceOptions& options);
  std::shared_ptr<const Shared> shared_;
  std::vector<double> state_;  // amplitudes of the modes, above ambient
};

// The reduced model of a network for steps of `interval`. Refused: an interval that is not in
// (0, 1e4] seconds, and a network too large to be held (kMostReducedNumbers).
inline constexpr double kMostReducedNumbers = 8e7;  // nodes x states
Result<ReducedModel> reduce(const Network& network, Seconds interval,
                            const ReduceOptions& options = {});

}  // namespace partita::thermal
