#include "base/numeric/dense.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>

#include "base/check.h"

namespace partita::numeric {
namespace {

using Map = Eigen::Map<const Eigen::MatrixXd>;

Map columns_of(std::span<const double> values, std::size_t rows) {
  CHECK(rows > 0 && values.size() % rows == 0);
  return {values.data(), static_cast<Eigen::Index>(rows),
          static_cast<Eigen::Index>(values.size() / rows)};
}

}  // namespace

EigenPairs symmetric_eigen(std::span<const double> matrix, std::size_t n) {
  CHECK(matrix.size() == n * n);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(columns_of(matrix, n));
  CHECK(solver.info() == Eigen::Success);
  const auto& values = solver.eigenvalues();
  const auto& vectors = solver.eigenvectors();
  return {{values.data(), values.data() + values.size()},
          {vectors.data(), vectors.data() + vectors.size()}};
}

std::vector<double> solve_symmetric(std::span<const double> matrix, std::span<const double> b) {
  CHECK(matrix.size() == b.size() * b.size());
  const Eigen::MatrixXd system = columns_of(matrix, b.size());
  const Eigen::Map<const Eigen::VectorXd> right(b.data(), static_cast<Eigen::Index>(b.size()));
  const auto definite = system.llt();  // the faster one, where there is such
  const Eigen::VectorXd x = definite.info() == Eigen::Success ? definite.solve(right).eval()
                                                              : system.ldlt().solve(right).eval();
  return {x.data(), x.data() + x.size()};
}

std::vector<double> inverse_definite(std::span<const double> matrix, std::size_t n,
                                     std::size_t columns) {
  CHECK(matrix.size() == n * n && columns <= n);
  const Eigen::MatrixXd unit =
      Eigen::MatrixXd::Identity(static_cast<Eigen::Index>(n), static_cast<Eigen::Index>(columns));
  const Eigen::MatrixXd inverse = columns_of(matrix, n).llt().solve(unit);
  return {inverse.data(), inverse.data() + inverse.size()};
}

std::vector<double> transposed_product(std::span<const double> a, std::span<const double> b,
                                       std::size_t rows) {
  const Map left = columns_of(a, rows), right = columns_of(b, rows);
  std::vector<double> out(static_cast<std::size_t>(left.cols() * right.cols()));
  Eigen::Map<Eigen::MatrixXd>(out.data(), left.cols(), right.cols()).noalias() =
      left.transpose() * right;
  return out;
}

}  // namespace partita::numeric
