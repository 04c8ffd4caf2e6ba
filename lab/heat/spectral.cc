#include "heat/spectral.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/index.h"

namespace partita::thermal {
namespace {

constexpr double kEdgeTolerance = 1e-14;  // of the right side, root mean square
constexpr int kMostIterations = 400;

// sqrt(2) times the value of orthonormal mode k of n at the first cell; at the last it is that or
// its negative.
std::vector<double> edge_values(int n) {
  std::vector<double> values(at(n));
  for (int k = 0; k < n; ++k)
    values[at(k)] =
        std::sqrt((k == 0 ? 2.0 : 4.0) / n) * std::cos(std::numbers::pi * k / (2.0 * n));
  return values;
}

std::vector<double> stiffness(int n) {
  std::vector<double> values(at(n));
  for (int k = 0; k < n; ++k) values[at(k)] = -numeric::insulated_eigenvalue(k, n);
  return values;
}

// Sums of even and of odd elements of x * y.
std::array<double, 2> parity_dots(const double* x, const double* y, int n) {
  std::array<double, 8> sums{};
  int i = 0;
  for (; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; ++j) sums[at(j)] += x[i + j] * y[i + j];
  for (; i < n; ++i) sums[at(i % 2)] += x[i] * y[i];
  return {sums[0] + sums[2] + sums[4] + sums[6], sums[1] + sums[3] + sums[5] + sums[7]};
}

double dot(std::span<const double> x, std::span<const double> y) {
  const auto parts = parity_dots(x.data(), y.data(), static_cast<int>(x.size()));
  return parts[0] + parts[1];
}

void add_scaled(std::vector<double>& x, const std::vector<double>& y, double factor) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += factor * y[i];
}

// The inverse of a symmetric positive definite matrix of a few dozen rows, by Gauss and Jordan.
std::vector<double> dense_inverse(std::vector<double> a, std::size_t n) {
  std::vector<double> inverse(n * n);
  for (std::size_t i = 0; i < n; ++i) inverse[i * n + i] = 1;
  for (std::size_t pivot = 0; pivot < n; ++pivot) {
    const double scale = 1 / a[pivot * n + pivot];
    for (std::size_t j = 0; j < n; ++j) {
      a[pivot * n + j] *= scale;
      inverse[pivot * n + j] *= scale;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = a[i * n + pivot];
      if (i == pivot || factor == 0) continue;
      for (std::size_t j = 0; j < n; ++j) {
        a[i * n + j] -= factor * a[pivot * n + j];
        inverse[i * n + j] -= factor * inverse[pivot * n + j];
      }
    }
  }
  return inverse;
}

// Conductances between package nodes and to ambient, without ties to cells.
std::vector<double> package_matrix(const Network::Parts& parts, double shift) {
  const std::size_t n = parts.package_capacity.size();
  std::vector<double> matrix(n * n);
  for (std::size_t i = 0; i < n; ++i) matrix[i * n + i] = shift * parts.package_capacity[i];
  for (const PackageLink& link : parts.links) {
    const std::size_t from = at(link.from);
    matrix[from * n + from] += link.conductance;
    if (link.to < 0) continue;
    const std::size_t to = at(link.to);
    matrix[to * n + to] += link.conductance;
    matrix[from * n + to] -= link.conductance;
    matrix[to * n + from] -= link.conductance;
  }
  return matrix;
}

// The diagonal of one layer's chain but for what depends on the mode.
double layer_constant(const Network::Parts& parts, std::size_t n, double shift) {
  const CellLayer& layer = parts.layers[n];
  return layer.ambient + layer.above + (n > 0 ? parts.layers[n - 1].above : 0) +
         shift * layer.capacity;
}

std::size_t pair_index(std::size_t a, std::size_t b) {
  return a < b ? b * (b + 1) / 2 + a : a * (a + 1) / 2 + b;
}

}  // namespace

