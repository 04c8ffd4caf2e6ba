// printf of the device, then an assertion that fails: the error shows at the next wait and stays.
#include "program.h"

KERNEL(printing_lines, (int count, double value)) {
  const int at = static_cast<int>(threadIdx.x);
  if (at < count) printf("line %d of %d: %.2f %s %c %%\n", at, count, value * at, "text", 'a' + at);
}

KERNEL(printing_assert, (const int* values)) {
  const int at = static_cast<int>(threadIdx.x);
  DEVICE_ASSERT(values[at] >= 0);
}

int main() {
  LAUNCH(printing_lines, 1, 32, 0, nullptr, 3, 1.25);
  MUST(cudaDeviceSynchronize());
  std::vector<int> values(32, 1);
  const int* good = to_device(values);
  LAUNCH(printing_assert, 1, 32, 0, nullptr, good);
  MUST(cudaDeviceSynchronize());
  values[17] = -1;
  const int* bad = to_device(values);
  LAUNCH(printing_assert, 1, 32, 0, nullptr, bad);
  const cudaError_t first = cudaDeviceSynchronize();
  const cudaError_t second = cudaDeviceSynchronize();
  std::printf("printing: %s, then %s\n", cudaGetErrorName(first), cudaGetErrorName(second));
  return finish("printing", first == cudaErrorAssert && second == cudaErrorAssert, first);
}
