#include "model/thermal/rom.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/index.h"
#include "model/thermal/spectral.h"
#include "model/thermal/steady.h"
#include "model/thermal/transient.h"

namespace partita::thermal {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kDeflated = 1e-7;      // of a direction's first length: it adds nothing
constexpr double kSilentWatts = 1e-7;   // K/W; modes that show less are left out
constexpr double kSilentKelvin = 1e-7;  // of a start of 1 K
constexpr double kSlowestRate = 0.01;   // 1/s
constexpr double kFastestRate = 100;    // per interval
constexpr double kLongestInterval = 1e4;
constexpr std::size_t kFewBlocks = 40;
constexpr double kFineTolerance = 2e-5, kCoarseTolerance = 3e-4;  // K/W
constexpr int kCoarseRates = 5;
constexpr int kMostHalvings = 4;
constexpr int kExpectedRates = 12;

// sum over j of columns[j] * factors[j], four columns at a time.
void combine(std::span<const double> columns, std::span<const double> factors,
             std::span<double> sum) {
  const std::size_t n = sum.size();
  std::fill(sum.begin(), sum.end(), 0);
  std::size_t j = 0;
  for (; j + 4 <= factors.size(); j += 4) {
    const double* c = columns.data() + j * n;
    const double f0 = factors[j], f1 = factors[j + 1], f2 = factors[j + 2], f3 = factors[j + 3];
    for (std::size_t i = 0; i < n; ++i)
      sum[i] += (c[i] * f0 + c[n + i] * f1) + (c[2 * n + i] * f2 + c[3 * n + i] * f3);
  }
  for (; j < factors.size(); ++j) {
    const double* c = columns.data() + j * n;
    for (std::size_t i = 0; i < n; ++i) sum[i] += c[i] * factors[j];
  }
}

// The weights with which cells make a block's temperature.
void add_weights(std::span<double> map, const Network::Parts& parts, const BlockCells& cells) {
  if (parts.mode == MapMode::center) {
    const int rows = cells.row_to - cells.row_from, cols = cells.col_to - cells.col_from;
    const int row = (cells.row_from + cells.row_to) / 2, col = (cells.col_from + cells.col_to) / 2;
    for (const int r : {row, row - (rows % 2 == 0)})
      for (const int c : {col, col - (cols % 2 == 0)}) map[at(r * parts.cols + c)] += 0.25;
    return;
  }
  const double share = 1.0 / ((cells.row_to - cells.row_from) * (cells.col_to - cells.col_from));
  for (int row = cells.row_from; row < cells.row_to; ++row)
    for (int col = cells.col_from; col < cells.col_to; ++col)
      map[at(row * parts.cols + col)] += share;
}

// Everything the projection is made from. Vectors are spectral and multiplied by the root of the
// capacities, so that their product is the plain one.
class Projection {
 public:
  Projection(const Network& network, double tolerance)
      : network_(network),
        tolerance_(tolerance),
        transform_(network.rows(), network.cols()),
        root_(to_vector(node_capacities(network)).cwiseSqrt()) {
    const Network::Parts& parts = network.parts();
    const Index nodes = static_cast<Index>(parts.nodes());
    const Index blocks = static_cast<Index>(parts.power_blocks.size());
    heat_ = MatrixXd::Zero(nodes, blocks);
    seen_ = MatrixXd::Zero(nodes, blocks);
    Index block = 0;
    for (std::size_t n = 0; n < parts.layers.size(); ++n) {
      if (!parts.layers[n].power) continue;
      for (const BlockCells& cells : parts.plans[at(parts.layers[n].plan)]) {
        std::vector<double> watts(at(static_cast<int>(blocks)));
        watts[static_cast<std::size_t>(block)] = 1;
        heat_.col(block) = spectral(node_watts(network, watts));
        std::vector<double> weights(parts.nodes());
        add_weights(std::span(weights).subspan(n * parts.cells(), parts.cells()), parts, cells);
        seen_.col(block) = spectral(std::move(weights));
        ++block;
      }
    }
    looked_ = root_.cwiseInverse().asDiagonal() * seen_;
  }

  VectorXd spectral(std::vector<double> nodes) const {
    to_spectral(network_, transform_, nodes);
    return to_vector(nodes);
  }
  // What is kept of a state: rises of nodes.
  VectorXd scaled(const std::vector<double>& rise) const {
    return spectral(rise).cwiseProduct(root_);
  }
  const MatrixXd& basis() const { return basis_; }

