// Matrices of floats, row by row, and views of their blocks. A view borrows its matrix.
// Limits: kMaxMatrixSize rows and columns.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace partita::examples {

inline constexpr int kMaxMatrixSize = 16'384;

struct FreeMemory {
  void operator()(float* memory) const { std::free(memory); }
};

// All zero at first. Memory that nobody writes to is only reserved, so that graphs of large
// matrices can be simulated. Where there is none std::bad_alloc is thrown, as by a vector.
struct Matrix {
  Matrix(int rows_, int columns_);
  std::size_t size() const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }
  int rows, columns;
  std::unique_ptr<float[], FreeMemory> values;
};

// Uniform between -1 and 1.
Matrix random_matrix(int rows, int columns, std::uint64_t seed);

// Rows of `columns` floats, `stride` floats apart.
struct View {
  float* data = nullptr;
  int rows = 0, columns = 0;
  std::int64_t stride = 0;
  // Quarter `row`, `column` (0 or 1) of a view with even sides.
  View quarter(int row, int column) const {
    const int r = rows / 2, c = columns / 2;
    return {data + row * r * stride + column * c, r, c, stride};
  }
};

// Of the whole matrix.
inline View view_of(Matrix& matrix) {
  return {matrix.values.get(), matrix.rows, matrix.columns, matrix.columns};
}

// The greatest difference between c and a x b, computed in double precision by Eigen, over the
// greatest entry of the latter. Sizes must fit.
double relative_error(const Matrix& a, const Matrix& b, const Matrix& c);

}  // namespace partita::examples