SpectralSolver::SpectralSolver(const Network& network, double shift)
    : network_(network),
      shift_(shift),
      rows_(network.rows()),
      cols_(network.cols()),
      cells_(network.parts().cells()),
      row_edge_(edge_values(network.rows())),
      col_edge_(edge_values(network.cols())) {
  CHECK(shift >= 0);
  for (int n = 0; n < network.layers(); ++n)
    if (network.parts().layers[at(n)].ties.first_node >= 0)
      tied_.push_back({n, network.parts().layers[at(n)].ties});
  factor_layers();
  find_responses();
  package_ = package_matrix(network.parts(), shift);
  package_inverse_ = dense_inverse(package_, at(network.package_nodes()));
}

void SpectralSolver::factor_layers() {
  const Network::Parts& parts = network_.parts();
  const std::vector<double> down = stiffness(rows_), across = stiffness(cols_);
  inverse_.resize(parts.layers.size() * cells_);
  for (std::size_t n = 0; n < parts.layers.size(); ++n) {
    const CellLayer& layer = parts.layers[n];
    const double constant = layer_constant(parts, n, shift_);
    const double below = n > 0 ? parts.layers[n - 1].above : 0;
    double* out = inverse_.data() + n * cells_;
    const double* before = n > 0 ? out - cells_ : nullptr;
    for (int k = 0; k < rows_; ++k) {
      const double row = constant + layer.south * down[at(k)];
      double* line = out + at(k * cols_);
      for (int l = 0; l < cols_; ++l) line[l] = row + layer.east * across[at(l)];
      if (before != nullptr) {
        const double* lower = before + at(k * cols_);
        for (int l = 0; l < cols_; ++l) line[l] -= below * below * lower[l];
      }
      for (int l = 0; l < cols_; ++l) line[l] = 1 / line[l];
    }
  }
}

// How far one watt in tied layer a's mode raises tied layer b's, for every pair and mode.
void SpectralSolver::find_responses() {
  const Network::Parts& parts = network_.parts();
  const std::size_t layers = parts.layers.size(), line = at(cols_);
  response_.assign(tied_.size() * (tied_.size() + 1) / 2, std::vector<double>(cells_));
  std::vector<double> x(layers * line);
  for (std::size_t b = 0; b < tied_.size(); ++b) {
    const std::size_t source = at(tied_[b].layer);
    for (std::size_t from = 0; from < cells_; from += line) {
      const auto inverse = [&](std::size_t n) { return inverse_.data() + n * cells_ + from; };
      std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(source * line), line, 1.0);
      for (std::size_t n = source + 1; n < layers; ++n)
        for (std::size_t l = 0; l < line; ++l)
          x[n * line + l] = parts.layers[n - 1].above * inverse(n - 1)[l] * x[(n - 1) * line + l];
      for (std::size_t n = layers; n-- > 0;)
        for (std::size_t l = 0; l < line; ++l) {
          const double given = n >= source ? x[n * line + l] : 0;
          const double above = n + 1 < layers ? parts.layers[n].above * x[(n + 1) * line + l] : 0;
          x[n * line + l] = (given + above) * inverse(n)[l];
        }
      for (std::size_t a = 0; a <= b; ++a)
        std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(at(tied_[a].layer) * line), line,
                    response_[pair_index(a, b)].begin() + static_cast<std::ptrdiff_t>(from));
    }
  }
}

// The chains of layers, without edges, in place.
void SpectralSolver::solve_layers(std::span<double> values) const {
  const Network::Parts& parts = network_.parts();
  const std::size_t layers = parts.layers.size();
  for (std::size_t n = 1; n < layers; ++n) {
    const double below = parts.layers[n - 1].above;
    const double* lower = values.data() + (n - 1) * cells_;
    const double* inverse = inverse_.data() + (n - 1) * cells_;
    double* here = values.data() + n * cells_;
    for (std::size_t i = 0; i < cells_; ++i) here[i] += below * inverse[i] * lower[i];
  }
  for (std::size_t n = layers; n-- > 0;) {
    const double above = parts.layers[n].above;
    const double* inverse = inverse_.data() + n * cells_;
    double* here = values.data() + n * cells_;
    if (n + 1 == layers) {
      for (std::size_t i = 0; i < cells_; ++i) here[i] *= inverse[i];
    } else {
      const double* upper = here + cells_;
      for (std::size_t i = 0; i < cells_; ++i) here[i] = (here[i] + above * upper[i]) * inverse[i];
    }
  }
}

