#include "heat/floorplan/deconvolve.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace partita::floorplan {
namespace {

constexpr double kBlockScale = 0.4e-3;  // metres: finer structure than this is rare
constexpr double kTypicalCells = 1000;  // pixels of a block, which makes powers about 1

using Values = std::vector<double>;

// Squared frequencies of the five-point Laplacian, per pixel squared.
Values curvatures(int rows, int cols) {
  Values all;
  for (int p = 0; p < rows; ++p)
    for (int q = 0; q < cols; ++q)
      all.push_back(-numeric::insulated_eigenvalue(p, rows) -
                    numeric::insulated_eigenvalue(q, cols));
  return all;
}

// Differences to the cell below and to the right; 0 at the edge. Split from u with multipliers.
struct Slopes {
  Values down, right;
};

Slopes slopes_of(const Values& u, int rows, int cols) {
  Slopes s{Values(u.size(), 0), Values(u.size(), 0)};
  const auto stride = static_cast<std::size_t>(cols);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      const std::size_t i = static_cast<std::size_t>(r) * stride + static_cast<std::size_t>(c);
      if (r + 1 < rows) s.down[i] = u[i + stride] - u[i];
      if (c + 1 < cols) s.right[i] = u[i + 1] - u[i];
    }
  return s;
}

// The transposed differences, added to `into`.
Values with_divergence(Values into, const Slopes& s, int rows, int cols, double factor) {
  const auto stride = static_cast<std::size_t>(cols);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      const std::size_t i = static_cast<std::size_t>(r) * stride + static_cast<std::size_t>(c);
      if (r + 1 < rows) into[i + stride] += factor * s.down[i], into[i] -= factor * s.down[i];
      if (c + 1 < cols) into[i + 1] += factor * s.right[i], into[i] -= factor * s.right[i];
    }
  return into;
}

// One round's split variables: slopes made shorter by `by`, powers made not negative.
void shrink(Slopes& split, Slopes& multiplier, const Slopes& slopes, double by) {
  for (std::size_t i = 0; i < split.down.size(); ++i) {
    const double down = slopes.down[i] + multiplier.down[i];
    const double right = slopes.right[i] + multiplier.right[i];
    const double length = std::hypot(down, right);
    const double kept = length > by ? 1 - by / length : 0;
    split.down[i] = kept * down;
    split.right[i] = kept * right;
    multiplier.down[i] = down - split.down[i];
    multiplier.right[i] = right - split.right[i];
  }
}

}  // namespace

Trust trust_of(const SlabGuess& slab, const Session& session, double noise) {
  Trust trust;
  trust.kernel = kernel(slab, session);
  trust.noise = noise;
  trust.expected = wave_numbers(session.rows(), session.cols(), session.pixel_m);
  const double cells = static_cast<double>(trust.expected.size());
  for (double& wave : trust.expected)
    wave = 2 / cells / std::pow(1 + std::pow(wave * kBlockScale, 2), 1.5);
  return trust;
}

raster::Grid wiener(const raster::Grid& kelvin_per_watt, const Trust& trust) {
  const numeric::CosineTransform transform(kelvin_per_watt.rows, kelvin_per_watt.cols);
  raster::Grid power = kelvin_per_watt;
  transform.forward(power.values);
  const double error = trust.model_error * trust.model_error;
  for (std::size_t m = 0; m < power.values.size(); ++m) {
    const double k = trust.kernel[m];
    power.values[m] *= k / ((1 + error) * k * k + trust.noise * trust.noise / trust.expected[m]);
  }
  transform.inverse(power.values);
  return power;
}

raster::Grid smooth_power(const raster::Grid& kelvin_per_watt, const Trust& trust,
                          const TotalVariation& how) {
  const int rows = kelvin_per_watt.rows, cols = kelvin_per_watt.cols;
  const numeric::CosineTransform transform(rows, cols);
  Values data = kelvin_per_watt.values;
  transform.forward(data);
  const Values curve = curvatures(rows, cols);
  Values pull(data.size());  // how strongly the data hold each mode, for powers of about 1
  double dual = 0;
  for (std::size_t m = 0; m < data.size(); ++m) {
    const double k = trust.kernel[m] / kTypicalCells, kept = trust.kernel[m] * trust.model_error;
    const double variance = trust.noise * trust.noise + kept * kept * trust.expected[m];
    pull[m] = k * k / variance;
    data[m] *= k / variance;
    if (curve[m] > 0) dual += pull[m] / curve[m];
  }
  const double weight = how.weight * std::sqrt(dual / static_cast<double>(data.size()));
  const double rho = 4 * weight, rho_sign = 2 * weight;
  Values u(data.size(), 0), positive = u, multiplier = u;
  Slopes split{u, u}, turned{u, u};
  for (int i = 0; i < how.iterations; ++i) {
    Values right(u.size());
    for (std::size_t k = 0; k < u.size(); ++k) right[k] = rho_sign * (positive[k] - multiplier[k]);
    Slopes wanted = split;
    for (std::size_t k = 0; k < u.size(); ++k) {
      wanted.down[k] -= turned.down[k];
      wanted.right[k] -= turned.right[k];
    }
    u = with_divergence(std::move(right), wanted, rows, cols, rho);
    transform.forward(u);
    for (std::size_t m = 0; m < u.size(); ++m)
      u[m] = (u[m] + data[m]) / (pull[m] + rho * curve[m] + rho_sign);
    transform.inverse(u);
    shrink(split, turned, slopes_of(u, rows, cols), weight / rho);
    for (std::size_t k = 0; k < u.size(); ++k) {
      positive[k] = std::max(0.0, u[k] + multiplier[k]);
      multiplier[k] += u[k] - positive[k];
    }
  }
  raster::Grid power(rows, cols);
  for (std::size_t k = 0; k < u.size(); ++k) power.values[k] = positive[k] / kTypicalCells;
  return power;
}

raster::Grid gaussian(const raster::Grid& grid, double sigma_px) {
  const numeric::CosineTransform transform(grid.rows, grid.cols);
  raster::Grid smooth = grid;
  transform.forward(smooth.values);
  const Values waves = wave_numbers(grid.rows, grid.cols, 1);
  for (std::size_t m = 0; m < waves.size(); ++m)
    smooth.values[m] *= std::exp(-std::pow(waves[m] * sigma_px, 2) / 2);
  transform.inverse(smooth.values);
  return smooth;
}

raster::Grid negative_laplacian(const raster::Grid& grid) {
  raster::Grid result(grid.rows, grid.cols);
  result.values =
      with_divergence(std::move(result.values), slopes_of(grid.values, grid.rows, grid.cols),
                      grid.rows, grid.cols, 1);
  return result;
}

}  // namespace partita::floorplan