  // Adds the states to the basis, but for what it holds already.
  void add(MatrixXd states) {
    const VectorXd lengths = states.colwise().norm();
    take_away_basis(states);
    add_new(std::move(states), lengths);
  }

  // The answers to all blocks' heat, and to the stored heat of `starts`, at one rate; returns what
  // the basis did not hold of what blocks see, K/W. Where that is less than the tolerance, and the
  // rate is not `wanted` anyhow, the answers to heat are left out.
  double add_rate(double rate, const MatrixXd& starts, bool wanted) {
    const SpectralSolver solver(network_, rate);
    const Index heats = heat_.cols();
    MatrixXd states(root_.size(), heats + starts.cols());
    for (Index j = 0; j < states.cols(); ++j) {
      const VectorXd right =
          j < heats ? VectorXd(heat_.col(j)) : starts.col(j - heats).cwiseProduct(root_).eval();
      states.col(j) = to_vector(solver.solve(span_of(right))).cwiseProduct(root_);
    }
    VectorXd lengths = states.colwise().norm();
    take_away_basis(states);
    const double news = (looked_.transpose() * states.leftCols(heats)).cwiseAbs().maxCoeff();
    if (!wanted && news < tolerance_) {
      states = states.rightCols(starts.cols()).eval();
      lengths = lengths.tail(starts.cols()).eval();
    }
    add_new(std::move(states), lengths);
    return news;
  }

  // The same at rates between `slow` and `fast`, where there is still something to see.
  void add_between(double slow, double fast, const MatrixXd& starts, int halvings) {
    if (halvings == 0) return;
    const double middle = std::sqrt(slow * fast);
    const double news = add_rate(middle, starts, false);
    if (news < tolerance_) return;
    add_between(slow, middle, starts, halvings - 1);
    add_between(middle, fast, starts, halvings - 1);
  }
  void add_decades(double interval, const MatrixXd& starts) {
    const double fastest = std::max(kFastestRate / interval, 10 * kSlowestRate);
    std::vector<double> rates;
    for (int i = 0; i < kCoarseRates; ++i)
      rates.push_back(kSlowestRate * std::pow(fastest / kSlowestRate, i / (kCoarseRates - 1.0)));
    for (const double rate : rates) add_rate(rate, starts, true);
    for (std::size_t i = 1; i < rates.size(); ++i)
      add_between(rates[i - 1], rates[i], starts, kMostHalvings);
  }

  // The projected network; symmetric.
  MatrixXd conductances() const {
    const SpectralSolver plain(network_, 0);
    MatrixXd result(basis_.cols(), basis_.cols());
    constexpr Index kAtOnce = 32;
    for (Index from = 0; from < basis_.cols(); from += kAtOnce) {
      const Index count = std::min(kAtOnce, basis_.cols() - from);
      MatrixXd images(root_.size(), count);
      for (Index j = 0; j < count; ++j) {
        const VectorXd rise = basis_.col(from + j).cwiseQuotient(root_);
        images.col(j) = to_vector(plain.apply(span_of(rise))).cwiseQuotient(root_);
      }
      result.middleCols(from, count).noalias() = basis_.transpose() * images;
    }
    return (result + result.transpose()) / 2;
  }
  MatrixXd inputs() const {
    return basis_.transpose() * (root_.cwiseInverse().asDiagonal() * heat_);
  }
  MatrixXd outputs() const { return looked_.transpose() * basis_; }
  // The cells of a layer as the basis' vectors have them.
  MatrixXd layer_cells(int layer) const {
    const Index cells = static_cast<Index>(network_.parts().cells());
    MatrixXd result = root_.segment(layer * cells, cells).cwiseInverse().asDiagonal() *
                      basis_.middleRows(layer * cells, cells);
    for (Index j = 0; j < result.cols(); ++j)
      transform_.inverse({result.col(j).data(), static_cast<std::size_t>(cells)});
    return result;
  }

 private:
  void take_away_basis(MatrixXd& states) const {
    if (basis_.cols() > 0) states.noalias() -= basis_ * (basis_.transpose() * states).eval();
  }

