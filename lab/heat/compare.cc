#include "heat/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/index.h"

namespace partita::thermal {
namespace {

constexpr double kLeastRise = 1e-6;  // kelvin; below, an error in per cent says nothing
constexpr int kBins = 64, kWindow = 8;

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

struct Moments {
  double mean_a = 0, mean_b = 0, var_a = 0, var_b = 0, covariance = 0;
};
Moments moments_of(std::span<const double> a, std::span<const double> b) {
  Moments m{mean_of(a), mean_of(b)};
  for (std::size_t i = 0; i < a.size(); ++i) {
    m.var_a += (a[i] - m.mean_a) * (a[i] - m.mean_a);
    m.var_b += (b[i] - m.mean_b) * (b[i] - m.mean_b);
    m.covariance += (a[i] - m.mean_a) * (b[i] - m.mean_b);
  }
  const double n = static_cast<double>(a.size());
  m.var_a /= n;
  m.var_b /= n;
  m.covariance /= n;
  return m;
}

// 1 where both are constant, 0 where one is.
double correlation(std::span<const double> a, std::span<const double> b) {
  const Moments m = moments_of(a, b);
  if (m.var_a == 0 && m.var_b == 0) return 1;
  if (m.var_a == 0 || m.var_b == 0) return 0;
  return m.covariance / std::sqrt(m.var_a * m.var_b);
}

// Equal values share the mean of their ranks.
std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
  std::vector<double> rank(values.size());
  for (std::size_t from = 0, to = 0; from < order.size(); from = to) {
    while (to < order.size() && values[order[to]] == values[order[from]]) ++to;
    for (std::size_t i = from; i < to; ++i)
      rank[order[i]] = (static_cast<double>(from) + static_cast<double>(to) - 1) / 2;
  }
  return rank;
}

void add_rise_errors(ValueAgreement& agreement, std::span<const double> result,
                     std::span<const double> reference, double ambient) {
  std::vector<double> errors;
  double logs = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double rise = std::abs(reference[i] - ambient);
    if (rise < kLeastRise) continue;
    errors.push_back(100 * std::abs(result[i] - reference[i]) / rise);
    logs += std::log(std::max(errors.back(), 1e-12));
  }
  if (errors.empty()) return;
  std::ranges::sort(errors);
  agreement.rise_error_geomean = std::exp(logs / static_cast<double>(errors.size()));
  const double place = 0.95 * static_cast<double>(errors.size() - 1);
  agreement.rise_error_p95 = errors[static_cast<std::size_t>(std::ceil(place))];
}

raster::Grid normalised(const raster::Grid& grid) {
  const auto [least, most] = std::ranges::minmax(grid.values);
  raster::Grid scaled = grid;
  for (double& value : scaled.values) value = most > least ? (value - least) / (most - least) : 0;
  return scaled;
}

// The mean structural similarity over windows; constants as usual for a range of 1.
double similarity_of(const raster::Grid& a, const raster::Grid& b) {
  constexpr double kSmall1 = 0.01 * 0.01, kSmall2 = 0.03 * 0.03;
  double sum = 0;
  int windows = 0;
  for (int row = 0; row < a.rows; row += kWindow)
    for (int col = 0; col < a.cols; col += kWindow) {
      std::vector<double> x, y;
      for (int i = row; i < std::min(a.rows, row + kWindow); ++i)
        for (int j = col; j < std::min(a.cols, col + kWindow); ++j) {
          x.push_back(a.at(i, j));
          y.push_back(b.at(i, j));
        }
      const Moments m = moments_of(x, y);
      sum +=
          (2 * m.mean_a * m.mean_b + kSmall1) * (2 * m.covariance + kSmall2) /
          ((m.mean_a * m.mean_a + m.mean_b * m.mean_b + kSmall1) * (m.var_a + m.var_b + kSmall2));
      ++windows;
    }
  return sum / windows;
}

double histogram_overlap_of(const raster::Grid& a, const raster::Grid& b) {
  const auto [least_a, most_a] = std::ranges::minmax(a.values);
  const auto [least_b, most_b] = std::ranges::minmax(b.values);
  const double least = std::min(least_a, least_b), most = std::max(most_a, most_b);
  if (!(most > least)) return 1;
  std::array<double, kBins> bins_a{}, bins_b{};
  const auto count = [&](const raster::Grid& grid, std::array<double, kBins>& bins) {
    for (const double value : grid.values) {
      const int bin = static_cast<int>((value - least) / (most - least) * kBins);
      bins[at(std::min(bin, kBins - 1))] += 1.0 / static_cast<double>(grid.values.size());
    }
  };
  count(a, bins_a);
  count(b, bins_b);
  double overlap = 0;
  for (std::size_t i = 0; i < kBins; ++i) overlap += std::min(bins_a[i], bins_b[i]);
  return overlap;
}

double wasserstein_of(const raster::Grid& a, const raster::Grid& b) {
  std::vector<double> x = a.values, y = b.values;
  std::ranges::sort(x);
  std::ranges::sort(y);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::abs(x[i] - y[i]);
  return sum / static_cast<double>(x.size());
}

}  // namespace

ValueAgreement value_agreement(std::span<const double> result, std::span<const double> reference,
                               std::optional<double> ambient) {
  CHECK(!result.empty() && result.size() == reference.size());
  ValueAgreement agreement;
  agreement.values = static_cast<int>(result.size());
  const Moments m = moments_of(reference, result);
  agreement.slope = m.var_a > 0 ? m.covariance / m.var_a : 0;
  agreement.intercept = m.mean_b - agreement.slope * m.mean_a;
  agreement.pearson = correlation(result, reference);
  agreement.spearman = correlation(ranks(result), ranks(reference));
  double squares = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double difference = result[i] - reference[i];
    squares += difference * difference;
    agreement.worst_k = std::max(agreement.worst_k, std::abs(difference));
  }
  agreement.mean_k = m.mean_b - m.mean_a;
  agreement.rms_k = std::sqrt(squares / static_cast<double>(result.size()));
  if (ambient) add_rise_errors(agreement, result, reference, *ambient);
  return agreement;
}

MapAgreement map_agreement(const raster::Grid& result, const raster::Grid& reference, CellSize cell,
                           std::optional<double> ambient) {
  CHECK(result.rows == reference.rows && result.cols == reference.cols);
  MapAgreement agreement;
  agreement.cells = value_agreement(result.values, reference.values, ambient);
  const raster::Grid a = normalised(result), b = normalised(reference);
  agreement.normalised_rmse = value_agreement(a.values, b.values, std::nullopt).rms_k;
  agreement.similarity = similarity_of(a, b);
  const auto peak_a = std::ranges::max_element(result.values) - result.values.begin();
  const auto peak_b = std::ranges::max_element(reference.values) - reference.values.begin();
  agreement.peak_k =
      *std::ranges::max_element(result.values) - *std::ranges::max_element(reference.values);
  const auto distance = [&](auto from, auto to, double size) {
    return static_cast<double>(from - to) * size;
  };
  agreement.peak_distance =
      std::hypot(distance(peak_a / result.cols, peak_b / result.cols, cell.height),
                 distance(peak_a % result.cols, peak_b % result.cols, cell.width));
  agreement.histogram_overlap = histogram_overlap_of(result, reference);
  agreement.wasserstein_k = wasserstein_of(result, reference);
  return agreement;
}

}  // namespace partita::thermal
