// Prefix sums of a long array, as the samples' scan: shuffles in warps, warps in blocks, blocks by
// a second kernel, and the offsets added.
#include "program.h"

constexpr int kBlock = 128;

DEVICE int warp_scan(int value) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int by = 1; by < 32; by *= 2) {
    const int other = __shfl_up_sync(0xffffffffU, value, by);
    if (lane >= by) value += other;
  }
  return value;
}

KERNEL(scan_blocks, (const int* from, int* to, int* totals, int count)) {
  SHARED(int, warps, [kBlock / 32]);
  const int at = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  const int own = at < count ? from[at] : 0;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  int sum = warp_scan(own);
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  for (int before = 0; before < warp; ++before) sum += warps[before];
  if (at < count) to[at] = sum - own;
  if (threadIdx.x == kBlock - 1 && totals) totals[blockIdx.x] = sum;
}

KERNEL(scan_add, (int* to, const int* offsets, int count)) {
  const int at = static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
  if (at < count) to[at] += offsets[blockIdx.x];
}

int main() {
  const int count = 9'000, blocks = static_cast<int>(blocks_for(count, kBlock));
  Noise noise(11);
  std::vector<int> values(count), want(count);
  int sum = 0;
  for (int at = 0; at < count; ++at) {
    values[at] = noise.below(100);
    want[at] = sum;
    sum += values[at];
  }
  const int* on_values = to_device(values);
  int *on_result = empty_on_device<int>(count), *on_totals = empty_on_device<int>(blocks);
  int* on_offsets = empty_on_device<int>(blocks);
  LAUNCH(scan_blocks, blocks, kBlock, 0, nullptr, on_values, on_result, on_totals, count);
  LAUNCH(scan_blocks, 1, kBlock, 0, nullptr, on_totals, on_offsets, nullptr, blocks);
  LAUNCH(scan_add, blocks, kBlock, 0, nullptr, on_result, on_offsets, count);
  MUST(cudaDeviceSynchronize());
  const double off = difference(to_host(on_result, count), want);
  return finish("scan", off == 0, off);
}
