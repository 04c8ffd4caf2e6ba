// Memory in many ways: pools of a stream, pitched rows, copies within the device, variables of the
// module by name and by address, locks of threads, what does not fit.
#include "program.h"

DEVICE_VARIABLE(int, table, [8]) = {3, 1, 4, 1, 5, 9, 2, 6};
DEVICE_VARIABLE(int, lock, [1]);
CONSTANT_VARIABLE(float, weights, [4]) = {0.5F, 0.25F, 0.125F, 0.0625F};

KERNEL(memory_table, (int* out, float* mixed)) {
  const int at = static_cast<int>(threadIdx.x);
  out[at] = table[at];
  table[at] = at * at;
  mixed[at] = weights[at % 4] * static_cast<float>(at);
}

KERNEL(memory_locked, (int* counter)) {
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock[0], 0, 1) == 0) {
      volatile int* value = counter;
      *value = *value + 1;
      __threadfence();
      atomicExch(&lock[0], 0);
      done = true;
    }
  }
}

KERNEL(memory_rows, (char* rows, size_t pitch, int width)) {
  int* row = reinterpret_cast<int*>(rows + blockIdx.x * pitch);
  for (int at = static_cast<int>(threadIdx.x); at < width; at += static_cast<int>(blockDim.x)) {
    row[at] = static_cast<int>(blockIdx.x) * 1000 + at;
  }
}

static bool tables_right() {
  int* out = empty_on_device<int>(8);
  float* mixed = empty_on_device<float>(8);
  LAUNCH(memory_table, 1, 8, 0, nullptr, out, mixed);
  int after[8];
  MUST(cudaMemcpyFromSymbol(after, SYMBOL(table), sizeof after, 0, cudaMemcpyDeviceToHost));
  int* by_address = nullptr;
  MUST(cudaGetSymbolAddress(reinterpret_cast<void**>(&by_address), SYMBOL(table)));
  const std::vector<int> before = to_host(out, 8), again = to_host(by_address, 8);
  const std::vector<float> products = to_host(mixed, 8);
  const int want[] = {3, 1, 4, 1, 5, 9, 2, 6};
  bool right = true;
  for (int at = 0; at < 8; ++at) {
    right = right && before[at] == want[at] && after[at] == at * at && again[at] == at * at;
    right = right && products[at] == static_cast<float>(at) / static_cast<float>(2 << (at % 4));
  }
  return right;
}

static bool rows_right() {
  const int width = 37, height = 5;
  void* rows = nullptr;
  size_t pitch = 0;
  MUST(cudaMallocPitch(&rows, &pitch, width * sizeof(int), height));
  LAUNCH(memory_rows, height, 32, 0, nullptr, static_cast<char*>(rows), pitch, width);
  std::vector<int> have(width * height);
  MUST(cudaMemcpy2D(have.data(), width * sizeof(int), rows, pitch, width * sizeof(int), height,
                    cudaMemcpyDeviceToHost));
  bool right = pitch >= width * sizeof(int);
  for (int at = 0; at < width * height; ++at) {
    right = right && have[at] == at / width * 1000 + at % width;
  }
  MUST(cudaFree(rows));
  return right;
}

static bool pools_right() {
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  int *first = nullptr, *second = nullptr;
  const std::vector<int> zero(1, 0);
  MUST(cudaMallocAsync(&first, sizeof(int), stream));
  MUST(cudaMallocAsync(&second, sizeof(int), stream));
  MUST(cudaMemcpyAsync(first, zero.data(), sizeof(int), cudaMemcpyHostToDevice, stream));
  LAUNCH(memory_locked, 3, 40, 0, stream, first);
  MUST(cudaMemcpyAsync(second, first, sizeof(int), cudaMemcpyDeviceToDevice, stream));
  int have = 0;
  MUST(cudaMemcpyAsync(&have, second, sizeof(int), cudaMemcpyDeviceToHost, stream));
  MUST(cudaFreeAsync(first, stream));
  MUST(cudaFreeAsync(second, stream));
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaStreamDestroy(stream));
  return have == 120;
}

int main() {
  const bool tables = tables_right(), rows = rows_right(), pools = pools_right();
  size_t available = 0, total = 0;
  MUST(cudaMemGetInfo(&available, &total));
  void* much = nullptr;
  const bool refused = cudaMalloc(&much, total + (size_t{1} << 40)) == cudaErrorMemoryAllocation &&
                       cudaGetLastError() == cudaErrorMemoryAllocation &&
                       cudaGetLastError() == cudaSuccess;
  std::printf("memory: tables %d rows %d pools %d refused %d\n", tables, rows, pools, refused);
  return finish("memory", tables && rows && pools && refused && available <= total, 0);
}
