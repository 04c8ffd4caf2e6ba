// Solves (G + s C) x = b on a network exactly: cosine transforms make every layer's sideways heat
// flow diagonal, what is left per mode is a chain of layers, and the edge cells that the package
// holds on to are a small system of their own (a capacitance matrix, by conjugate gradients). No
// matrix is stored. A vector here is "spectral": every layer's cells as their cosine transform,
// then the package nodes as they are; all above ambient. Not for two threads at a time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "heat/network_parts.h"
#include "base/numeric/dct.h"

namespace partita::thermal {

class SpectralSolver {
 public:
  // `shift` is s >= 0 (1/s): 0 for the steady state.
  SpectralSolver(const Network& network, double shift);

  std::vector<double> solve(std::span<const double> rhs) const;
  // (G + s C) x.
  std::vector<double> apply(std::span<const double> values) const;

 private:
  // Heat that leaves the edge cells of one tied layer, as cosine transforms along the edges. North
  // and south, and west and east, as their sum [0] and difference [1] over the root of two: modes
  // of even number see the one, of odd number the other.
  struct Edges {
    std::vector<double> north_south[2], west_east[2];
  };
  using EdgeVector = std::vector<Edges>;  // per tied layer
  struct Tied {
    int layer = 0;
    EdgeTies ties;
  };

  void factor_layers();
  void find_responses();
  void solve_layers(std::span<double> values) const;
  std::vector<double> solve_package(std::span<const double> heat) const;
  EdgeVector zero_edges() const;
  EdgeVector traces(std::span<const double> values) const;
  void add_edges(std::span<double> values, const EdgeVector& heat, double factor) const;
  void add_layer_response(const EdgeVector& heat, EdgeVector& result) const;
  void add_package_traces(EdgeVector& edges, std::span<const double> nodes, double factor) const;
  std::vector<double> package_heat(const EdgeVector& heat) const;
  EdgeVector edge_operator(const EdgeVector& heat) const;
  EdgeVector solve_edges(const EdgeVector& rhs) const;

  Network network_;
  double shift_;
  int rows_, cols_;
  std::size_t cells_;
  std::vector<Tied> tied_;
  std::vector<double> row_edge_, col_edge_;        // root of two times a mode's value at the edge
  std::vector<double> inverse_;                    // per layer and mode: inverse pivots
  std::vector<std::vector<double>> response_;      // per pair of tied layers and mode
  std::vector<double> package_, package_inverse_;  // dense
};

// Cosine transforms of all layers of a vector of nodes, there and back; package nodes stay.
void to_spectral(const Network& network, const numeric::CosineTransform& transform,
                 std::span<double> values);
void from_spectral(const Network& network, const numeric::CosineTransform& transform,
                   std::span<double> values);

}  // namespace partita::thermal
