#include "model/thermal/steady.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <numeric>

#include "base/index.h"
#include "model/thermal/network_parts.h"
#include "model/thermal/test_chips.h"

namespace partita::thermal {
namespace {

// The same network as a dense matrix, put together link by link.
Eigen::MatrixXd dense_network(const Network& network) {
  const Network::Parts& parts = network.parts();
  const int rows = parts.rows, cols = parts.cols, cells = rows * cols;
  const int layers = network.layers(), package = cells * layers;
  Eigen::MatrixXd g =
      Eigen::MatrixXd::Zero(static_cast<int>(network.nodes()), static_cast<int>(network.nodes()));
  const auto link = [&](int a, int b, double conductance) {
    g(a, a) += conductance;
    if (b < 0) return;
    g(b, b) += conductance;
    g(a, b) -= conductance;
    g(b, a) -= conductance;
  };
  for (int n = 0; n < layers; ++n) {
    const CellLayer& layer = parts.layers[at(n)];
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) {
        const int here = n * cells + i * cols + j;
        if (j + 1 < cols) link(here, here + 1, layer.east);
        if (i + 1 < rows) link(here, here + cols, layer.south);
        if (n + 1 < layers) link(here, here + cells, layer.above);
        link(here, -1, layer.ambient);
        const int ties = layer.ties.first_node;
        if (ties < 0) continue;
        if (j == 0) link(here, package + ties, layer.ties.west_east);
        if (j == cols - 1) link(here, package + ties + 1, layer.ties.west_east);
        if (i == 0) link(here, package + ties + 2, layer.ties.north_south);
        if (i == rows - 1) link(here, package + ties + 3, layer.ties.north_south);
      }
  }
  for (const PackageLink& l : parts.links)
    link(package + l.from, l.to < 0 ? -1 : package + l.to, l.conductance);
  return g;
}

double worst_against_dense(const Chip& chip, const NetworkOptions& options) {
  const Result<Network> network = make_network(chip, options);
  EXPECT_TRUE(network) << to_string(network.error());
  std::vector<double> watts(network->block_names().size());
  for (std::size_t i = 0; i < watts.size(); ++i) watts[i] = 1 + 3.0 * static_cast<double>(i % 4);
  const std::vector<double> heat = node_watts(*network, watts);
  const Eigen::VectorXd exact = dense_network(*network).ldlt().solve(
      Eigen::Map<const Eigen::VectorXd>(heat.data(), static_cast<Eigen::Index>(heat.size())));
  const SteadyState state = steady_state(*network, watts);
  double worst = 0;
  for (std::size_t i = 0; i < heat.size(); ++i)
    worst = std::max(worst, std::abs(state.solution.kelvin[i] - network->ambient() -
                                     exact(static_cast<Eigen::Index>(i))));
  EXPECT_NEAR(state.removed, state.power, 1e-10 * state.power);
  return worst;
}

TEST(steady, the_solver_agrees_with_a_dense_matrix) {
  EXPECT_LT(worst_against_dense(test_chip(), {8, 8, false}), 1e-9);
  EXPECT_LT(worst_against_dense(test_chip(), {7, 10, true}), 1e-9);
  EXPECT_LT(worst_against_dense(test_chip(), {1, 1, false}), 1e-9);
  Chip secondary = test_chip();
  secondary.config.model_secondary = true;
  EXPECT_LT(worst_against_dense(secondary, {9, 6, false}), 1e-9);
  EXPECT_LT(worst_against_dense(test_stack(), {6, 9, false}), 1e-9);
  Chip detailed = test_stack();
  detailed.config.detailed_3d = true;
  EXPECT_LT(worst_against_dense(detailed, {6, 9, true}), 1e-9);
}

}  // namespace
}  // namespace partita::thermal
