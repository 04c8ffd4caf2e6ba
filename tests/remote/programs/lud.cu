// LU decomposition by blocks, in the style of Rodinia's lud: diagonal, rim and inside of each step,
// tiles in shared memory, a barrier in loops.
#include "program.h"

constexpr int kTile = 8;

KERNEL(lud_diagonal, (float* m, int size, int offset)) {
  SHARED(float, tile, [kTile][kTile]);
  const int lane = static_cast<int>(threadIdx.x);
  for (int row = 0; row < kTile; ++row) tile[row][lane] = m[(offset + row) * size + offset + lane];
  __syncthreads();
  for (int step = 0; step < kTile - 1; ++step) {
    if (lane > step) {
      for (int k = 0; k < step; ++k) tile[lane][step] -= tile[lane][k] * tile[k][step];
      tile[lane][step] /= tile[step][step];
    }
    __syncthreads();
    if (lane > step) {
      for (int k = 0; k < step + 1; ++k) tile[step + 1][lane] -= tile[step + 1][k] * tile[k][lane];
    }
    __syncthreads();
  }
  for (int row = 0; row < kTile; ++row) m[(offset + row) * size + offset + lane] = tile[row][lane];
}

KERNEL(lud_rim, (float* m, int size, int offset)) {
  SHARED(float, diagonal, [kTile][kTile]);
  SHARED(float, right, [kTile][kTile]);
  SHARED(float, below, [kTile][kTile]);
  const int lane = static_cast<int>(threadIdx.x) % kTile;
  const bool rows = threadIdx.x < kTile;
  const int other = offset + (static_cast<int>(blockIdx.x) + 1) * kTile;
  for (int row = 0; row < kTile; ++row) {
    if (rows) {
      diagonal[row][lane] = m[(offset + row) * size + offset + lane];
      right[row][lane] = m[(offset + row) * size + other + lane];
    } else {
      below[row][lane] = m[(other + row) * size + offset + lane];
    }
  }
  __syncthreads();
  if (rows) {
    for (int row = 1; row < kTile; ++row) {
      for (int k = 0; k < row; ++k) right[row][lane] -= diagonal[row][k] * right[k][lane];
    }
  } else {
    for (int column = 0; column < kTile; ++column) {
      for (int k = 0; k < column; ++k) below[lane][column] -= below[lane][k] * diagonal[k][column];
      below[lane][column] /= diagonal[column][column];
    }
  }
  __syncthreads();
  for (int row = 0; row < kTile; ++row) {
    if (rows) {
      m[(offset + row) * size + other + lane] = right[row][lane];
    } else {
      m[(other + row) * size + offset + lane] = below[row][lane];
    }
  }
}

KERNEL(lud_inside, (float* m, int size, int offset)) {
  SHARED(float, right, [kTile][kTile]);
  SHARED(float, below, [kTile][kTile]);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int row = offset + (static_cast<int>(blockIdx.y) + 1) * kTile;
  const int column = offset + (static_cast<int>(blockIdx.x) + 1) * kTile;
  right[y][x] = m[(offset + y) * size + column + x];
  below[y][x] = m[(row + y) * size + offset + x];
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kTile; ++k) sum += below[y][k] * right[k][x];
  m[(row + y) * size + column + x] -= sum;
}

int main() {
  const int size = 64;
  Noise noise(6);
  std::vector<float> matrix(size * size);
  for (int at = 0; at < size * size; ++at) {
    matrix[at] = noise.unit() + (at % size == at / size ? 32.0F : 0.0F);
  }
  float* on = to_device(matrix);
  for (int offset = 0; offset < size; offset += kTile) {
    LAUNCH(lud_diagonal, 1, kTile, 0, nullptr, on, size, offset);
    const unsigned rest = static_cast<unsigned>((size - offset) / kTile - 1);
    if (rest == 0) break;
    LAUNCH(lud_rim, rest, 2 * kTile, 0, nullptr, on, size, offset);
    LAUNCH(lud_inside, dim3(rest, rest), dim3(kTile, kTile), 0, nullptr, on, size, offset);
  }
  MUST(cudaGetLastError());
  const std::vector<float> lu = to_host(on, matrix.size());
  std::vector<float> product(matrix.size());
  for (int row = 0; row < size; ++row) {
    for (int column = 0; column < size; ++column) {
      double sum = 0;
      for (int k = 0; k <= row && k <= column; ++k) {
        sum += static_cast<double>(k == row ? 1.0F : lu[row * size + k]) * lu[k * size + column];
      }
      product[row * size + column] = static_cast<float>(sum);
    }
  }
  const double off = difference(product, matrix);
  return finish("lud", off < 1e-4, off);
}
