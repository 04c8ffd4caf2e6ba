#include "heat/transient.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/index.h"
#include "heat/steady.h"

namespace partita::thermal {
namespace {

// Alexander (1977): three stages, order three, the last stage is the result.
constexpr double kGamma = 0.43586652150845899942;
constexpr double kMiddle = (1 - kGamma) / 2;
constexpr double kFirst = (-6 * kGamma * kGamma + 16 * kGamma - 1) / 4;
constexpr double kSecond = (6 * kGamma * kGamma - 20 * kGamma + 5) / 4;

// Sums of the blocks' shares of every cell of one layer.
std::vector<double> coverage(const Network::Parts& parts, const CellLayer& layer) {
  std::vector<double> covered(parts.cells());
  for (const BlockCells& cells : parts.plans[at(layer.plan)])
    for (int row = cells.row_from; row < cells.row_to; ++row)
      for (int col = cells.col_from; col < cells.col_to; ++col)
        covered[at(row * parts.cols + col)] +=
            cells.row_share[at(row - cells.row_from)] * cells.col_share[at(col - cells.col_from)];
  return covered;
}

}  // namespace

Integrator::Integrator(const Network& network, Seconds interval, const IntegratorOptions& options)
    : network_(network),
      transform_(network.rows(), network.cols()),
      steps_(options.steps),
      capacity_(node_capacities(network)),
      rise_(network.nodes()) {
  CHECK(interval.value > 0 && options.doublings >= 0 && options.steps >= 1);
  for (int i = options.doublings; i >= 0; --i) {
    // Halves, quarters ... of the interval, the shortest first and twice.
    const double part = interval.value / std::exp2(std::min(i + 1, options.doublings));
    lengths_.push_back(part / steps_);
    solvers_.emplace_back(network_, 1 / (kGamma * lengths_.back()));
  }
}

void Integrator::start(std::span<const double> kelvin) {
  CHECK(kelvin.size() == network_.nodes());
  for (std::size_t i = 0; i < rise_.size(); ++i) rise_[i] = kelvin[i] - network_.ambient();
  to_spectral(network_, transform_, rise_);
}

void Integrator::advance(const SpectralSolver& solver, double seconds,
                         std::span<const double> heat) {
  const double rate = 1 / (kGamma * seconds);
  std::vector<double> right(rise_.size()), slope1(rise_.size()), slope2(rise_.size());
  const auto stage = [&](const std::vector<double>& base) {
    for (std::size_t i = 0; i < base.size(); ++i)
      right[i] = heat[i] + rate * capacity_[i] * base[i];
    return solver.solve(right);
  };
  std::vector<double> base = rise_;
  std::vector<double> result = stage(base);
  for (std::size_t i = 0; i < base.size(); ++i) {
    slope1[i] = (result[i] - base[i]) * rate;
    base[i] = rise_[i] + seconds * kMiddle * slope1[i];
  }
  result = stage(base);
  for (std::size_t i = 0; i < base.size(); ++i) {
    slope2[i] = (result[i] - base[i]) * rate;
    base[i] = rise_[i] + seconds * (kFirst * slope1[i] + kSecond * slope2[i]);
  }
  rise_ = stage(base);
}

void Integrator::step(std::span<const double> block_watts) {
  std::vector<double> heat = node_watts(network_, block_watts);
  to_spectral(network_, transform_, heat);
  for (std::size_t part = 0; part < lengths_.size(); ++part)
    for (int i = 0; i < steps_; ++i) advance(solvers_[part], lengths_[part], heat);
}

Solution Integrator::solution() const {
  Solution solution{rise_};
  from_spectral(network_, transform_, solution.kelvin);
  for (double& kelvin : solution.kelvin) kelvin += network_.ambient();
  return solution;
}

std::vector<double> node_capacities(const Network& network) {
  const Network::Parts& parts = network.parts();
  std::vector<double> capacities;
  capacities.reserve(parts.nodes());
  for (const CellLayer& layer : parts.layers)
    capacities.insert(capacities.end(), parts.cells(), layer.capacity);
  capacities.insert(capacities.end(), parts.package_capacity.begin(), parts.package_capacity.end());
  return capacities;
}

std::vector<double> uniform_start(const Network& network, double kelvin) {
  const Network::Parts& parts = network.parts();
  std::vector<double> nodes(parts.nodes(), kelvin);
  if (!parts.cold_gaps) return nodes;
  for (std::size_t n = 0; n < parts.layers.size(); ++n) {
    const std::vector<double> covered = coverage(parts, parts.layers[n]);
    for (std::size_t i = 0; i < covered.size(); ++i) nodes[n * parts.cells() + i] *= covered[i];
  }
  return nodes;
}

}  // namespace partita::thermal
