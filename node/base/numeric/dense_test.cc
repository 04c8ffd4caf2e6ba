#include "base/numeric/dense.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <cmath>

#include <vector>

namespace partita::numeric {
namespace {

// Values of a matrix, small whole numbers so that sums are exact.
std::vector<double> values(std::size_t count) {
  std::vector<double> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(*rc::gen::inRange(-9, 10));
  return made;
}

RC_GTEST_PROP(TransposedProduct, IsEveryColumnByEveryColumn, ()) {
  const auto rows = *rc::gen::inRange<std::size_t>(1, 20);
  const auto left = *rc::gen::inRange<std::size_t>(1, 12);
  const auto right = *rc::gen::inRange<std::size_t>(1, 12);
  const auto a = values(rows * left), b = values(rows * right);
  const auto product = transposed_product(a, b, rows);
  RC_ASSERT(product.size() == left * right);
  for (std::size_t i = 0; i < left; ++i)
    for (std::size_t j = 0; j < right; ++j) {
      double sum = 0;
      for (std::size_t r = 0; r < rows; ++r) sum += a[i * rows + r] * b[j * rows + r];
      RC_ASSERT(product[j * left + i] == sum);
    }
}

// A positive definite matrix of n columns: a's columns by themselves, and 1 on the diagonal.
std::vector<double> definite(std::size_t n) {
  const auto a = values(n * n);
  auto matrix = transposed_product(a, a, n);
  for (std::size_t i = 0; i < n; ++i) matrix[i * n + i] += 1;
  return matrix;
}

std::vector<double> times(const std::vector<double>& matrix, std::span<const double> x) {
  std::vector<double> y(x.size());
  for (std::size_t j = 0; j < x.size(); ++j)
    for (std::size_t i = 0; i < x.size(); ++i) y[i] += matrix[j * x.size() + i] * x[j];
  return y;
}

RC_GTEST_PROP(SolveSymmetric, GivesBackWhatWasMultiplied, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(1, 15);
  const auto matrix = definite(n), x = values(n);
  const auto solved = solve_symmetric(matrix, times(matrix, x));
  for (std::size_t i = 0; i < n; ++i) RC_ASSERT(std::abs(solved[i] - x[i]) < 1e-6);
}

RC_GTEST_PROP(InverseDefinite, GivesUnitColumns, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(1, 15);
  const auto columns = *rc::gen::inRange<std::size_t>(1, n + 1);
  const auto matrix = definite(n), inverse = inverse_definite(matrix, n, columns);
  RC_ASSERT(inverse.size() == columns * n);
  for (std::size_t j = 0; j < columns; ++j) {
    const auto unit = times(matrix, std::span(inverse).subspan(j * n, n));
    for (std::size_t i = 0; i < n; ++i) RC_ASSERT(std::abs(unit[i] - (i == j)) < 1e-6);
  }
}

RC_GTEST_PROP(SymmetricEigen, StretchesItsVectorsByItsValues, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(1, 15);
  const auto matrix = definite(n);
  const EigenPairs pairs = symmetric_eigen(matrix, n);
  for (std::size_t k = 0; k < n; ++k) {
    RC_ASSERT(pairs.values[k] > 0.99 && (k == 0 || pairs.values[k - 1] <= pairs.values[k]));
    const auto stretched = times(matrix, pairs.vector(k));
    double length = 0;
    for (std::size_t i = 0; i < n; ++i) {
      length += pairs.vector(k)[i] * pairs.vector(k)[i];
      RC_ASSERT(std::abs(stretched[i] - pairs.values[k] * pairs.vector(k)[i]) <
                1e-9 * pairs.values.back());
    }
    RC_ASSERT(std::abs(length - 1) < 1e-9);
  }
}

}  // namespace
}  // namespace partita::numeric
