// Cosine transforms of grids, on FFTW: what makes a Laplacian with insulated edges diagonal.
// Values are row-major, rows x cols. Any size; sizes of small prime factors are quick.
#pragma once

#include <memory>
#include <span>

namespace partita::numeric {

// Transforms of one size, planned once. Not for two threads at a time.
class CosineTransform {
 public:
  CosineTransform(int rows, int cols);  // both at least 1
  ~CosineTransform();
  CosineTransform(CosineTransform&&) noexcept;
  CosineTransform& operator=(CosineTransform&&) noexcept;

  int rows() const;
  int cols() const;
  // DCT-II in both directions, in place, orthonormal: inverse(forward(x)) == x but for rounding,
  // and sums of squares stay. values.size() == rows * cols.
  void forward(std::span<double> values) const;
  void inverse(std::span<double> values) const;

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
};

// Eigenvalue k of the second difference over n cells with insulated edges (u[i-1] - 2u[i] +
// u[i+1], mirrored at the ends): 2 cos(pi k / n) - 2, at most 0.
double insulated_eigenvalue(int k, int n);

}  // namespace partita::numeric
