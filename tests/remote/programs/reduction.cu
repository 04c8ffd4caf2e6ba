// A sum in two ways, as the samples' reduction: a tree in dynamic shared memory, and shuffles in a
// warp with one atomic per warp.
#include "program.h"

KERNEL(reduction_tree, (const int* values, int* sums, int count)) {
  DYNAMIC_SHARED(int, part);
  const unsigned lane = threadIdx.x;
  const int at = static_cast<int>(blockIdx.x * blockDim.x * 2 + lane);
  const int other = at + static_cast<int>(blockDim.x);
  part[lane] = (at < count ? values[at] : 0) + (other < count ? values[other] : 0);
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (lane < half) part[lane] += part[lane + half];
    __syncthreads();
  }
  if (lane == 0) sums[blockIdx.x] = part[0];
}

KERNEL(reduction_warps, (const float* values, float* sum, int count)) {
  float own = 0;
  const int step = static_cast<int>(blockDim.x * gridDim.x);
  for (int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); at < count; at += step) {
    own += values[at];
  }
  for (int by = 16; by > 0; by /= 2) own += __shfl_down_sync(0xffffffffU, own, by);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}

int main() {
  const int count = 10'001, block = 128;
  Noise noise(10);
  std::vector<int> values(count);
  std::vector<float> floats(count);
  long long want = 0;
  double want_float = 0;
  for (int at = 0; at < count; ++at) {
    values[at] = noise.below(1000) - 500;
    floats[at] = static_cast<float>(noise.below(64)) / 64.0F;
    want += values[at];
    want_float += floats[at];
  }
  const unsigned blocks = blocks_for(count, 2 * block);
  const int* on_values = to_device(values);
  const float* on_floats = to_device(floats);
  int* on_sums = empty_on_device<int>(blocks);
  float* on_sum = to_device(std::vector<float>(1, 0.0F));
  LAUNCH(reduction_tree, blocks, block, block * sizeof(int), nullptr, on_values, on_sums, count);
  LAUNCH(reduction_warps, 6, 96, 0, nullptr, on_floats, on_sum, count);
  MUST(cudaGetLastError());
  long long sum = 0;
  for (int part : to_host(on_sums, blocks)) sum += part;
  const double off = std::fabs(to_host(on_sum, 1)[0] - want_float);
  return finish("reduction", sum == want && off == 0, off);
}
