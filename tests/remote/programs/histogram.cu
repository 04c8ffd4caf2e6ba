// Counts of bytes, as the samples' histogram: atomics on shared memory, then on global memory; and
// the same by ballots of a warp.
#include "program.h"

constexpr int kBins = 64;

KERNEL(histogram_shared, (const unsigned char* data, unsigned* bins, int count)) {
  SHARED(unsigned, own, [kBins]);
  for (unsigned bin = threadIdx.x; bin < kBins; bin += blockDim.x) own[bin] = 0;
  __syncthreads();
  for (int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); at < count;
       at += static_cast<int>(gridDim.x * blockDim.x)) {
    atomicAdd(&own[data[at] / 4], 1U);
  }
  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < kBins; bin += blockDim.x) atomicAdd(&bins[bin], own[bin]);
}

KERNEL(histogram_halves, (const unsigned char* data, int* halves, int count)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int high = at < count && data[at] >= 128;
  const unsigned vote = __ballot_sync(0xffffffffU, high);
  const int in_block = __syncthreads_count(high);
  if (threadIdx.x % 32 == 0) atomicAdd(&halves[0], __popc(vote));
  if (threadIdx.x == 0) atomicAdd(&halves[1], in_block);
}

int main() {
  const int count = 20'000;
  Noise noise(12);
  std::vector<unsigned char> data(count);
  std::vector<unsigned> want(kBins, 0);
  int high = 0;
  for (unsigned char& value : data) {
    value = static_cast<unsigned char>(noise.below(256) & noise.below(256));
    ++want[value / 4];
    high += value >= 128;
  }
  const unsigned char* on_data = to_device(data);
  unsigned* on_bins = empty_on_device<unsigned>(kBins);
  int* on_halves = empty_on_device<int>(2);
  MUST(cudaMemset(on_bins, 0, kBins * sizeof(unsigned)));
  MUST(cudaMemset(on_halves, 0, 2 * sizeof(int)));
  LAUNCH(histogram_shared, 7, 96, 0, nullptr, on_data, on_bins, count);
  LAUNCH(histogram_halves, blocks_for(count, 256), 256, 0, nullptr, on_data, on_halves, count);
  const double off = std::fmax(difference(to_host(on_bins, kBins), want),
                               difference(to_host(on_halves, 2), {high, high}));
  return finish("histogram", off == 0, off);
}
