#include "model/floorplan/modes.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <cmath>
#include <numbers>

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
  const auto captures = static_cast<Eigen::Index>(session.captures.size());
  const auto components = static_cast<Eigen::Index>(session.components.size());
  if (captures < components + 1)
    return bad_input(name, fmt::format("{} captures for {} components; at least one more capture "
                                       "than components is needed",
                                       captures, components));
  Eigen::MatrixXd counters(captures, components + 1);
  Eigen::VectorXd root(captures);  // of the weight: frames
  for (Eigen::Index b = 0; b < captures; ++b) {
    const Capture& capture = session.captures[static_cast<std::size_t>(b)];
    root(b) = std::sqrt(capture.frames);
    for (Eigen::Index c = 0; c < components; ++c)
      counters(b, c) = capture.watts[static_cast<std::size_t>(c)];
    counters(b, components) = 1;
  }
  const Eigen::MatrixXd weighted = root.asDiagonal() * counters;
  const Eigen::VectorXd scale = weighted.colwise().norm().cwiseMax(1e-300);
  const Eigen::MatrixXd even = weighted * scale.cwiseInverse().asDiagonal();
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(even, Eigen::ComputeThinU | Eigen::ComputeThinV);
  const auto& values = svd.singularValues();
  if (!(values(values.size() - 1) * kWorstCondition > values(0)))
    return bad_input(name,
                     "the captures' watts do not tell the components apart: some always run "
                     "in the same proportion");
  const Eigen::MatrixXd inverse = scale.cwiseInverse().asDiagonal() * svd.matrixV() *
                                  values.cwiseInverse().asDiagonal() * svd.matrixU().transpose() *
                                  root.asDiagonal();
  Unmixed result;
  for (Eigen::Index c = 0; c < components; ++c) {
    raster::Grid grid(session.rows(), session.cols());
    double variance = 0;
    for (Eigen::Index b = 0; b < captures; ++b) {
      const double weight = inverse(c, b);
      const raster::Grid& picture = pictures[static_cast<std::size_t>(b)];
      for (std::size_t i = 0; i < grid.values.size(); ++i)
        grid.values[i] += weight * picture.values[i];
      variance += weight * weight / (root(b) * root(b));
    }
    result.kelvin_per_watt.push_back(std::move(grid));
    result.noise.push_back(session.noise_k * std::sqrt(variance));
  }
  return result;
}

}  // namespace partita::floorplan