std::vector<double> SpectralSolver::solve_package(std::span<const double> heat) const {
  std::vector<double> nodes(heat.size());
  for (std::size_t i = 0; i < heat.size(); ++i)
    nodes[i] = dot({package_inverse_.data() + i * heat.size(), heat.size()}, heat);
  return nodes;
}

SpectralSolver::EdgeVector SpectralSolver::zero_edges() const {
  EdgeVector edges(tied_.size());
  for (Edges& edge : edges)
    for (const std::size_t side : {0, 1}) {
      edge.north_south[side].assign(at(cols_), 0);
      edge.west_east[side].assign(at(rows_), 0);
    }
  return edges;
}

// The temperatures of the tied layers' edge cells.
SpectralSolver::EdgeVector SpectralSolver::traces(std::span<const double> values) const {
  EdgeVector edges = zero_edges();
  for (std::size_t t = 0; t < tied_.size(); ++t)
    for (int k = 0; k < rows_; ++k) {
      const double* line = values.data() + at(tied_[t].layer) * cells_ + at(k * cols_);
      std::vector<double>& along = edges[t].north_south[at(k % 2)];
      for (int l = 0; l < cols_; ++l) along[at(l)] += row_edge_[at(k)] * line[l];
      const auto sums = parity_dots(col_edge_.data(), line, cols_);
      edges[t].west_east[0][at(k)] = sums[0];
      edges[t].west_east[1][at(k)] = sums[1];
    }
  return edges;
}

// Heat at edge cells as heat of modes.
void SpectralSolver::add_edges(std::span<double> values, const EdgeVector& heat,
                               double factor) const {
  for (std::size_t t = 0; t < tied_.size(); ++t)
    for (int k = 0; k < rows_; ++k) {
      double* line = values.data() + at(tied_[t].layer) * cells_ + at(k * cols_);
      const std::vector<double>& along = heat[t].north_south[at(k % 2)];
      const double row = factor * row_edge_[at(k)];
      const std::array<double, 2> ends{factor * heat[t].west_east[0][at(k)],
                                       factor * heat[t].west_east[1][at(k)]};
      for (int l = 0; l < cols_; ++l)
        line[l] += row * along[at(l)] + ends[at(l % 2)] * col_edge_[at(l)];
    }
}

// What heat at the edge cells of the tied layers does to the temperatures of all those cells.
void SpectralSolver::add_layer_response(const EdgeVector& heat, EdgeVector& result) const {
  const std::size_t count = tied_.size(), line = at(cols_);
  std::vector<double> sources(count * line), warmed(line);
  for (int k = 0; k < rows_; ++k) {
    const std::size_t parity = at(k % 2), from = at(k) * line;
    const double row = row_edge_[at(k)];
    for (std::size_t t = 0; t < count; ++t) {
      const double* along = heat[t].north_south[parity].data();
      const std::array<double, 2> ends{heat[t].west_east[0][at(k)], heat[t].west_east[1][at(k)]};
      double* source = sources.data() + t * line;
      for (std::size_t l = 0; l < line; ++l)
        source[l] = row * along[l] + ends[l % 2] * col_edge_[l];
    }
    for (std::size_t a = 0; a < count; ++a) {
      std::fill(warmed.begin(), warmed.end(), 0);
      for (std::size_t b = 0; b < count; ++b) {
        const double* response = response_[pair_index(a, b)].data() + from;
        const double* source = sources.data() + b * line;
        for (std::size_t l = 0; l < line; ++l) warmed[l] += response[l] * source[l];
      }
      double* along = result[a].north_south[parity].data();
      for (std::size_t l = 0; l < line; ++l) along[l] += row * warmed[l];
      const auto sums = parity_dots(col_edge_.data(), warmed.data(), cols_);
      result[a].west_east[0][at(k)] += sums[0];
      result[a].west_east[1][at(k)] += sums[1];
    }
  }
}

