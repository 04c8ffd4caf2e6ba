// Heat on a grid, in the style of Rodinia's hotspot: a tile in shared memory with a rim, two
// buffers that change places.
#include <utility>

#include "program.h"

constexpr int kTile = 16;

HOST_DEVICE inline float heated(float here, float north, float south, float east, float west,
                                float power) {
  return here + 0.125F * (north + south + east + west - 4.0F * here) + 0.0625F * power;
}

KERNEL(hotspot_step, (const float* from, const float* power, float* to, int rows, int columns)) {
  SHARED(float, tile, [kTile + 2][kTile + 2]);
  const int x = static_cast<int>(blockIdx.x * kTile + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y * kTile + threadIdx.y);
  const int i = static_cast<int>(threadIdx.x) + 1, j = static_cast<int>(threadIdx.y) + 1;
  const int row = y < rows ? y : rows - 1, column = x < columns ? x : columns - 1;
  tile[j][i] = from[row * columns + column];
  if (i == 1) tile[j][0] = from[row * columns + (x > 0 ? x - 1 : 0)];
  if (i == kTile) tile[j][i + 1] = from[row * columns + (x + 1 < columns ? x + 1 : columns - 1)];
  if (j == 1) tile[0][i] = from[(y > 0 ? y - 1 : 0) * columns + column];
  if (j == kTile) tile[j + 1][i] = from[(y + 1 < rows ? y + 1 : rows - 1) * columns + column];
  __syncthreads();
  if (x >= columns || y >= rows) return;
  const float east = x + 1 < columns ? tile[j][i + 1] : tile[j][i];
  const float south = y + 1 < rows ? tile[j + 1][i] : tile[j][i];
  to[y * columns + x] =
      heated(tile[j][i], tile[j - 1][i], south, east, tile[j][i - 1], power[y * columns + x]);
}

int main() {
  const int rows = 50, columns = 70, steps = 10;
  Noise noise(2);
  std::vector<float> heat(rows * columns), power(rows * columns);
  for (float& value : heat) value = 80.0F + noise.unit();
  for (float& value : power) value = noise.unit();
  float *from = to_device(heat), *to = empty_on_device<float>(heat.size());
  const float* on_power = to_device(power);
  const dim3 grid(blocks_for(columns, kTile), blocks_for(rows, kTile)), block(kTile, kTile);
  for (int step = 0; step < steps; ++step) {
    LAUNCH(hotspot_step, grid, block, 0, nullptr, from, on_power, to, rows, columns);
    std::swap(from, to);
  }
  MUST(cudaGetLastError());
  const std::vector<float> have = to_host(from, heat.size());
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> old = heat;
    for (int y = 0; y < rows; ++y) {
      for (int x = 0; x < columns; ++x) {
        const auto at = [&](int r, int c) {
          const int row = r < 0 ? 0 : r < rows ? r : rows - 1;
          const int column = c < 0 ? 0 : c < columns ? c : columns - 1;
          return old[row * columns + column];
        };
        heat[y * columns + x] = heated(at(y, x), at(y - 1, x), at(y + 1, x), at(y, x + 1),
                                       at(y, x - 1), power[y * columns + x]);
      }
    }
  }
  MUST(cudaFree(from));
  MUST(cudaFree(to));
  const double off = difference(have, heat);
  return finish("hotspot", off < 1e-5, off);
}
