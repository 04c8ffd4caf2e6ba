// Needleman-Wunsch alignment, in the style of Rodinia's nw: tiles along anti-diagonals, a wave of
// threads inside each tile, constants read through the constant space.
#include "program.h"

constexpr int kTile = 16;
CONSTANT_VARIABLE(int, penalty, [1]);

KERNEL(nw_diagonal, (const int* scores, int* table, int width, int tiles, int first)) {
  SHARED(int, tile, [kTile + 1][kTile + 1]);
  SHARED(int, score, [kTile][kTile]);
  const int lane = static_cast<int>(threadIdx.x);
  const int tile_x = first + static_cast<int>(blockIdx.x);
  const int tile_y = tiles - 1 - tile_x;
  const int x = tile_x * kTile, y = tile_y * kTile;
  for (int row = 0; row < kTile; ++row) {
    score[row][lane] = scores[(y + row + 1) * width + x + lane + 1];
  }
  if (lane == 0) tile[0][0] = table[y * width + x];
  tile[lane + 1][0] = table[(y + lane + 1) * width + x];
  tile[0][lane + 1] = table[y * width + x + lane + 1];
  __syncthreads();
  for (int wave = 0; wave < 2 * kTile - 1; ++wave) {
    const int i = lane + 1, j = wave - lane + 1;
    if (j >= 1 && j <= kTile) {
      const int corner = tile[j - 1][i - 1] + score[j - 1][i - 1];
      const int left = tile[j][i - 1] - penalty[0], up = tile[j - 1][i] - penalty[0];
      const int best = corner > left ? corner : left;
      tile[j][i] = best > up ? best : up;
    }
    __syncthreads();
  }
  for (int row = 0; row < kTile; ++row) {
    table[(y + row + 1) * width + x + lane + 1] = tile[row + 1][lane + 1];
  }
}

int main() {
  const int tiles = 5, size = tiles * kTile, width = size + 1, cost = 10;
  Noise noise(7);
  std::vector<int> scores(width * width), table(width * width, 0);
  for (int& value : scores) value = noise.below(21) - 10;
  for (int at = 1; at < width; ++at) table[at] = table[at * width] = -at * cost;
  MUST(cudaMemcpyToSymbol(SYMBOL(penalty), &cost, sizeof cost, 0, cudaMemcpyHostToDevice));
  const int* on_scores = to_device(scores);
  int* on_table = to_device(table);
  // Diagonal d of tiles has the tiles (x, y) with x + y = d.
  for (int diagonal = 0; diagonal < 2 * tiles - 1; ++diagonal) {
    const int first = std::max(0, diagonal - tiles + 1), last = std::min(diagonal, tiles - 1);
    const unsigned blocks = static_cast<unsigned>(last - first + 1);
    LAUNCH(nw_diagonal, blocks, kTile, 0, nullptr, on_scores, on_table, width, diagonal + 1, first);
  }
  const std::vector<int> have = to_host(on_table, table.size());
  for (int y = 1; y < width; ++y) {
    for (int x = 1; x < width; ++x) {
      const int corner = table[(y - 1) * width + x - 1] + scores[y * width + x];
      const int left = table[y * width + x - 1] - cost, up = table[(y - 1) * width + x] - cost;
      table[y * width + x] = std::max({corner, left, up});
    }
  }
  const double off = difference(have, table);
  return finish("nw", off == 0, off);
}
