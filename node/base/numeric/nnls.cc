#include "base/numeric/nnls.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "base/numeric/dense.h"

namespace partita::numeric {
namespace {

constexpr double kDependent = 1e-9;   // of a column's length
constexpr double kSatisfied = 1e-11;  // of a gradient against the lengths of column and residual

using Vector = std::vector<double>;

// In four sums, which the compiler makes at once.
double dot(const double* a, const double* b, std::size_t n) {
  double sum[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::size_t k = 0; k < 4; ++k) sum[k] += a[i + k] * b[i + k];
  for (; i < n; ++i) sum[0] += a[i] * b[i];
  return sum[0] + sum[1] + (sum[2] + sum[3]);
}
double length(const Vector& a) { return std::sqrt(dot(a.data(), a.data(), a.size())); }

// Column after column.
struct Columns {
  std::size_t rows = 0, count = 0;
  Vector values;

  Columns(std::size_t height, std::size_t number)
      : rows(height), count(number), values(height * number) {}
  double* operator[](std::size_t c) { return values.data() + c * rows; }
  const double* operator[](std::size_t c) const { return values.data() + c * rows; }
  double length(std::size_t c, std::size_t from = 0) const {
    return std::sqrt(dot((*this)[c] + from, (*this)[c] + from, rows - from));
  }
};

// Householder's reflection that leaves nothing of column k below row k, on the columns behind it.
void reflect(Columns& a, std::size_t k) {
  double* v = a[k] + k;
  const std::size_t n = a.rows - k;
  const double length = a.length(k, k), first = v[0];
  if (length == 0) return;
  const double scale = 1 / (length * (length + std::abs(first)));
  v[0] += first > 0 ? length : -length;
  for (std::size_t c = k + 1; c < a.count; ++c) {
    double* other = a[c] + k;
    const double part = scale * dot(v, other, n);
    for (std::size_t i = 0; i < n; ++i) other[i] -= part * v[i];
  }
  v[0] = first > 0 ? -length : length;
  std::fill(v + 1, v + n, 0.0);
}

struct LeastSquares {
  Vector x;
  std::size_t rank = 0;  // columns beyond it depend on the others, and get 0
};

// Of the columns of a before its last one, which is what they are to add up to.
LeastSquares least_squares(Columns a) {
  const std::size_t n = a.count - 1;
  LeastSquares found{Vector(n), 0};
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  double greatest = 0;
  for (std::size_t k = 0; k < std::min(n, a.rows); ++k) {
    std::size_t best = k;
    double most = a.length(k, k);
    for (std::size_t c = k + 1; c < n; ++c)
      if (const double other = a.length(c, k); other > most) most = other, best = c;
    greatest = std::max(greatest, most);
    if (most <= greatest * static_cast<double>(n) * std::numeric_limits<double>::epsilon()) break;
    std::swap(order[k], order[best]);
    if (best != k) std::swap_ranges(a[k], a[k] + a.rows, a[best]);
    reflect(a, k);
    ++found.rank;
  }
  for (std::size_t k = found.rank; k-- > 0;) {
    double sum = a[n][k];
    for (std::size_t c = k + 1; c < found.rank; ++c) sum -= a[c][k] * found.x[order[c]];
    found.x[order[k]] = sum / a[k][k];
  }
  return found;
}

// The columns, made 1 long; those of zeros stay.
struct Scaled {
  Columns columns;
  Vector lengths;
};
Scaled scaled(const DenseRows& a) {
  Scaled made{Columns(at(a.rows), at(a.columns)), Vector(at(a.columns))};
  for (int c = 0; c < a.columns; ++c) {
    double* column = made.columns[at(c)];
    for (int i = 0; i < a.rows; ++i) column[i] = a.at(i, c);
    const double length = made.lengths[at(c)] = made.columns.length(at(c));
    for (int i = 0; i < a.rows && length > 0; ++i) column[i] /= length;
  }
  return made;
}

// Some of the columns, and what they are to add up to.
Columns some_of(const Columns& a, const std::vector<int>& some, const double* b) {
  Columns part(a.rows, some.size() + 1);
  for (std::size_t i = 0; i < some.size(); ++i)
    std::copy_n(a[at(some[i])], a.rows, part[i]);
  std::copy_n(b, a.rows, part[some.size()]);
  return part;
}

// b without what the columns add up to.
Vector residual(const Columns& a, const Vector& x, std::span<const double> b) {
  Vector left(b.begin(), b.end());
  for (std::size_t c = 0; c < x.size(); ++c)
    for (std::size_t i = 0; i < a.rows && x[c] != 0; ++i) left[i] -= x[c] * a[c][i];
  return left;
}

// Goes from x towards the unconstrained `aim` until a coefficient reaches zero, which leaves the
// columns in use. True: all of `aim` is allowed.
bool step(Vector& x, const Vector& aim, std::vector<int>& columns) {
  double length = 1;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const double to = aim[i], from = x[at(columns[i])];
    if (to <= 0) length = std::min(length, from / (from - to));
  }
  std::vector<int> left;
  bool all = true;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const double to = aim[i];
    double& value = x[at(columns[i])];
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
  Columns work(at(width + kBlock), at(width));
  for (int first = 0; first < a.rows; first += kBlock) {
    const int rows = std::min(kBlock, a.rows - first);
    for (int i = 0; i < rows; ++i) {
      const double root = std::sqrt(weights[at(first + i)]);
      for (int c = 0; c < a.columns; ++c) work[at(c)][width + i] = root * a.at(first + i, c);
      work[at(a.columns)][width + i] = root * b[at(first + i)];
    }
    for (std::size_t k = 0; k < work.count; ++k) reflect(work, k);
  }
  DenseRows out = dense_rows(width, width);
  for (int i = 0; i < width; ++i)
    for (int c = i; c < width; ++c) out.at(i, c) = work[at(c)][i];
  return out;
}

std::vector<double> nnls(const DenseRows& a, std::span<const double> b) {
  CHECK(static_cast<int>(b.size()) == a.rows);
  const auto [m, lengths] = scaled(a);
  Vector x(m.count);
  const auto out_of = [&x = x, &lengths = lengths] {
    for (std::size_t c = 0; c < x.size(); ++c) x[c] = lengths[c] > 0 ? x[c] / lengths[c] : 0;
    return x;
  };
  std::vector<int> all(m.count), passive;
  std::iota(all.begin(), all.end(), 0);
  if (m.rows >= m.count && m.count > 0) {  // mostly no coefficient wants to be negative
    LeastSquares found = least_squares(some_of(m, all, b.data()));
    if (found.rank == m.count && *std::ranges::min_element(found.x) > 0) {
      x = std::move(found.x);
      return out_of();
    }
  }
  const double satisfied = kSatisfied * std::sqrt(dot(b.data(), b.data(), b.size()));
  std::vector<bool> barred(m.count);
  for (std::size_t round = 0; round < 10 * m.count; ++round) {
    const Vector left = residual(m, x, b);
    int best = -1;
    double steepest = satisfied;
    for (std::size_t c = 0; c < m.count; ++c) {
      const double gradient = dot(m[c], left.data(), m.rows);
      if (x[c] != 0 || barred[c] || gradient <= steepest) continue;
      best = static_cast<int>(c);
      steepest = gradient;
    }
    if (best < 0) break;
    passive.push_back(best);
    Vector aim = least_squares(some_of(m, passive, b.data())).x;
    if (aim.back() <= 0) {  // rounding: it would leave again at once
      passive.pop_back();
      barred[at(best)] = true;
      continue;
    }
    barred.assign(barred.size(), false);
    while (!step(x, aim, passive) && !passive.empty())
      aim = least_squares(some_of(m, passive, b.data())).x;
  }
  return out_of();
}

std::optional<Dependence> dependence(const DenseRows& a) {
  if (a.rows > kManyRows && a.columns > 0) {
    const std::vector<double> none(at(a.rows)), ones(at(a.rows), 1);
    const DenseRows small = triangle(a, none, ones);
    DenseRows columns = dense_rows(a.columns, a.columns);
    for (int i = 0; i < a.columns; ++i)
      for (int c = i; c < a.columns; ++c) columns.at(i, c) = small.at(i, c);
    return dependence(columns);
  }
  const auto [m, lengths] = scaled(a);
  for (int c = 0; c < a.columns; ++c)
    if (lengths[at(c)] == 0) return Dependence{c, {}};
  std::vector<int> before;
  for (int c = 0; c < a.columns; before.push_back(c++)) {
    if (c == 0) continue;
    // Columns before it are independent, so this has one answer.
    const Vector sum = least_squares(some_of(m, before, m[at(c)])).x;
    if (length(residual(m, sum, {m[at(c)], m.rows})) > kDependent) continue;
    Dependence found{c, {}};
    for (const int other : before)
      if (std::abs(sum[at(other)]) > 1e-6) found.others.push_back(other);
    return found;
  }
  return std::nullopt;
}

double condition(const DenseRows& a) {
  if (a.columns == 0) return 1;
  const Columns m = scaled(a).columns;
  const auto normal = transposed_product(m.values, m.values, m.rows);
  const auto pairs = symmetric_eigen(normal, m.count);
  const double least = pairs.values.front(), most = pairs.values.back();
  return least > 1e-16 * most ? std::sqrt(most / least) : std::numeric_limits<double>::infinity();
}

}  // namespace partita::numeric
