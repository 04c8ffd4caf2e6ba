// tenant compute|memory SECONDS [AT]: requests of six kernels; says requests per second. Begins AT
// so many seconds since 1970, so that several begin, and end, at once.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#ifdef NVTX
#include <nvtx3/nvToolsExt.h>
#endif
__global__ void compute_a(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  for (int k = 0; k < n; ++k) v = v * 1.0001f + 0.5f;
  x[i] = v;
}
__global__ void compute_b(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  for (int k = 0; k < n; ++k) v = v * 0.9999f + 0.25f;
  x[i] = v;
}
__global__ void memory_a(const float4* a, float4* b, int n) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = s; i < n; i += gridDim.x * blockDim.x) {
    float4 v = a[i];
    v.x += 1;
    b[i] = v;
  }
}
__global__ void memory_b(const float4* a, float4* b, int n) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = s; i < n; i += gridDim.x * blockDim.x) {
    float4 v = a[i];
    v.y += 1;
    b[i] = v;
  }
}
int main(int argc, char** argv) {
  const bool memory = !strcmp(argv[1], "memory");
  const double seconds = atof(argv[2]);
  const int n = 1 << 19;  // float4
  float4 *a, *b;
  cudaMalloc(&a, n * 16);
  cudaMalloc(&b, n * 16);
  cudaMemset(a, 0, n * 16);
  cudaMemset(b, 0, n * 16);
  cudaDeviceSynchronize();
  using clock = std::chrono::system_clock;
  const std::chrono::microseconds at(static_cast<long long>(argc > 3 ? atof(argv[3]) * 1e6 : 0));
  std::this_thread::sleep_until(clock::time_point(at));
  const auto begin = clock::now();
  long requests = 0;
  double took = 0;
  do {
#ifdef NVTX
    nvtxRangePushA("request");
#endif
    for (int i = 0; i < 3; ++i) {
      if (memory) {
        memory_a<<<32, 128>>>(a, b, n);
        memory_b<<<32, 128>>>(b, a, n);
      } else {
        compute_a<<<64, 64>>>((float*)a, 2500);
        compute_b<<<1, 64>>>((float*)b, 40000);
      }
    }
    cudaDeviceSynchronize();
#ifdef NVTX
    nvtxRangePop();
#endif
    ++requests;
    took = std::chrono::duration<double>(clock::now() - begin).count();
  } while (took < seconds);
  const auto e = cudaGetLastError();
  printf("%s %.2f requests/s %s\n", argv[1], requests / took, cudaGetErrorString(e));
  return e != 0;
}
