// One layer forward and the change of its weights, in the style of Rodinia's backprop: 16 x 16
// blocks, a tree of sums in shared memory over powers of two.
#include "program.h"

constexpr int kSide = 16;

KERNEL(backprop_forward, (const float* input, const float* weights, float* partial, int hidden)) {
  SHARED(float, node, [kSide]);
  SHARED(float, product, [kSide][kSide]);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int block = static_cast<int>(blockIdx.x), row = block * kSide + y;
  if (x == 0) node[y] = input[row];
  __syncthreads();
  product[y][x] = weights[row * hidden + x] * node[y];
  __syncthreads();
  for (int step = 1; step < kSide; step *= 2) {
    if (y % (2 * step) == 0) product[y][x] += product[y + step][x];
    __syncthreads();
  }
  if (y == 0) partial[block * hidden + x] = product[0][x];
}

KERNEL(backprop_adjust,
       (const float* delta, const float* input, float* weights, float* old, int hidden)) {
  const int x = static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.x) * kSide + static_cast<int>(threadIdx.y);
  const int at = row * hidden + x;
  const float change = 0.3F * delta[x] * input[row] + 0.3F * old[at];
  weights[at] += change;
  old[at] = change;
}

int main() {
  const int inputs = 256, hidden = kSide, blocks = inputs / kSide;
  Noise noise(8);
  std::vector<float> input(inputs), weights(inputs * hidden), delta(hidden);
  std::vector<float> old(inputs * hidden);
  for (auto* list : {&input, &weights, &delta, &old}) {
    for (float& value : *list) value = noise.unit() - 0.5F;
  }
  const float *on_input = to_device(input), *on_delta = to_device(delta);
  float *on_weights = to_device(weights), *on_old = to_device(old);
  float* on_partial = empty_on_device<float>(blocks * hidden);
  const dim3 block(kSide, kSide);
  LAUNCH(backprop_forward, blocks, block, 0, nullptr, on_input, on_weights, on_partial, hidden);
  const std::vector<float> partial = to_host(on_partial, blocks * hidden);
  LAUNCH(backprop_adjust, blocks, block, 0, nullptr, on_delta, on_input, on_weights, on_old,
         hidden);
  MUST(cudaGetLastError());
  std::vector<float> sums(hidden, 0.0F), want(hidden, 0.0F);
  for (int at = 0; at < blocks * hidden; ++at) sums[at % hidden] += partial[at];
  for (int at = 0; at < inputs * hidden; ++at)
    want[at % hidden] += weights[at] * input[at / hidden];
  for (int at = 0; at < inputs * hidden; ++at) {
    weights[at] += 0.3F * delta[at % hidden] * input[at / hidden] + 0.3F * old[at];
  }
  const double off =
      std::fmax(difference(sums, want), difference(to_host(on_weights, weights.size()), weights));
  return finish("backprop", off < 1e-4, off);
}
