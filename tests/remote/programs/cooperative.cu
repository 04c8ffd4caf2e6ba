// A grid whose blocks wait for one another: a cooperative launch, a barrier of the grid made of
// atomics, as many rounds as there are blocks.
#include "program.h"

// Arrivals so far: each round adds one per block.
DEVICE void grid_barrier(volatile int* arrived, int round) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const int all = (round + 1) * static_cast<int>(gridDim.x);
    atomicAdd(const_cast<int*>(arrived), 1);
    while (*arrived < all) {
    }
  }
  __syncthreads();
}

KERNEL(cooperative_shift, (int* values, int* arrived, int rounds)) {
  const int count = static_cast<int>(gridDim.x * blockDim.x);
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int round = 0; round < rounds; ++round) {
    volatile int* all = values;
    const int next = all[(at + static_cast<int>(blockDim.x)) % count] + 1;
    grid_barrier(arrived, 2 * round);
    values[at] = next;
    grid_barrier(arrived, 2 * round + 1);
  }
}

int main() {
  const int blocks = 6, block = 48, count = blocks * block;
  int rounds = blocks;
  std::vector<int> want(count);
  for (int at = 0; at < count; ++at) want[at] = 7 * at;
  int *values = to_device(want), *arrived = to_device(std::vector<int>(1, 0));
  int supported = 0;
  MUST(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
  void* arguments[] = {&values, &arrived, &rounds};
  MUST(cudaLaunchCooperativeKernel(KERNEL_ADDRESS(cooperative_shift), dim3(blocks), dim3(block),
                                   arguments, 0, nullptr));
  MUST(cudaDeviceSynchronize());
  // A full turn: every value is back, once more for each round.
  for (int& value : want) value += rounds;
  const double off = difference(to_host(values, count), want);
  return finish("cooperative", supported == 1 && off == 0, off);
}
