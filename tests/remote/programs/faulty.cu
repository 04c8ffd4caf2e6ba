// Sums of blocks, with a fault on demand for `--check` to find: `faulty bounds` has one block too
// many, `faulty race` leaves out a barrier, `faulty fresh` reads memory that nobody wrote, in
// `faulty early` threads return that others wait for, `faulty refused` asks for blocks that no
// device has. A second word: it waits for no result; `reset`: it resets the device, and looks at no
// error; `graph`: it launches a graph that is none. `faulty ignored` writes to nowhere, looks at
// no error and leaves without exit handlers.
// Without a word it is right.
#include <cstring>

#include "program.h"

constexpr int kBlock = 128;

KERNEL(faulty_sums, (const int* values, int* sums, int count, int barriers,
                     int early)) {
  SHARED(int, part, [kBlock]);
  const int lane = static_cast<int>(threadIdx.x);
  const int at = static_cast<int>(blockIdx.x) * kBlock + lane;
  part[lane] = at < count ? values[at] : 0;
  __syncthreads();
  for (int half = kBlock / 2; half > 0; half /= 2) {
    if (lane < half) part[lane] += part[lane + half];
    if (early && lane >= half) return;
    if (barriers) __syncthreads();
  }
  if (lane == 0) sums[blockIdx.x] = part[0];
}

int main(int argc, char** argv) {
  const char* fault = argc > 1 ? argv[1] : "none";
  if (std::strcmp(fault, "ignored") == 0) {
    LAUNCH(faulty_sums, 1, kBlock, 0, nullptr, static_cast<const int*>(nullptr),
           static_cast<int*>(nullptr), 0, 1, 0);
    cudaDeviceSynchronize();
    std::_Exit(0);
  }
  const int count = 1024;
  const int reads = std::strcmp(fault, "bounds") == 0 ? count + 1 : count;
  const int blocks = static_cast<int>(blocks_for(reads, kBlock));
  std::vector<int> values(count);
  long long want = 0;
  for (int at = 0; at < count; ++at) want += values[at] = at % 17;
  const int* on_values =
      std::strcmp(fault, "fresh") == 0 ? empty_on_device<int>(count) : to_device(values);
  int* on_sums = empty_on_device<int>(blocks);
  const int barriers = std::strcmp(fault, "race") != 0;
  const int early = std::strcmp(fault, "early") == 0;
  const int threads = std::strcmp(fault, "refused") == 0 ? 64 * kBlock : kBlock;
  LAUNCH(faulty_sums, blocks, threads, 0, nullptr, on_values, on_sums, reads, barriers,
         early);
  if (argc > 2) {
    if (std::strcmp(argv[2], "reset") == 0) cudaDeviceReset();
    if (std::strcmp(argv[2], "graph") == 0) cudaGraphLaunch(nullptr, nullptr);
    return 0;
  }
  const cudaError_t status = cudaDeviceSynchronize();
  if (status != cudaSuccess) {
    std::printf("faulty: %s\n", cudaGetErrorString(status));
    return 2;
  }
  long long sum = 0;
  for (int part : to_host(on_sums, blocks)) sum += part;
  return finish("faulty", sum == want, static_cast<double>(sum - want));
}
