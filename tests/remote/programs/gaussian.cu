// Gaussian elimination, in the style of Rodinia's gaussian: two small kernels per column, many
// launches that depend on one another.
#include "program.h"

KERNEL(gaussian_factors, (float* m, const float* a, int size, int column)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= size - 1 - column) return;
  const int row = column + 1 + at;
  m[row * size + column] = a[row * size + column] / a[column * size + column];
}

KERNEL(gaussian_rows, (const float* m, float* a, float* b, int size, int column)) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (x >= size - 1 - column || y >= size - column) return;
  const int row = column + 1 + x, at = column + y;
  a[row * size + at] -= m[row * size + column] * a[column * size + at];
  if (y == 0) b[row] -= m[row * size + column] * b[column];
}

int main() {
  const int size = 48;
  Noise noise(5);
  std::vector<float> a(size * size), b(size), x(size);
  for (int row = 0; row < size; ++row) {
    for (int column = 0; column < size; ++column) {
      a[row * size + column] = noise.unit() + (row == column ? size : 0);
    }
    b[row] = 1.0F + noise.unit();
  }
  float *on_a = to_device(a), *on_b = to_device(b);
  float* on_m = to_device(std::vector<float>(size * size, 0.0F));
  const dim3 block(4, 4), grid(blocks_for(size, 4), blocks_for(size, 4));
  for (int column = 0; column + 1 < size; ++column) {
    LAUNCH(gaussian_factors, blocks_for(size, 32), 32, 0, nullptr, on_m, on_a, size, column);
    LAUNCH(gaussian_rows, grid, block, 0, nullptr, on_m, on_a, on_b, size, column);
  }
  MUST(cudaDeviceSynchronize());
  const std::vector<float> upper = to_host(on_a, a.size()), right = to_host(on_b, b.size());
  for (int row = size - 1; row >= 0; --row) {
    float sum = right[row];
    for (int column = row + 1; column < size; ++column)
      sum -= upper[row * size + column] * x[column];
    x[row] = sum / upper[row * size + row];
  }
  // What A times x gives must be b.
  std::vector<float> product(size, 0.0F);
  for (int row = 0; row < size; ++row) {
    for (int column = 0; column < size; ++column)
      product[row] += a[row * size + column] * x[column];
  }
  const double off = difference(product, b);
  return finish("gaussian", off < 1e-4, off);
}
