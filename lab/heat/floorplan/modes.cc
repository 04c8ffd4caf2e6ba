#include "heat/floorplan/modes.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "base/numeric/dense.h"
#include "base/numeric/nnls.h"

namespace partita::floorplan {
namespace {

constexpr double kWorstCondition = 1e4;

}  // namespace

std::vector<double> wave_numbers(int rows, int cols, double pixel_m) {
  std::vector<double> all;
  for (int p = 0; p < rows; ++p)
    for (int q = 0; q < cols; ++q)
      all.push_back(std::numbers::pi / pixel_m *
                    std::hypot(static_cast<double>(p) / rows, static_cast<double>(q) / cols));
  return all;
}

std::vector<double> kernel(const SlabGuess& slab, const Session& session) {
  std::vector<double> factors = wave_numbers(session.rows(), session.cols(), session.pixel_m);
  const double area = session.pixel_m * session.pixel_m;
  const double base = 1 / (1 / slab.bottom - 1 / slab.contact);  // below the contact
  for (double& factor : factors) {
    const double wave = factor, depth = wave * slab.thickness_m;
    const double below = 1 / (1 / slab.contact + 1 / (base + slab.sheet * wave * wave));
    const double blur = wave * session.blur_px * session.pixel_m;
    // From the bottom of the slab, where the power is, to its insulated top.
    factor = std::exp(-blur * blur / 2) /
             (area * (slab.conductivity * wave * std::sinh(depth) + below * std::cosh(depth)));
  }
  return factors;
}

Result<Unmixed> unmixed(const Session& session, const std::vector<raster::Grid>& pictures,
                        const std::string& name) {
  const std::size_t captures = session.captures.size(), components = session.components.size();
  if (captures < components + 1)
    return bad_input(name, fmt::format("{} captures for {} components; at least one more capture "
                                       "than components is needed",
                                       captures, components));
  // Captures weighted by the root of their frames, with the columns of the counters at length 1.
  const std::size_t columns = components + 1;
  numeric::DenseRows counters =
      numeric::dense_rows(static_cast<int>(captures), static_cast<int>(columns));
  std::vector<double> root, scale(columns);
  for (std::size_t b = 0; b < captures; ++b) {
    root.push_back(std::sqrt(session.captures[b].frames));
    for (std::size_t c = 0; c < columns; ++c) {
      double& value = counters.values[b * columns + c];
      value = root[b] * (c < components ? session.captures[b].watts[c] : 1);
      scale[c] += value * value;
    }
  }
  if (!(numeric::condition(counters) < kWorstCondition))
    return bad_input(name,
                     "the captures' watts do not tell the components apart: some always run "
                     "in the same proportion");
  for (double& length : scale) length = std::sqrt(length);
  const auto even = [&](std::size_t b, std::size_t c) {
    return counters.values[b * columns + c] / scale[c];
  };
  std::vector<double> normal(columns * columns);
  for (std::size_t b = 0; b < captures; ++b)
    for (std::size_t c = 0; c < columns; ++c)
      for (std::size_t k = 0; k < columns; ++k) normal[c * columns + k] += even(b, c) * even(b, k);

  Unmixed result;
  std::vector<double> variance(components);
  result.kelvin_per_watt.assign(components, raster::Grid(session.rows(), session.cols()));
  for (std::size_t b = 0; b < captures; ++b) {
    std::vector<double> row(columns);
    for (std::size_t c = 0; c < columns; ++c) row[c] = even(b, c);
    const std::vector<double> solved = numeric::solve_symmetric(normal, row);
    for (std::size_t c = 0; c < components; ++c) {
      const double weight = solved[c] / scale[c];  // of a picture weighted by its root
      std::vector<double>& sum = result.kelvin_per_watt[c].values;
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += weight * root[b] * pictures[b].values[i];
      variance[c] += weight * weight;
    }
  }
  for (const double v : variance) result.noise.push_back(session.noise_k * std::sqrt(v));
  return result;
}

}  // namespace partita::floorplan
