#include "heat/rom.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/index.h"
#include "heat/dense.h"
#include "heat/spectral.h"
#include "heat/steady.h"
#include "heat/transient.h"
#include "base/numeric/dense.h"

namespace partita::thermal {
namespace {

constexpr double kDeflated = 1e-7;      // of a direction's first length: it adds nothing
constexpr double kSilentWatts = 1e-7;   // K/W; modes that show less are left out
constexpr double kSilentKelvin = 1e-7;  // of a start of 1 K
constexpr double kSlowestRate = 0.01;   // 1/s
constexpr double kFastestRate = 100;    // per interval
constexpr double kLongestInterval = 1e4;
constexpr std::size_t kFewBlocks = 40;
constexpr double kFineTolerance = 5e-6, kCoarseTolerance = 3e-4;  // K/W
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

double largest(std::span<const double> values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

std::vector<double> lengths_of(const Columns& columns) {
  std::vector<double> lengths;
  for (std::size_t j = 0; j < columns.count(); ++j)
    lengths.push_back(std::sqrt(product(columns.col(j), columns.col(j))));
  return lengths;
}

// Everything the projection is made from. Vectors are spectral and multiplied by the root of the
// capacities, so that their product is the plain one.
class Projection {
 public:
  Projection(const Network& network, double tolerance)
      : network_(network),
        tolerance_(tolerance),
        transform_(network.rows(), network.cols()),
        root_(node_capacities(network)),
        heat_(network.nodes(), 0),
        basis_(network.nodes(), 0) {
    for (double& value : root_) value = std::sqrt(value);
    heat_.rows = looked_.rows = basis_.rows = network.nodes();
    const Network::Parts& parts = network.parts();
    std::vector<double> watts(parts.power_blocks.size());
    std::size_t block = 0;
    for (std::size_t n = 0; n < parts.layers.size(); ++n) {
      if (!parts.layers[n].power) continue;
      for (const BlockCells& cells : parts.plans[at(parts.layers[n].plan)]) {
        watts[block] = 1;
        heat_.append(spectral(node_watts(network, watts)));
        watts[block++] = 0;
        std::vector<double> weights(parts.nodes());
        add_weights(std::span(weights).subspan(n * parts.cells(), parts.cells()), parts, cells);
        looked_.append(unscaled(spectral(std::move(weights))));
      }
    }
  }

  std::vector<double> spectral(std::vector<double> nodes) const {
    to_spectral(network_, transform_, nodes);
    return nodes;
  }
  std::vector<double> scaled(std::vector<double> values) const {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= root_[i];
    return values;
  }
  std::vector<double> unscaled(std::vector<double> values) const {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] /= root_[i];
    return values;
  }
  const Columns& basis() const { return basis_; }

  // Adds the states to the basis, but for what it holds already.
  void add(Columns states) {
    const std::vector<double> lengths = lengths_of(states);
    add_new(without_basis(std::move(states)), lengths);
  }

  // The answers to all blocks' heat, and to the stored heat of `starts`, at one rate; returns what
  // the basis did not hold of what blocks see, K/W. Where that is less than the tolerance, and the
  // rate is not `wanted` anyhow, the answers to heat are left out.
  double add_rate(double rate, const Columns& starts, bool wanted) {
    const SpectralSolver solver(network_, rate);
    Columns answers(heat_.rows, 0), decays(heat_.rows, 0);
    answers.rows = decays.rows = heat_.rows;
    for (std::size_t j = 0; j < heat_.count(); ++j)
      answers.append(scaled(solver.solve(heat_.col(j))));
    for (std::size_t j = 0; j < starts.count(); ++j) {
      const auto start = starts.col(j);
      decays.append(scaled(solver.solve(scaled({start.begin(), start.end()}))));
    }
    add(std::move(decays));
    const std::vector<double> lengths = lengths_of(answers);
    answers = without_basis(std::move(answers));
    const double news = largest(products(looked_, answers).values);
    if (wanted || news >= tolerance_) add_new(std::move(answers), lengths);
    return news;
  }

  // The same at rates between `slow` and `fast`, where there is still something to see.
  void add_between(double slow, double fast, const Columns& starts, int halvings) {
    if (halvings == 0) return;
    const double middle = std::sqrt(slow * fast);
    const double news = add_rate(middle, starts, false);
    if (news < tolerance_) return;
    add_between(slow, middle, starts, halvings - 1);
    add_between(middle, fast, starts, halvings - 1);
  }
  void add_decades(double interval, const Columns& starts) {
    const double fastest = std::max(kFastestRate / interval, 10 * kSlowestRate);
    std::vector<double> rates;
    for (int i = 0; i < kCoarseRates; ++i)
      rates.push_back(kSlowestRate * std::pow(fastest / kSlowestRate, i / (kCoarseRates - 1.0)));
    for (const double rate : rates) add_rate(rate, starts, true);
    for (std::size_t i = 1; i < rates.size(); ++i)
      add_between(rates[i - 1], rates[i], starts, kMostHalvings);
  }

  // The projected network; symmetric.
  Columns conductances() const {
    const SpectralSolver plain(network_, 0);
    Columns images(basis_.rows, 0), result;
    images.rows = basis_.rows;
    result.rows = basis_.count();
    constexpr std::size_t kAtOnce = 32;
    for (std::size_t j = 0; j < basis_.count(); ++j) {
      const auto state = basis_.col(j);
      images.append(unscaled(plain.apply(unscaled({state.begin(), state.end()}))));
      if (images.count() < kAtOnce && j + 1 < basis_.count()) continue;
      result.append(products(basis_, images).values);
      images.values.clear();
    }
    const std::size_t n = result.rows;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j)
        result.values[i * n + j] = result.values[j * n + i] =
            (result.values[i * n + j] + result.values[j * n + i]) / 2;
    return result;
  }
  Columns inputs() const {  // states x blocks
    Columns heat;
    heat.rows = heat_.rows;
    for (std::size_t j = 0; j < heat_.count(); ++j) {
      const auto column = heat_.col(j);
      heat.append(unscaled({column.begin(), column.end()}));
    }
    return products(basis_, heat);
  }
  Columns outputs() const { return products(looked_, basis_); }  // blocks x states
  // The cells of a layer as the basis' vectors have them.
  Columns layer_cells(int layer) const {
    const std::size_t cells = network_.parts().cells(), from = cells * at(layer);
    Columns result(cells, basis_.count());
    for (std::size_t j = 0; j < basis_.count(); ++j) {
      for (std::size_t i = 0; i < cells; ++i)
        result.values[j * cells + i] = basis_.at(from + i, j) / root_[from + i];
      transform_.inverse(result.col(j));
    }
    return result;
  }