// The temperatures of the package nodes as edge cells see them: one along a whole edge.
void SpectralSolver::add_package_traces(EdgeVector& edges, std::span<const double> nodes,
                                        double factor) const {
  const double along = factor * std::sqrt(cols_ / 2.0), down = factor * std::sqrt(rows_ / 2.0);
  for (std::size_t t = 0; t < tied_.size(); ++t) {
    const double* side = nodes.data() + tied_[t].ties.first_node;  // west, east, north, south
    edges[t].west_east[0][0] += down * (side[0] + side[1]);
    edges[t].west_east[1][0] += down * (side[0] - side[1]);
    edges[t].north_south[0][0] += along * (side[2] + side[3]);
    edges[t].north_south[1][0] += along * (side[2] - side[3]);
  }
}

// The heat that edge cells give to package nodes.
std::vector<double> SpectralSolver::package_heat(const EdgeVector& heat) const {
  std::vector<double> nodes(at(network_.package_nodes()));
  const double along = std::sqrt(cols_ / 2.0), down = std::sqrt(rows_ / 2.0);
  for (std::size_t t = 0; t < tied_.size(); ++t) {
    double* side = nodes.data() + tied_[t].ties.first_node;
    const auto& [ns, we] = heat[t];
    side[0] += down * (we[0][0] + we[1][0]);
    side[1] += down * (we[0][0] - we[1][0]);
    side[2] += along * (ns[0][0] + ns[1][0]);
    side[3] += along * (ns[0][0] - ns[1][0]);
  }
  return nodes;
}

// The drop over the ties, of the cells and of the package nodes, for heat that leaves the edges,
// times the root of the ties' conductances from both sides: close to the identity.
SpectralSolver::EdgeVector SpectralSolver::edge_operator(const EdgeVector& scaled) const {
  EdgeVector heat = scaled;
  const auto scale = [&](EdgeVector& edges) {
    for (std::size_t t = 0; t < tied_.size(); ++t)
      for (const std::size_t side : {0, 1}) {
        for (double& value : edges[t].north_south[side])
          value *= std::sqrt(tied_[t].ties.north_south);
        for (double& value : edges[t].west_east[side]) value *= std::sqrt(tied_[t].ties.west_east);
      }
  };
  scale(heat);
  EdgeVector result = zero_edges();
  add_layer_response(heat, result);
  add_package_traces(result, solve_package(package_heat(heat)), 1);
  scale(result);
  for (std::size_t t = 0; t < tied_.size(); ++t)
    for (const std::size_t side : {0, 1}) {
      add_scaled(result[t].north_south[side], scaled[t].north_south[side], 1);
      add_scaled(result[t].west_east[side], scaled[t].west_east[side], 1);
    }
  return result;
}

// Heat through the ties, from the differences there would be if none flowed.
SpectralSolver::EdgeVector SpectralSolver::solve_edges(const EdgeVector& rhs) const {
  const auto each = [&](auto&& visit) {  // every line of edges with the root of its conductance
    for (std::size_t t = 0; t < tied_.size(); ++t)
      for (const std::size_t side : {0, 1}) {
        visit(
            [=](auto& edges) -> auto& { return edges[t].north_south[side]; },
            std::sqrt(tied_[t].ties.north_south));
        visit(
            [=](auto& edges) -> auto& { return edges[t].west_east[side]; },
            std::sqrt(tied_[t].ties.west_east));
      }
  };
  const auto product = [&](const EdgeVector& x, const EdgeVector& y) {
    double sum = 0;
    each([&](auto line, double) { sum += dot(line(x), line(y)); });
    return sum;
  };
  const auto add = [&](EdgeVector& x, const EdgeVector& y, double factor) {
    each([&](auto line, double) { add_scaled(line(x), line(y), factor); });
  };
  EdgeVector residual = rhs;
  each([&](auto line, double root) {
    for (double& value : line(residual)) value *= root;
  });
  EdgeVector heat = zero_edges(), direction = residual;
  double square = product(residual, residual);
  const double enough = square * kEdgeTolerance * kEdgeTolerance;
  for (int i = 0; i < kMostIterations && square > enough && square > 0; ++i) {
    const EdgeVector image = edge_operator(direction);
    const double step = square / product(direction, image);
    add(heat, direction, step);
    add(residual, image, -step);
    const double next = product(residual, residual);
    const double turn = next / square;
    each([&](auto line, double) {
      std::vector<double>& to = line(direction);
      const std::vector<double>& from = line(residual);
      for (std::size_t j = 0; j < to.size(); ++j) to[j] = from[j] + turn * to[j];
    });
    square = next;
  }
  each([&](auto line, double root) {
    for (double& value : line(heat)) value *= root;
  });
  return heat;
}

