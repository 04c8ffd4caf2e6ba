#include "base/numeric/nnls.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace partita::numeric {
namespace {

DenseRows random_rows(Rng& rng, int rows, int columns) {
  DenseRows a = dense_rows(rows, columns);
  for (double& value : a.values) value = 2 * rng.uniform() - 1;
  return a;
}

std::vector<double> random_values(Rng& rng, int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(2 * rng.uniform() - 1);
  return values;
}

double squares(const DenseRows& a, const std::vector<double>& x, const std::vector<double>& b) {
  double sum = 0;
  for (int r = 0; r < a.rows; ++r) {
    double rest = b[static_cast<std::size_t>(r)];
    for (int c = 0; c < a.columns; ++c) rest -= a.at(r, c) * x[static_cast<std::size_t>(c)];
    sum += rest * rest;
  }
  return sum;
}

// Conditions of Karush, Kuhn and Tucker, which make the least squares of this convex problem.
TEST(Nnls, NoDirectionIsBetter) {
  Rng rng(1);
  for (int round = 0; round < 300; ++round) {
    const int rows = 1 + static_cast<int>(rng.below(12)),
              columns = 1 + static_cast<int>(rng.below(9));
    const DenseRows a = random_rows(rng, rows, columns);
    const std::vector<double> b = random_values(rng, rows);
    const std::vector<double> x = nnls(a, b);
    for (int c = 0; c < columns; ++c) {
      double gradient = 0;
      for (int r = 0; r < rows; ++r) {
        double rest = b[static_cast<std::size_t>(r)];
        for (int k = 0; k < columns; ++k) rest -= a.at(r, k) * x[static_cast<std::size_t>(k)];
        gradient += a.at(r, c) * rest;
      }
      ASSERT_GE(x[static_cast<std::size_t>(c)], 0);
      ASSERT_LT(gradient, 1e-9) << "round " << round;
      if (x[static_cast<std::size_t>(c)] > 0) {
        ASSERT_GT(gradient, -1e-9) << "round " << round;
      }
    }
  }
}

// Every set of columns that may be positive, each solved by a fine search over two coefficients.
TEST(Nnls, IsAsGoodAsAGridOfTwoCoefficients) {
  Rng rng(2);
  for (int round = 0; round < 20; ++round) {
    const DenseRows a = random_rows(rng, 5, 2);
    const std::vector<double> b = random_values(rng, 5);
    const double found = squares(a, nnls(a, b), b);
    for (double x = 0; x < 3; x += 0.02)
      for (double y = 0; y < 3; y += 0.02) ASSERT_LE(found, squares(a, {x, y}, b) + 1e-12);
  }
}

TEST(Nnls, FindsWhatMadeTheRowsAcrossScales) {
  Rng rng(3);
  DenseRows a = random_rows(rng, 20, 4);
  const std::vector<double> truth{3e-12, 0, 2e-3, 5e6};
  const std::vector<double> scales{1e9, 1, 1e3, 1e-7};
  std::vector<double> b;
  for (int r = 0; r < a.rows; ++r) {
    b.push_back(0);
    for (int c = 0; c < a.columns; ++c) {
      a.at(r, c) *= scales[static_cast<std::size_t>(c)];
      b.back() += a.at(r, c) * truth[static_cast<std::size_t>(c)];
    }
  }
  const std::vector<double> x = nnls(a, b);
  for (std::size_t c = 0; c < truth.size(); ++c)
    EXPECT_NEAR(x[c], truth[c], 1e-9 * truth[c] + (truth[c] == 0 ? 1e-9 : 0)) << c;
}

TEST(Dependence, NamesWhatCannotBeTold) {
  Rng rng(4);
  DenseRows a = random_rows(rng, 10, 5);
  EXPECT_FALSE(dependence(a));
  for (int r = 0; r < a.rows; ++r) a.at(r, 3) = 2 * a.at(r, 0) - 5e3 * a.at(r, 2);
  auto found = dependence(a);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->column, 3);
  EXPECT_EQ(found->others, (std::vector<int>{0, 2}));
  for (int r = 0; r < a.rows; ++r) a.at(r, 4) = 0;
  found = dependence(a);
  EXPECT_EQ(found->column, 4);
  EXPECT_TRUE(found->others.empty());
}

TEST(Condition, IsThatOfHandValues) {
  DenseRows a = dense_rows(2, 2);
  a.values = {1, 0, 0, 7};  // orthogonal, whatever the lengths
  EXPECT_NEAR(condition(a), 1, 1e-12);
  a.values = {1, 1, 0, 1};  // columns at 45 degrees: singular values sqrt(1 +- sqrt(1/2))
  EXPECT_NEAR(condition(a), std::sqrt((1 + std::sqrt(0.5)) / (1 - std::sqrt(0.5))), 1e-9);
  a.values = {1, 2, 1, 2};
  EXPECT_EQ(condition(a), std::numeric_limits<double>::infinity());
}

TEST(Triangle, HasTheLeastSquaresOfAllRows) {
  Rng rng(3);
  const int rows = 3001, columns = 5;
  DenseRows a = dense_rows(rows, columns);
  std::vector<double> b, weights;
  for (int r = 0; r < rows; ++r) {
    double sum = 0.1 * rng.uniform();
    for (int c = 0; c < columns; ++c) {
      a.at(r, c) = std::pow(10.0, c) * rng.uniform();
      sum += a.at(r, c) * (c == 3 ? -0.001 : 1.0 + c);  // one coefficient wants to be negative
    }
    b.push_back(sum);
    weights.push_back(r % 7 == 0 ? 0 : rng.uniform());
  }
  DenseRows weighed = a;
  std::vector<double> y = b;
  for (int r = 0; r < rows; ++r) {
    const double root = std::sqrt(weights[static_cast<std::size_t>(r)]);
    for (int c = 0; c < columns; ++c) weighed.at(r, c) *= root;
    y[static_cast<std::size_t>(r)] *= root;
  }
  const std::vector<double> want = nnls(weighed, y);
  const DenseRows small = triangle(a, b, weights);
  ASSERT_EQ(small.rows, columns + 1);
  DenseRows left = dense_rows(small.rows, columns);
  std::vector<double> right;
  for (int r = 0; r < small.rows; ++r) {
    for (int c = 0; c < columns; ++c) left.at(r, c) = small.at(r, c);
    right.push_back(small.at(r, columns));
  }
  const std::vector<double> found = nnls(left, right);
  for (int c = 0; c < columns; ++c)
    EXPECT_NEAR(found[static_cast<std::size_t>(c)], want[static_cast<std::size_t>(c)],
                1e-9 * std::max(1e-3, want[static_cast<std::size_t>(c)]))
        << c;
  // What nothing tells apart is found in it, too.
  for (int r = 0; r < rows; ++r) a.at(r, 4) = 2 * a.at(r, 0) + a.at(r, 1);
  const auto depends = dependence(a);
  ASSERT_TRUE(depends);
  EXPECT_EQ(depends->column, 4);
  EXPECT_EQ(depends->others, (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace partita::numeric