 private:
  Columns without_basis(Columns states) const {
    const Columns parts = products(basis_, states);
    return basis_.count() == 0 ? states : less_combination(std::move(states), basis_, parts);
  }

  // Orthonormal directions of the states, the longest first, as long as they are not rounding
  // errors of `lengths`; what of the basis has come back into them is taken away again.
  void add_new(Columns states, const std::vector<double>& lengths) {
    std::vector<double> squares;
    for (std::size_t j = 0; j < states.count(); ++j)
      squares.push_back(product(states.col(j), states.col(j)));
    std::vector<std::size_t> left(states.count()), taken;
    std::iota(left.begin(), left.end(), std::size_t{0});
    while (!left.empty()) {
      const auto longest = std::ranges::max_element(left, {}, [&](std::size_t j) {
        return lengths[j] > 0 ? squares[j] / (lengths[j] * lengths[j]) : 0;
      });
      const std::size_t pivot = *longest;
      left.erase(longest);
      const auto direction = states.col(pivot);
      for (const std::size_t other : taken)
        subtract(direction, states.col(other), product(states.col(other), direction));
      const double length = std::sqrt(product(direction, direction));
      if (!(length > kDeflated * lengths[pivot])) continue;
      for (double& value : direction) value /= length;
      taken.push_back(pivot);
      for (const std::size_t other : left) {
        const double part = product(direction, states.col(other));
        subtract(states.col(other), direction, part);
        squares[other] -= part * part;
      }
    }
    Columns added;
    added.rows = states.rows;
    for (const std::size_t j : taken) added.append(states.col(j));
    added = without_basis(std::move(added));
    for (std::size_t j = 0; j < added.count(); ++j) {
      const double length = std::sqrt(product(added.col(j), added.col(j)));
      for (double& value : added.col(j)) value /= length;
      basis_.append(added.col(j));
    }
  }

  Network network_;
  double tolerance_;
  numeric::CosineTransform transform_;
  std::vector<double> root_;
  Columns heat_, looked_, basis_;
};

Columns transposed(const Columns& matrix) {
  Columns result(matrix.count(), matrix.rows);
  for (std::size_t j = 0; j < matrix.count(); ++j)
    for (std::size_t i = 0; i < matrix.rows; ++i)
      result.values[i * result.rows + j] = matrix.at(i, j);
  return result;
}

Columns chosen(const Columns& matrix, const std::vector<std::size_t>& columns) {
  Columns result;
  result.rows = matrix.rows;
  for (const std::size_t j : columns) result.append(matrix.col(j));
  return result;
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

// The projected network in its modes.
struct Modes {
  std::vector<double> rates;  // ascending
  Columns vectors;
  Columns inputs, starts;  // blocks x modes, starts x modes
  Columns outputs;         // blocks x modes
};

Modes modes_of(const Projection& projection, const Columns& starts) {
  Modes modes;
  const Columns matrix = projection.conductances();
  numeric::EigenPairs pairs = numeric::symmetric_eigen(matrix.values, matrix.rows);
  CHECK(pairs.values.front() > 0);
  modes.rates = std::move(pairs.values);
  modes.vectors = Columns(matrix.rows, 0);
  modes.vectors.values = std::move(pairs.vectors);
  const Columns& vectors = modes.vectors;
  modes.inputs = products(projection.inputs(), vectors);
  modes.starts = products(products(projection.basis(), starts), vectors);
  modes.outputs = combination(projection.outputs(), vectors);
  return modes;
}

// Modes that outputs can tell from nothing, slowest first.
std::vector<std::size_t> heard_modes(const Modes& modes) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < modes.rates.size(); ++i) {
    const double loud = largest(modes.outputs.col(i));
    if (loud * largest(modes.inputs.col(i)) / modes.rates[i] > kSilentWatts ||
        loud * largest(modes.starts.col(i)) > kSilentKelvin)
      kept.push_back(i);
  }
  return kept;
}

