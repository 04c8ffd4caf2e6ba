#include "heat/steady.h"

#include "base/check.h"
#include "base/index.h"
#include "heat/spectral.h"

namespace partita::thermal {
namespace {

void add_block(std::span<double> map, const BlockCells& cells, int cols, double watts) {
  const double density = watts / cells.cells;
  for (int row = cells.row_from; row < cells.row_to; ++row) {
    const double share = density * cells.row_share[at(row - cells.row_from)];
    for (int col = cells.col_from; col < cells.col_to; ++col)
      map[at(row * cols + col)] += share * cells.col_share[at(col - cells.col_from)];
  }
}

// Watts from the nodes to ambient: through the sink, and through the board.
std::pair<double, double> heat_to_ambient(const Network::Parts& parts,
                                          std::span<const double> rise) {
  std::pair<double, double> watts;
  const std::size_t last = parts.layers.size() - 1;
  for (std::size_t n = 0; n <= last; ++n) {
    if (parts.layers[n].ambient == 0) continue;
    double sum = 0;
    for (const double value : rise.subspan(n * parts.cells(), parts.cells())) sum += value;
    (n == last ? watts.first : watts.second) += parts.layers[n].ambient * sum;
  }
  constexpr int kPrimaryNodes = 12;
  for (const PackageLink& link : parts.links) {
    if (link.to >= 0) continue;
    const double heat =
        link.conductance * rise[parts.layers.size() * parts.cells() + at(link.from)];
    (link.from < kPrimaryNodes ? watts.first : watts.second) += heat;
  }
  return watts;
}

}  // namespace

std::vector<double> node_watts(const Network& network, std::span<const double> block_watts) {
  const Network::Parts& parts = network.parts();
  CHECK(block_watts.size() == parts.power_blocks.size());
  std::vector<double> watts(parts.nodes());
  std::size_t next = 0;
  for (std::size_t n = 0; n < parts.layers.size(); ++n) {
    if (!parts.layers[n].power) continue;
    const std::span<double> map(watts.data() + n * parts.cells(), parts.cells());
    for (const BlockCells& cells : parts.plans[at(parts.layers[n].plan)])
      add_block(map, cells, parts.cols, block_watts[next++]);
  }
  return watts;
}

SteadyState steady_state(const Network& network, std::span<const double> block_watts) {
  const Network::Parts& parts = network.parts();
  const numeric::CosineTransform transform(parts.rows, parts.cols);
  std::vector<double> heat = node_watts(network, block_watts);
  for (std::size_t n = 0; n < parts.layers.size(); ++n)
    if (parts.layers[n].power)
      transform.forward(std::span(heat).subspan(n * parts.cells(), parts.cells()));
  SteadyState state;
  state.solution.kelvin = SpectralSolver(network, 0).solve(heat);
  from_spectral(network, transform, state.solution.kelvin);
  const auto [primary, secondary] = heat_to_ambient(parts, state.solution.kelvin);
  state.primary = primary;
  state.removed = primary + secondary;
  for (const double watts : block_watts) state.power += watts;
  for (double& kelvin : state.solution.kelvin) kelvin += parts.ambient;
  return state;
}

}  // namespace partita::thermal