  // Orthonormal directions of the states, the longest first, as long as they are not rounding
  // errors of `lengths`; what of the basis has come back into them is taken away again.
  void add_new(MatrixXd states, const VectorXd& lengths) {
    VectorXd squares = states.colwise().squaredNorm();
    std::vector<Index> left(static_cast<std::size_t>(states.cols())), taken;
    std::iota(left.begin(), left.end(), Index{0});
    while (!left.empty()) {
      const auto longest = std::ranges::max_element(left, {}, [&](Index j) {
        return lengths(j) > 0 ? squares(j) / (lengths(j) * lengths(j)) : 0;
      });
      const Index pivot = *longest;
      left.erase(longest);
      for (const Index other : taken)
        states.col(pivot) -= states.col(other) * states.col(other).dot(states.col(pivot));
      const double length = states.col(pivot).norm();
      if (!(length > kDeflated * lengths(pivot))) continue;
      states.col(pivot) /= length;
      taken.push_back(pivot);
      for (const Index other : left) {
        const double part = states.col(pivot).dot(states.col(other));
        states.col(other) -= states.col(pivot) * part;
        squares(other) -= part * part;
      }
    }
    MatrixXd added = states(Eigen::all, taken);
    take_away_basis(added);
    added.colwise().normalize();
    const Index old = basis_.cols();
    basis_.conservativeResize(root_.size(), old + added.cols());
    basis_.rightCols(added.cols()) = added;
  }

  static VectorXd to_vector(const std::vector<double>& values) {
    return Eigen::Map<const VectorXd>(values.data(), static_cast<Index>(values.size()));
  }
  static std::span<const double> span_of(const VectorXd& values) {
    return {values.data(), static_cast<std::size_t>(values.size())};
  }

  Network network_;
  double tolerance_;
  numeric::CosineTransform transform_;
  VectorXd root_;
  MatrixXd heat_, seen_, looked_, basis_;
};

std::vector<double> numbers_of(const MatrixXd& matrix) {  // column by column
  return {matrix.data(), matrix.data() + matrix.size()};
}

}  // namespace

struct ReducedModel::Shared {
  Seconds interval;
  double ambient = 0;
  std::vector<std::string> names;
  std::vector<double> decay, gain, settled;  // per mode
  std::vector<double> inputs;                // modes x blocks, column by column
  std::vector<double> outputs;               // blocks x modes
  std::vector<double> uniform, initial;      // modes; uniform is a rise of 1 K
  std::vector<std::vector<double>> response;
  int rows = 0, cols = 0;
  std::vector<std::vector<double>> maps;  // per layer with power: cells x modes
};

namespace {

Result<void> check_request(const Network& network, Seconds interval, const ReduceOptions& options) {
  if (!(interval.value > 0 && interval.value <= kLongestInterval))
    return bad_input("", fmt::format("an interval of {} s", interval.value));
  const MapMode mode = network.parts().mode;
  if (mode == MapMode::min || mode == MapMode::max)
    return bad_input("",
                     "a reduced model has means and centres of blocks, not least or greatest "
                     "cells (grid_map_mode)");
  for (const double rate : options.rates)
    if (!(rate > 0)) return bad_input("", fmt::format("a rate of {} 1/s", rate));
  const double rates =
      options.rates.empty() ? kExpectedRates : static_cast<double>(options.rates.size());
  const double states = (rates + 1) * static_cast<double>(network.block_names().size() + 2);
  if (states * static_cast<double>(network.nodes()) > kMostReducedNumbers)
    return bad_input("", fmt::format("{} nodes and {} blocks are too many for a reduced model; "
                                     "take a coarser grid, or integrate",
                                     network.nodes(), network.block_names().size()));
  CHECK(options.initial.empty() || options.initial.size() == network.nodes());
  return {};
}

// Modes that outputs can tell from nothing, slowest first.
std::vector<Index> heard_modes(const VectorXd& rates, const MatrixXd& inputs,
                               const MatrixXd& outputs, const MatrixXd& starts) {
  std::vector<Index> kept;
  for (Index i = 0; i < rates.size(); ++i) {
    const double loud = outputs.col(i).cwiseAbs().maxCoeff();
    const double driven = inputs.row(i).cwiseAbs().maxCoeff() / rates(i);
    if (loud * driven > kSilentWatts || loud * starts.row(i).cwiseAbs().maxCoeff() > kSilentKelvin)
      kept.push_back(i);
  }
  return kept;
}

}  // namespace

