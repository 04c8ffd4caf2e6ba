#include "base/numeric/nnls.h"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/numeric/dense.h"

namespace partita::numeric {
namespace {

using Map =
    Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

constexpr double kDependent = 1e-9;   // of a column's length
constexpr double kSatisfied = 1e-11;  // of a gradient against the lengths of column and residual

Map view(const DenseRows& a) { return {a.values.data(), a.rows, a.columns}; }

// The matrix with columns of length 1; columns of zeros stay.
Eigen::MatrixXd scaled(const DenseRows& a, Eigen::VectorXd& lengths) {
  Eigen::MatrixXd m = view(a);
  lengths = m.colwise().norm();
  for (int c = 0; c < a.columns; ++c)
    if (lengths[c] > 0) m.col(c) /= lengths[c];
  return m;
}

// The columns in use and their least squares.
struct Passive {
  std::vector<int> columns;

  Eigen::VectorXd solve(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) const {
    Eigen::MatrixXd part(a.rows(), static_cast<int>(columns.size()));
    for (std::size_t i = 0; i < columns.size(); ++i)
      part.col(static_cast<int>(i)) = a.col(columns[i]);
    return part.colPivHouseholderQr().solve(b);
  }
};

// Goes from x towards the unconstrained `aim` until a coefficient reaches zero, which leaves the
// columns in use. True: all of `aim` is allowed.
bool step(Eigen::VectorXd& x, const Eigen::VectorXd& aim, std::vector<int>& columns) {
  double length = 1;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const double to = aim[static_cast<int>(i)], from = x[columns[i]];
    if (to <= 0) length = std::min(length, from / (from - to));
  }
  std::vector<int> left;
  bool all = true;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const double to = aim[static_cast<int>(i)];
    double& value = x[columns[i]];
    value += length * (to - value);
    if (to <= 0 && value <= 1e-14) {
      value = 0;
      all = false;
    } else {
      left.push_back(columns[i]);
    }
  }
  columns = left;
  return all && length == 1;
}

}  // namespace

DenseRows dense_rows(int rows, int columns) {
  CHECK(rows >= 0 && columns >= 0);
  return {rows, columns,
          std::vector<double>(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns))};
}

DenseRows triangle(const DenseRows& a, std::span<const double> b, std::span<const double> weights) {
  constexpr int kBlock = 512;
  const int width = a.columns + 1;
  CHECK(static_cast<int>(b.size()) == a.rows && static_cast<int>(weights.size()) == a.rows);
  Eigen::MatrixXd work = Eigen::MatrixXd::Zero(width + kBlock, width);
  for (int first = 0; first < a.rows; first += kBlock) {
    const int rows = std::min(kBlock, a.rows - first);
    work.bottomRows(kBlock).setZero();
    for (int i = 0; i < rows; ++i) {
      const auto row = static_cast<std::size_t>(first + i);
      const double root = std::sqrt(weights[row]);
      for (int c = 0; c < a.columns; ++c) work(width + i, c) = root * a.at(first + i, c);
      work(width + i, a.columns) = root * b[row];
    }
    Eigen::HouseholderQR<Eigen::Ref<Eigen::MatrixXd>> factors(work);
    for (int c = 0; c < width; ++c) work.col(c).segment(c + 1, width - c - 1).setZero();
  }
  DenseRows out = dense_rows(width, width);
  for (int i = 0; i < width; ++i)
    for (int c = i; c < width; ++c) out.at(i, c) = work(i, c);
  return out;
}

std::vector<double> nnls(const DenseRows& a, std::span<const double> b) {
  CHECK(static_cast<int>(b.size()) == a.rows);
  Eigen::VectorXd lengths;
  const Eigen::MatrixXd m = scaled(a, lengths);
  const Eigen::VectorXd y = Eigen::Map<const Eigen::VectorXd>(b.data(), a.rows);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(a.columns);
  const auto out_of = [&] {
    std::vector<double> out(static_cast<std::size_t>(a.columns));
    for (int c = 0; c < a.columns; ++c)
      out[static_cast<std::size_t>(c)] = lengths[c] > 0 ? x[c] / lengths[c] : 0;
    return out;
  };
  if (a.rows >= a.columns && a.columns > 0) {  // mostly no coefficient wants to be negative
    const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> all(m);
    if (all.rank() == a.columns) {
      x = all.solve(y);
      if (x.minCoeff() > 0) return out_of();
      x.setZero();
    }
  }
  Passive passive;
  std::vector<bool> barred(static_cast<std::size_t>(a.columns));
  for (int round = 0; round < 10 * a.columns; ++round) {
    const Eigen::VectorXd gradient = m.transpose() * (y - m * x);
    int best = -1;
    for (int c = 0; c < a.columns; ++c)
      if (x[c] == 0 && !barred[static_cast<std::size_t>(c)] &&
          gradient[c] > kSatisfied * y.norm() && (best < 0 || gradient[c] > gradient[best]))
        best = c;
    if (best < 0) break;
    passive.columns.push_back(best);
    Eigen::VectorXd aim = passive.solve(m, y);
    if (aim[aim.size() - 1] <= 0) {  // rounding: it would leave again at once
      passive.columns.pop_back();
      barred[static_cast<std::size_t>(best)] = true;
      continue;
    }
    barred.assign(barred.size(), false);
    while (!step(x, aim, passive.columns) && !passive.columns.empty()) aim = passive.solve(m, y);
  }
  return out_of();
}

std::optional<Dependence> dependence(const DenseRows& a) {
  if (a.rows > kManyRows && a.columns > 0) {
    const std::vector<double> none(static_cast<std::size_t>(a.rows)),
        ones(static_cast<std::size_t>(a.rows), 1);
    const DenseRows small = triangle(a, none, ones);
    DenseRows columns = dense_rows(a.columns, a.columns);
    for (int i = 0; i < a.columns; ++i)
      for (int c = i; c < a.columns; ++c) columns.at(i, c) = small.at(i, c);
    return dependence(columns);
  }
  Eigen::VectorXd lengths;
  const Eigen::MatrixXd m = scaled(a, lengths);
  for (int c = 0; c < a.columns; ++c)
    if (lengths[c] == 0) return Dependence{c, {}};
  for (int c = 0; c < a.columns; ++c) {
    if (c == 0) continue;
    // Columns before it are independent, so this has one answer.
    const Eigen::MatrixXd before = m.leftCols(c);
    const Eigen::VectorXd sum = before.colPivHouseholderQr().solve(m.col(c));
    if ((before * sum - m.col(c)).norm() > kDependent) continue;
    Dependence found{c, {}};
    for (int other = 0; other < c; ++other)
      if (std::abs(sum[other]) > 1e-6) found.others.push_back(other);
    return found;
  }
  return std::nullopt;
}

double condition(const DenseRows& a) {
  if (a.columns == 0) return 1;
  Eigen::VectorXd lengths;
  const Eigen::MatrixXd m = scaled(a, lengths);
  const std::span<const double> values(m.data(), static_cast<std::size_t>(m.size()));
  const auto normal = transposed_product(values, values, static_cast<std::size_t>(a.rows));
  const auto pairs = symmetric_eigen(normal, static_cast<std::size_t>(a.columns));
  const double least = pairs.values.front(), most = pairs.values.back();
  return least > 1e-16 * most ? std::sqrt(most / least) : std::numeric_limits<double>::infinity();
}

}  // namespace partita::numeric
