// Least squares with coefficients that are not negative (Lawson and Hanson 1974, chapter 23), and
// what a matrix of so many columns can tell at all. For few columns: every step factorises those in
// use anew.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace partita::numeric {

// Rows x columns, row-major. values.size() == rows * columns.
struct DenseRows {
  int rows = 0, columns = 0;
  std::vector<double> values;

  double& at(int row, int column) { return values[index(row, column)]; }
  double at(int row, int column) const { return values[index(row, column)]; }

 private:
  std::size_t index(int row, int column) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
           static_cast<std::size_t>(column);
  }
};
DenseRows dense_rows(int rows, int columns);  // of zeros

// The triangle of the QR factorisation of a with b as one more column, rows times the roots of
// their weights: it has the same least squares, the same lengths and angles of columns, in
// a.columns + 1 rows. In blocks that stay in the cache, for matrices of very many rows.
DenseRows triangle(const DenseRows& a, std::span<const double> b, std::span<const double> weights);
inline constexpr int kManyRows = 2000;  // from here on the triangle is worth its making

// The x >= 0 of least |a x - b|. Of equally good ones, one. b has a value per row.
std::vector<double> nnls(const DenseRows& a, std::span<const double> b);

// Columns that no data tell apart: `column` is a sum of multiples of `others` (of none: it is zero
// everywhere), to one part in 1e9 of its length. The first that is found; nothing where every
// column says something of its own.
struct Dependence {
  int column = 0;
  std::vector<int> others;  // ascending
};
std::optional<Dependence> dependence(const DenseRows& a);

// Largest over smallest singular value of the columns scaled to length 1; infinite above 1e8 or
// so.
double condition(const DenseRows& a);

}  // namespace partita::numeric
