// The cheapest way down a grid, in the style of Rodinia's pathfinder: several rows per launch, the
// rim of each block's tile shrinks with every row.
#include "program.h"

constexpr int kBlock = 64;

HOST_DEVICE inline int smaller(int a, int b) { return a < b ? a : b; }

KERNEL(pathfinder_rows,
       (const int* wall, const int* from, int* to, int columns, int rows, int first)) {
  SHARED(int, before, [kBlock]);
  SHARED(int, after, [kBlock]);
  const int rim = rows;
  const int tile = kBlock - 2 * rim;
  const int lane = static_cast<int>(threadIdx.x);
  const int x = static_cast<int>(blockIdx.x) * tile - rim + lane;
  const bool inside = x >= 0 && x < columns;
  before[lane] = inside ? from[x] : 1 << 30;
  __syncthreads();
  for (int row = 0; row < rows; ++row) {
    const bool active = inside && lane > row && lane < kBlock - 1 - row;
    if (active) {
      const int best = smaller(before[lane], smaller(before[lane - 1], before[lane + 1]));
      after[lane] = best + wall[(first + row) * columns + x];
    }
    __syncthreads();
    if (active) before[lane] = after[lane];
    __syncthreads();
  }
  if (inside && lane >= rim && lane < kBlock - rim) to[x] = before[lane];
}

int main() {
  const int rows = 41, columns = 300, together = 8;
  Noise noise(3);
  std::vector<int> wall(rows * columns);
  for (int& value : wall) value = noise.below(10);
  const int* on_wall = to_device(wall);
  std::vector<int> cost(wall.begin(), wall.begin() + columns);
  int *from = to_device(cost), *to = empty_on_device<int>(columns);
  for (int row = 1; row < rows; row += together) {
    const int now = std::min(together, rows - row);
    const unsigned blocks = blocks_for(columns, kBlock - 2 * now);
    LAUNCH(pathfinder_rows, blocks, kBlock, 0, nullptr, on_wall, from, to, columns, now, row);
    std::swap(from, to);
  }
  MUST(cudaDeviceSynchronize());
  for (int row = 1; row < rows; ++row) {
    const std::vector<int> old = cost;
    for (int x = 0; x < columns; ++x) {
      int best = old[x];
      if (x > 0) best = std::min(best, old[x - 1]);
      if (x + 1 < columns) best = std::min(best, old[x + 1]);
      cost[x] = best + wall[row * columns + x];
    }
  }
  const double off = difference(to_host(from, columns), cost);
  return finish("pathfinder", off == 0, off);
}
