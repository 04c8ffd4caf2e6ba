// A network as dense matrices, put together link by link: what tests hold the solvers against.
#pragma once

#include <Eigen/Dense>

#include "base/index.h"
#include "heat/network_parts.h"

namespace partita::thermal {

inline Eigen::MatrixXd dense_network(const Network& network) {
  const Network::Parts& parts = network.parts();
  const int rows = parts.rows, cols = parts.cols, cells = rows * cols;
  const int layers = network.layers(), package = cells * layers;
  const int nodes = static_cast<int>(network.nodes());
  Eigen::MatrixXd g = Eigen::MatrixXd::Zero(nodes, nodes);
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

}  // namespace partita::thermal