// Row i, column j: sum over modes of output times input over rate.
std::vector<std::vector<double>> response_of(const Modes& modes) {
  const std::size_t blocks = modes.inputs.rows;
  std::vector<std::vector<double>> response(blocks, std::vector<double>(blocks));
  for (std::size_t mode = 0; mode < modes.rates.size(); ++mode)
    for (std::size_t i = 0; i < blocks; ++i) {
      const double seen = modes.outputs.at(i, mode) / modes.rates[mode];
      for (std::size_t j = 0; j < blocks; ++j) response[i][j] += seen * modes.inputs.at(j, mode);
    }
  return response;
}

}  // namespace

Result<ReducedModel> reduce(const Network& network, Seconds interval,
                            const ReduceOptions& options) {
  TRY(check_request(network, interval, options));
  const bool few = network.block_names().size() <= kFewBlocks;
  Projection projection(network, options.tolerance > 0 ? options.tolerance
                                 : few                 ? kFineTolerance
                                                       : kCoarseTolerance);
  Columns starts;
  starts.rows = network.nodes();
  starts.append(projection.scaled(projection.spectral(std::vector<double>(network.nodes(), 1.0))));
  if (!options.initial.empty()) {
    std::vector<double> rise = options.initial;
    for (double& kelvin : rise) kelvin -= network.ambient();
    starts.append(projection.scaled(projection.spectral(std::move(rise))));
  }
  projection.add(starts);
  projection.add_rate(0, starts, true);
  for (const double rate : options.rates) projection.add_rate(rate, starts, true);
  if (options.rates.empty()) projection.add_decades(interval.value, starts);
  const Modes modes = modes_of(projection, starts);
  const std::vector<std::size_t> kept = heard_modes(modes);

  auto shared = std::make_shared<ReducedModel::Shared>();
  shared->interval = interval;
  shared->ambient = network.ambient();
  shared->names = network.block_names();
  for (const std::size_t i : kept) {
    const double rate = modes.rates[i];
    shared->decay.push_back(std::exp(-rate * interval.value));
    shared->gain.push_back(-std::expm1(-rate * interval.value) / rate);
    shared->settled.push_back(1 / rate);
    shared->uniform.push_back(modes.starts.at(0, i));
    if (starts.count() == 2) shared->initial.push_back(modes.starts.at(1, i));
  }
  shared->inputs = transposed(chosen(modes.inputs, kept)).values;
  shared->outputs = chosen(modes.outputs, kept).values;
  shared->response = response_of(modes);
  shared->rows = network.rows();
  shared->cols = network.cols();
  if (options.maps)
    for (const int layer : power_layers(network))
      shared->maps.push_back(
          combination(projection.layer_cells(layer), chosen(modes.vectors, kept)).values);
  ReducedModel model;
  model.state_.assign(kept.size(), 0);
  model.shared_ = std::move(shared);
  return model;
}

void ReducedModel::step(std::span<const double> block_watts) { step_driven(drive(block_watts)); }

std::vector<double> ReducedModel::drive(std::span<const double> block_watts) const {
  CHECK(at(blocks()) == block_watts.size());
  std::vector<double> driven(state_.size());
  combine(shared_->inputs, block_watts, driven);
  return driven;
}

void ReducedModel::step_driven(std::span<const double> drive) {
  CHECK(drive.size() == state_.size());
  for (std::size_t i = 0; i < state_.size(); ++i)
    state_[i] = shared_->decay[i] * state_[i] + shared_->gain[i] * drive[i];
}

std::vector<double> ReducedModel::decayed_temperatures() const {
  std::vector<double> decayed(state_.size());
  for (std::size_t i = 0; i < state_.size(); ++i) decayed[i] = shared_->decay[i] * state_[i];
  std::vector<double> kelvin(shared_->names.size());
  combine(shared_->outputs, decayed, kelvin);
  for (double& value : kelvin) value += shared_->ambient;
  return kelvin;
}

double ReducedModel::block_temperature(int block) const {
  CHECK(block >= 0 && block < blocks());
  // In the order of combine(), so that the sum is the same to the last bit.
  const std::size_t n = shared_->names.size();
  const double* const c = shared_->outputs.data() + at(block);
  double sum = 0;
  std::size_t j = 0;
  for (; j + 4 <= state_.size(); j += 4)
    sum += (c[j * n] * state_[j] + c[(j + 1) * n] * state_[j + 1]) +
           (c[(j + 2) * n] * state_[j + 2] + c[(j + 3) * n] * state_[j + 3]);
  for (; j < state_.size(); ++j) sum += c[j * n] * state_[j];
  return sum + shared_->ambient;
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
