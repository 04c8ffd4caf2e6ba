// Tall matrices as columns, and the few products that a projection takes. Little of it on purpose:
// what a library of templates would bring here costs more to compile than all of the module.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace partita::thermal {

struct Columns {
  std::size_t rows = 0;
  std::vector<double> values;  // column after column

  Columns() = default;
  Columns(std::size_t r, std::size_t count) : rows(r), values(r * count) {}
  std::size_t count() const { return rows == 0 ? 0 : values.size() / rows; }
  std::span<double> col(std::size_t j) { return {values.data() + j * rows, rows}; }
  std::span<const double> col(std::size_t j) const { return {values.data() + j * rows, rows}; }
  double at(std::size_t row, std::size_t col) const { return values[col * rows + row]; }
  void append(std::span<const double> column) {
    values.insert(values.end(), column.begin(), column.end());
  }
};

double product(std::span<const double> a, std::span<const double> b);
// Transposed a times b: a's columns by b's.
Columns products(const Columns& a, const Columns& b);
// a times b.
Columns combination(const Columns& a, const Columns& b);
// x less a times b.
Columns less_combination(Columns x, const Columns& a, const Columns& b);
// x less factor times y.
void subtract(std::span<double> x, std::span<const double> y, double factor);

}  // namespace partita::thermal