Result<ReducedModel> reduce(const Network& network, Seconds interval,
                            const ReduceOptions& options) {
  if (auto checked = check_request(network, interval, options); !checked)
    return failed(checked.error());
  const bool few = network.block_names().size() <= kFewBlocks;
  Projection projection(network, options.tolerance > 0 ? options.tolerance
                                 : few                 ? kFineTolerance
                                                       : kCoarseTolerance);
  const std::size_t count = options.initial.empty() ? 1 : 2;
  MatrixXd starts(static_cast<Index>(network.nodes()), static_cast<Index>(count));
  starts.col(0) = projection.scaled(std::vector<double>(network.nodes(), 1.0));
  if (count == 2) {
    std::vector<double> rise = options.initial;
    for (double& kelvin : rise) kelvin -= network.ambient();
    starts.col(1) = projection.scaled(rise);
  }
  projection.add(starts);
  projection.add_rate(0, starts, true);
  for (const double rate : options.rates) projection.add_rate(rate, starts, true);
  if (options.rates.empty()) projection.add_decades(interval.value, starts);

  const Eigen::SelfAdjointEigenSolver<MatrixXd> modes(projection.conductances());
  CHECK(modes.info() == Eigen::Success && modes.eigenvalues()(0) > 0);
  const MatrixXd inputs = modes.eigenvectors().transpose() * projection.inputs();
  const MatrixXd outputs = projection.outputs() * modes.eigenvectors();
  const MatrixXd begun =
      modes.eigenvectors().transpose() * (projection.basis().transpose() * starts);
  const std::vector<Index> kept = heard_modes(modes.eigenvalues(), inputs, outputs, begun);

  auto shared = std::make_shared<ReducedModel::Shared>();
  shared->interval = interval;
  shared->ambient = network.ambient();
  shared->names = network.block_names();
  for (const Index i : kept) {
    const double rate = modes.eigenvalues()(i);
    shared->decay.push_back(std::exp(-rate * interval.value));
    shared->gain.push_back(-std::expm1(-rate * interval.value) / rate);
    shared->settled.push_back(1 / rate);
    shared->uniform.push_back(begun(i, 0));
    if (count == 2) shared->initial.push_back(begun(i, 1));
  }
  shared->inputs = numbers_of(inputs(kept, Eigen::all));
  shared->outputs = numbers_of(outputs(Eigen::all, kept));
  const VectorXd times = modes.eigenvalues().cwiseInverse();
  const MatrixXd response = outputs * times.asDiagonal() * inputs;
  for (Index i = 0; i < response.rows(); ++i) {
    const VectorXd row = response.row(i);
    shared->response.push_back(numbers_of(row));
  }
  shared->rows = network.rows();
  shared->cols = network.cols();
  if (options.maps)
    for (const int layer : power_layers(network))
      shared->maps.push_back(
          numbers_of(projection.layer_cells(layer) * modes.eigenvectors()(Eigen::all, kept)));
  ReducedModel model;
  model.state_.assign(kept.size(), 0);
  model.shared_ = std::move(shared);
  return model;
}

void ReducedModel::step(std::span<const double> block_watts) {
  CHECK(at(blocks()) == block_watts.size());
  std::vector<double> driven(state_.size());
  combine(shared_->inputs, block_watts, driven);
  for (std::size_t i = 0; i < state_.size(); ++i)
    state_[i] = shared_->decay[i] * state_[i] + shared_->gain[i] * driven[i];
}

std::vector<double> ReducedModel::block_temperatures() const {
  std::vector<double> kelvin(shared_->names.size());
  combine(shared_->outputs, state_, kelvin);
  for (double& value : kelvin) value += shared_->ambient;
  return kelvin;
}

void ReducedModel::settle(std::span<const double> block_watts) {
  CHECK(at(blocks()) == block_watts.size());
  combine(shared_->inputs, block_watts, state_);
  for (std::size_t i = 0; i < state_.size(); ++i) state_[i] *= shared_->settled[i];
}

void ReducedModel::start_uniform(double kelvin) {
  for (std::size_t i = 0; i < state_.size(); ++i)
    state_[i] = shared_->uniform[i] * (kelvin - shared_->ambient);
}

void ReducedModel::start_initial() {
  CHECK(shared_->initial.size() == state_.size());
  state_ = shared_->initial;
}

const std::vector<std::vector<double>>& ReducedModel::steady_response() const {
  return shared_->response;
}

raster::Grid ReducedModel::map(int layer) const {
  CHECK(layer >= 0 && at(layer) < shared_->maps.size());
  raster::Grid grid(shared_->rows, shared_->cols);
  combine(shared_->maps[at(layer)], state_, grid.values);
  for (double& value : grid.values) value += shared_->ambient;
  return grid;
}

int ReducedModel::blocks() const { return static_cast<int>(shared_->names.size()); }
int ReducedModel::states() const { return static_cast<int>(state_.size()); }
Seconds ReducedModel::interval() const { return shared_->interval; }
double ReducedModel::ambient() const { return shared_->ambient; }
const std::vector<std::string>& ReducedModel::block_names() const { return shared_->names; }

}  // namespace partita::thermal
