// Tiled matrix product, as the samples' matrixMul, with sides that no tile divides; once in float,
// once in double, and a transposition through padded shared memory.
#include "program.h"

constexpr int kTile = 16;

KERNEL(matmul_float, (const float* a, const float* b, float* c, int rows, int inner, int columns)) {
  SHARED(float, left, [kTile][kTile]);
  SHARED(float, right, [kTile][kTile]);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int row = static_cast<int>(blockIdx.y) * kTile + y;
  const int column = static_cast<int>(blockIdx.x) * kTile + x;
  float sum = 0;
  for (int from = 0; from < inner; from += kTile) {
    left[y][x] = row < rows && from + x < inner ? a[row * inner + from + x] : 0;
    right[y][x] = column < columns && from + y < inner ? b[(from + y) * columns + column] : 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; ++k) sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  if (row < rows && column < columns) c[row * columns + column] = sum;
}

KERNEL(matmul_double, (const double* a, const double* b, double* c, int side)) {
  const int row = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= side || column >= side) return;
  double sum = 0;
  for (int k = 0; k < side; ++k) sum += a[row * side + k] * b[k * side + column];
  c[row * side + column] = sum;
}

KERNEL(matmul_transpose, (const float* from, float* to, int rows, int columns)) {
  SHARED(float, tile, [kTile][kTile + 1]);
  int x = static_cast<int>(blockIdx.x * kTile + threadIdx.x);
  int y = static_cast<int>(blockIdx.y * kTile + threadIdx.y);
  if (x < columns && y < rows) tile[threadIdx.y][threadIdx.x] = from[y * columns + x];
  __syncthreads();
  x = static_cast<int>(blockIdx.y * kTile + threadIdx.x);
  y = static_cast<int>(blockIdx.x * kTile + threadIdx.y);
  if (x < rows && y < columns) to[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}

template <class T>
static std::vector<T> product(const std::vector<T>& a, const std::vector<T>& b, int rows, int inner,
                              int columns) {
  std::vector<T> c(rows * columns, 0);
  for (int row = 0; row < rows; ++row) {
    for (int k = 0; k < inner; ++k) {
      for (int column = 0; column < columns; ++column) {
        c[row * columns + column] += a[row * inner + k] * b[k * columns + column];
      }
    }
  }
  return c;
}

int main() {
  const int rows = 45, inner = 53, columns = 37, side = 40;
  Noise noise(13);
  std::vector<float> a(rows * inner), b(inner * columns), turned(a.size());
  std::vector<double> d(side * side);
  for (float& value : a) value = noise.unit() - 0.5F;
  for (float& value : b) value = noise.unit() - 0.5F;
  for (double& value : d) value = noise.unit();
  const float *on_a = to_device(a), *on_b = to_device(b);
  const double* on_d = to_device(d);
  float *on_c = empty_on_device<float>(rows * columns), *on_t = empty_on_device<float>(a.size());
  double* on_e = empty_on_device<double>(side * side);
  const dim3 block(kTile, kTile), grid(blocks_for(columns, kTile), blocks_for(rows, kTile));
  LAUNCH(matmul_float, grid, block, 0, nullptr, on_a, on_b, on_c, rows, inner, columns);
  LAUNCH(matmul_double, dim3(5, 10), dim3(8, 4), 0, nullptr, on_d, on_d, on_e, side);
  LAUNCH(matmul_transpose, dim3(blocks_for(inner, kTile), blocks_for(rows, kTile)), block, 0,
         nullptr, on_a, on_t, rows, inner);
  MUST(cudaDeviceSynchronize());
  for (int at = 0; at < rows * inner; ++at) turned[at % inner * rows + at / inner] = a[at];
  double off = difference(to_host(on_c, rows * columns), product(a, b, rows, inner, columns));
  off = std::fmax(off, difference(to_host(on_e, d.size()), product(d, d, side, side, side)));
  const double moved = difference(to_host(on_t, a.size()), turned);
  return finish("matmul", off < 1e-5 && moved == 0, off);
}
