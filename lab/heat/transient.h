// The network over time by a third-order L-stable Runge-Kutta method (Alexander's SDIRK) on all of
// its nodes: slow, with an error that can be made as small as wanted. What reduced models (rom.h)
// are tested against. After every change of power steps are short and double: heat that moves
// within a cell's thickness settles first.
#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "heat/spectral.h"
#include "heat/raster/grid.h"

namespace partita::thermal {

struct IntegratorOptions {
  int doublings = 10;  // the first step of a sample is interval / 2^doublings / steps
  int steps = 2;       // per doubling
};

class Integrator {
 public:
  Integrator(const Network& network, Seconds interval, const IntegratorOptions& options = {});

  // From these temperatures of all nodes (kelvin).
  void start(std::span<const double> kelvin);
  // One interval with these powers.
  void step(std::span<const double> block_watts);
  Solution solution() const;

 private:
  void advance(const SpectralSolver& solver, double seconds, std::span<const double> heat);

  Network network_;
  numeric::CosineTransform transform_;
  int steps_;
  std::vector<double> lengths_;  // of steps, one solver each
  std::vector<SpectralSolver> solvers_;
  std::vector<double> capacity_;  // per node
  std::vector<double> rise_;      // spectral
};

// Capacities of all nodes, J/K.
std::vector<double> node_capacities(const Network& network);

// The temperatures (kelvin) of all nodes at the start of a transient that begins at one
// temperature. With HotSpot's defects cells that blocks do not cover whole start colder.
std::vector<double> uniform_start(const Network& network, double kelvin);

}  // namespace partita::thermal