std::vector<double> SpectralSolver::solve(std::span<const double> rhs) const {
  CHECK(rhs.size() == network_.nodes());
  const std::size_t cells = cells_ * at(network_.layers());
  std::vector<double> values(rhs.begin(), rhs.end());
  solve_layers(std::span(values).first(cells));
  const std::vector<double> nodes = solve_package(rhs.subspan(cells));
  EdgeVector differences = traces(values);
  add_package_traces(differences, nodes, -1);
  const EdgeVector heat = solve_edges(differences);
  std::copy(rhs.begin(), rhs.begin() + static_cast<std::ptrdiff_t>(cells), values.begin());
  add_edges(values, heat, -1);
  solve_layers(std::span(values).first(cells));
  const std::vector<double> warmed = solve_package(package_heat(heat));
  for (std::size_t i = 0; i < nodes.size(); ++i) values[cells + i] = nodes[i] + warmed[i];
  return values;
}

std::vector<double> SpectralSolver::apply(std::span<const double> values) const {
  const Network::Parts& parts = network_.parts();
  const std::vector<double> down = stiffness(rows_), across = stiffness(cols_);
  std::vector<double> result(values.size());
  for (std::size_t n = 0; n < parts.layers.size(); ++n) {
    const CellLayer& layer = parts.layers[n];
    const double constant = layer_constant(parts, n, shift_);
    const double* here = values.data() + n * cells_;
    double* out = result.data() + n * cells_;
    for (std::size_t k = 0, i = 0; k < at(rows_); ++k)
      for (std::size_t l = 0; l < at(cols_); ++l, ++i)
        out[i] = (constant + layer.south * down[k] + layer.east * across[l]) * here[i];
    if (n > 0)
      for (std::size_t i = 0; i < cells_; ++i)
        out[i] -= parts.layers[n - 1].above * values[(n - 1) * cells_ + i];
    if (n + 1 < parts.layers.size())
      for (std::size_t i = 0; i < cells_; ++i) out[i] -= layer.above * here[cells_ + i];
  }
  const std::size_t cells = cells_ * parts.layers.size(), nodes = values.size() - cells;
  EdgeVector heat = traces(values);
  add_package_traces(heat, values.subspan(cells), -1);
  for (std::size_t t = 0; t < tied_.size(); ++t)
    for (const std::size_t side : {0, 1}) {
      for (double& value : heat[t].north_south[side]) value *= tied_[t].ties.north_south;
      for (double& value : heat[t].west_east[side]) value *= tied_[t].ties.west_east;
    }
  add_edges(result, heat, 1);
  const std::vector<double> given = package_heat(heat);
  for (std::size_t i = 0; i < nodes; ++i)
    result[cells + i] = dot({package_.data() + i * nodes, nodes}, values.subspan(cells)) - given[i];
  return result;
}

void to_spectral(const Network& network, const numeric::CosineTransform& transform,
                 std::span<double> values) {
  const std::size_t cells = network.parts().cells();
  for (std::size_t n = 0; n < at(network.layers()); ++n)
    transform.forward(values.subspan(n * cells, cells));
}

void from_spectral(const Network& network, const numeric::CosineTransform& transform,
                   std::span<double> values) {
  const std::size_t cells = network.parts().cells();
  for (std::size_t n = 0; n < at(network.layers()); ++n)
    transform.inverse(values.subspan(n * cells, cells));
}

}  // namespace partita::thermal
