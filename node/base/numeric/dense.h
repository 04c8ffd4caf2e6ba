// What Eigen computes of dense matrices, compiled once: its decompositions and products cost
// seconds in every source that instantiates them. Matrices are column after column.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace partita::numeric {

// Of a symmetric matrix: eigenvalues, ascending, and their eigenvectors as columns.
struct EigenPairs {
  std::vector<double> values, vectors;

  std::span<const double> vector(std::size_t k) const {
    return {vectors.data() + k * values.size(), values.size()};
  }
};

// `matrix` is n x n; its lower triangle is read.
EigenPairs symmetric_eigen(std::span<const double> matrix, std::size_t n);

// The x of matrix x = b for a symmetric matrix with b.size() columns. Where it has none, x is not
// finite.
std::vector<double> solve_symmetric(std::span<const double> matrix, std::span<const double> b);

// The first `columns` columns of the inverse of a positive definite matrix with n columns.
std::vector<double> inverse_definite(std::span<const double> matrix, std::size_t n,
                                     std::size_t columns);

// a transposed times b: `rows` is the height of both.
std::vector<double> transposed_product(std::span<const double> a, std::span<const double> b,
                                       std::size_t rows);

}  // namespace partita::numeric
