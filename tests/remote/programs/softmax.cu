// Softmax of rows, a block per row: maximum and sum by shuffles and shared memory, exponentials by
// the hardware's approximation.
#include "program.h"

constexpr int kBlock = 64;

DEVICE float larger(float a, float b) { return a > b ? a : b; }

KERNEL(softmax_rows, (const float* from, float* to, int columns)) {
  SHARED(float, parts, [kBlock / 32]);
  const float* row = from + static_cast<int>(blockIdx.x) * columns;
  const int lane = static_cast<int>(threadIdx.x);
  float most = -1e30F;
  for (int at = lane; at < columns; at += kBlock) most = larger(most, row[at]);
  for (int by = 16; by > 0; by /= 2) most = larger(most, __shfl_xor_sync(0xffffffffU, most, by));
  if (lane % 32 == 0) parts[lane / 32] = most;
  __syncthreads();
  most = larger(parts[0], parts[1]);
  __syncthreads();
  float sum = 0;
  for (int at = lane; at < columns; at += kBlock) sum += device_exp(row[at] - most);
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, by);
  if (lane % 32 == 0) parts[lane / 32] = sum;
  __syncthreads();
  sum = parts[0] + parts[1];
  for (int at = lane; at < columns; at += kBlock) {
    to[static_cast<int>(blockIdx.x) * columns + at] = device_exp(row[at] - most) / sum;
  }
}

int main() {
  const int rows = 20, columns = 150;
  Noise noise(14);
  std::vector<float> values(rows * columns), want(rows * columns);
  for (float& value : values) value = 8.0F * noise.unit() - 4.0F;
  const float* from = to_device(values);
  float* to = empty_on_device<float>(values.size());
  LAUNCH(softmax_rows, rows, kBlock, 0, nullptr, from, to, columns);
  for (int row = 0; row < rows; ++row) {
    double sum = 0;
    for (int at = 0; at < columns; ++at)
      sum += std::exp(static_cast<double>(values[row * columns + at]));
    for (int at = row * columns; at < (row + 1) * columns; ++at) {
      want[at] = static_cast<float>(std::exp(static_cast<double>(values[at])) / sum);
    }
  }
  const double off = difference(to_host(to, values.size()), want);
  return finish("softmax", off < 1e-5, off);
}
