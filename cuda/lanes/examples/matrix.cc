#include "lanes/examples/matrix.h"

#include <Eigen/Core>

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/rng.h"

namespace partita::examples {
namespace {

using Doubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Doubles doubles(const Matrix& matrix) {
  return Eigen::Map<const Floats>(matrix.values.get(), matrix.rows, matrix.columns).cast<double>();
}

}  // namespace

Matrix::Matrix(int rows_, int columns_) : rows(rows_), columns(columns_) {
  CHECK(rows >= 1 && rows <= kMaxMatrixSize && columns >= 1 && columns <= kMaxMatrixSize);
  values.reset(static_cast<float*>(std::calloc(size(), sizeof(float))));
  if (values == nullptr) throw std::bad_alloc();
}

Matrix random_matrix(int rows, int columns, std::uint64_t seed) {
  Matrix matrix(rows, columns);
  Rng rng(seed);
  for (std::size_t i = 0; i < matrix.size(); ++i)
    matrix.values[i] = static_cast<float>(2 * rng.uniform() - 1);
  return matrix;
}

double relative_error(const Matrix& a, const Matrix& b, const Matrix& c) {
  CHECK(a.columns == b.rows && c.rows == a.rows && c.columns == b.columns);
  const Doubles product = doubles(a) * doubles(b);
  const double greatest = product.cwiseAbs().maxCoeff();
  const double difference = (product - doubles(c)).cwiseAbs().maxCoeff();
  return greatest > 0 ? difference / greatest : difference;
}

}  // namespace partita::examples
