#include "base/numeric/robust.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"

namespace partita::numeric {
namespace {

double normal(Rng& rng) {
  return std::sqrt(2 * rng.exponential()) * std::cos(6.283185307179586 * rng.uniform());
}

struct Data {
  DenseRows x;
  std::vector<double> y;
};

// Two costs, 3 and 5, over four decades of size; `noise` is relative.
Data line(std::uint64_t seed, int rows, double noise) {
  Rng rng(seed);
  Data data{dense_rows(rows, 2), {}};
  for (int r = 0; r < rows; ++r) {
    const double size = std::pow(10, 4 * rng.uniform());
    data.x.at(r, 0) = size * rng.uniform();
    data.x.at(r, 1) = size * rng.uniform();
    data.y.push_back((3 * data.x.at(r, 0) + 5 * data.x.at(r, 1)) * (1 + noise * normal(rng)));
  }
  return data;
}

TEST(RobustFit, IsExactOnExactRows) {
  const Data data = line(1, 12, 0);
  for (const Loss loss : {Loss::squares, Loss::huber, Loss::bisquare}) {
    const RobustFit fit = robust_fit(data.x, data.y, {loss, true, {}});
    EXPECT_NEAR(fit.coefficients[0], 3, 1e-9);
    EXPECT_NEAR(fit.coefficients[1], 5, 1e-9);
    EXPECT_LT(fit.scale, 1e-6);
    EXPECT_TRUE(fit.converged);
  }
}

// Least squares in closed form: normal equations of two columns, rows divided by y.
TEST(RobustFit, OfSquaresIsLeastSquaresOfRelativeResiduals) {
  const Data data = line(2, 30, 0.1);
  double a = 0, b = 0, d = 0, p = 0, q = 0;
  for (int r = 0; r < 30; ++r) {
    const double y = data.y[static_cast<std::size_t>(r)];
    const double u = data.x.at(r, 0) / y, v = data.x.at(r, 1) / y;
    a += u * u;
    b += u * v;
    d += v * v;
    p += u;
    q += v;
  }
  const RobustFit fit = robust_fit(data.x, data.y, {Loss::squares, true, {}});
  const double det = a * d - b * b;
  EXPECT_NEAR(fit.coefficients[0], (d * p - b * q) / det, 1e-9);
  EXPECT_NEAR(fit.coefficients[1], (a * q - b * p) / det, 1e-9);
  double rest = 0;
  for (const double r : fit.residuals) rest += r * r;
  // Ordinary standard errors.
  EXPECT_NEAR(fit.standard_errors[0], std::sqrt(rest / 28 * d / det),
              0.15 * fit.standard_errors[0]);
}

TEST(RobustFit, OutliersBendLeastSquaresAndNotBisquare) {
  Data data = line(3, 40, 0.02);
  for (std::size_t r = 0; r < 8; ++r) data.y[r] *= 6;  // a fifth of the rows
  const auto worst = [&](Loss loss) {
    const RobustFit fit = robust_fit(data.x, data.y, {loss, true, {}});
    return std::max(std::abs(fit.coefficients[0] / 3 - 1), std::abs(fit.coefficients[1] / 5 - 1));
  };
  EXPECT_LT(worst(Loss::bisquare), 0.03);
  const RobustFit fit = robust_fit(data.x, data.y, {Loss::bisquare, true, {}});
  for (std::size_t r = 0; r < 40; ++r)
    EXPECT_EQ(fit.weights[r] < 0.1, r < 8) << r << ": " << fit.weights[r];
  for (std::size_t r = 0; r < 8; ++r) data.y[r] /= 36;  // to the other side
  EXPECT_LT(worst(Loss::bisquare), 0.03);
  EXPECT_GT(worst(Loss::squares), 0.2);
}

// Over many samples the spread of the coefficients is what one sample says it is.
TEST(RobustFit, StandardErrorsAreTheSpread) {
  for (const Loss loss : {Loss::squares, Loss::huber, Loss::bisquare}) {
    double sum = 0, squared = 0, said = 0;
    const int rounds = 150;
    for (int round = 0; round < rounds; ++round) {
      const Data data = line(100 + static_cast<std::uint64_t>(round), 25, 0.05);
      const RobustFit fit = robust_fit(data.x, data.y, {loss, true, {}});
      const double error = fit.coefficients[0] - 3;
      sum += error;
      squared += error * error;
      said += fit.standard_errors[0];
    }
    const double spread = std::sqrt(squared / rounds - std::pow(sum / rounds, 2));
    EXPECT_NEAR(said / rounds, spread, 0.25 * spread) << static_cast<int>(loss);
  }
}

TEST(RobustFit, BeliefsDecideWhereRowsSayNothing) {
  Data data = line(4, 20, 0.01);
  for (int r = 0; r < 20; ++r) {  // the second column in proportion to the first
    data.x.at(r, 1) = 2 * data.x.at(r, 0);
    data.y[static_cast<std::size_t>(r)] = 13 * data.x.at(r, 0);
  }
  RobustOptions options;
  options.beliefs = {{3, 0.3}, {5, 0.5}};
  RobustFit fit = robust_fit(data.x, data.y, options);
  EXPECT_NEAR(fit.coefficients[0], 3, 1e-3);
  EXPECT_NEAR(fit.coefficients[1], 5, 1e-3);
  options.beliefs = {{5, 0.001}, {1, 1}};  // the surer one stays
  fit = robust_fit(data.x, data.y, options);
  EXPECT_NEAR(fit.coefficients[0], 5, 0.01);
  EXPECT_NEAR(fit.coefficients[1], 4, 0.01);
}

TEST(RobustFit, CoefficientsAreNotNegative) {
  Data data = line(5, 20, 0.05);
  for (int r = 0; r < 20; ++r)  // free, or better than free
    data.y[static_cast<std::size_t>(r)] =
        std::max(1e-3, 3 * data.x.at(r, 0) - 0.2 * std::min(data.x.at(r, 0), data.x.at(r, 1)));
  const RobustFit fit = robust_fit(data.x, data.y, {Loss::huber, true, {}});
  EXPECT_EQ(fit.coefficients[1], 0);
  EXPECT_GT(fit.coefficients[0], 2);
}

// More rows than the random starts look at, a third of them far off in one direction.
TEST(RobustFit, ManyRowsOfWhichAThirdIsWrong) {
  const int rows = 12'000;
  Data data = line(6, rows, 0.01);
  for (int r = 0; r < rows; r += 3) data.y[static_cast<std::size_t>(r)] *= 4;
  const RobustFit fit = robust_fit(data.x, data.y, {Loss::bisquare, true, {}});
  EXPECT_NEAR(fit.coefficients[0], 3, 0.01);
  EXPECT_NEAR(fit.coefficients[1], 5, 0.01);
  // The scale is by the median of all residuals, of which a third is far off: the 75th percentile.
  EXPECT_NEAR(fit.scale, 0.01 * 1.1503 / 0.6745, 0.0005);
  EXPECT_LT(fit.weights[0], 0.01);
  EXPECT_GT(fit.weights[1], 0.1);
}

}  // namespace
}  // namespace partita::numeric
