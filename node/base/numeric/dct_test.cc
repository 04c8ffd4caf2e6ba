#include "base/numeric/dct.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

namespace partita::numeric {
namespace {

std::vector<double> some(int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(std::sin(i * 1.7) + 0.3 * (i % 5));
  return values;
}

// The definition, term by term.
double coefficient(const std::vector<double>& values, int rows, int cols, int p, int q) {
  const auto scale = [](int k, int n) { return std::sqrt((k == 0 ? 1.0 : 2.0) / n); };
  double sum = 0;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c)
      sum += values[static_cast<std::size_t>(r * cols + c)] *
             std::cos(std::numbers::pi * (r + 0.5) * p / rows) *
             std::cos(std::numbers::pi * (c + 0.5) * q / cols);
  return sum * scale(p, rows) * scale(q, cols);
}

TEST(CosineTransform, IsTheDefinition) {
  for (const auto& [rows, cols] : {std::pair{1, 1}, {1, 7}, {5, 1}, {4, 6}, {9, 7}}) {
    const CosineTransform transform(rows, cols);
    const std::vector<double> values = some(rows * cols);
    std::vector<double> found = values;
    transform.forward(found);
    for (int p = 0; p < rows; ++p)
      for (int q = 0; q < cols; ++q)
        EXPECT_NEAR(found[static_cast<std::size_t>(p * cols + q)],
                    coefficient(values, rows, cols, p, q), 1e-12);
    transform.inverse(found);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(found[i], values[i], 1e-12);
  }
}

TEST(CosineTransform, MakesTheInsulatedLaplacianDiagonal) {
  const int n = 8;
  const CosineTransform transform(1, n);
  const std::vector<double> u = some(n);
  std::vector<double> laplacian, spectrum = u;
  for (int i = 0; i < n; ++i) {
    const auto at = [&](int k) { return u[static_cast<std::size_t>(std::clamp(k, 0, n - 1))]; };
    laplacian.push_back(at(i - 1) - 2 * at(i) + at(i + 1));
  }
  transform.forward(laplacian);
  transform.forward(spectrum);
  for (int k = 0; k < n; ++k)
    EXPECT_NEAR(laplacian[static_cast<std::size_t>(k)],
                insulated_eigenvalue(k, n) * spectrum[static_cast<std::size_t>(k)], 1e-12);
}

}  // namespace
}  // namespace partita::numeric
