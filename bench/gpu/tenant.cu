// A tenant of a GPU, for measuring how tenants disturb each other: requests of one kind one after
// another for some seconds, then a line of JSON with their times.
//
//   nvcc -O3 -cudart shared -gencode arch=compute_80,code=compute_80 bench/gpu/tenant.cu -o tenant
//   tenant KIND SECONDS [DELAY]
//
// KIND: short (five small kernels, 32 blocks each), long (one that fills the GPU for milliseconds),
// reading (one that reads 1 GB), null (one empty kernel), launches (1,000 empty kernels), narrow
// and wide (models of 18 and 8 kernels, most of them narrow or wide), crash (a kernel that writes
// where it may not). The first DELAY seconds are not counted.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define MUST(call)                                                      \
  if (const cudaError_t error = call; error != cudaSuccess) {           \
    std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
    std::exit(1);                                                       \
  }

__global__ void empty() {}

__global__ void compute(float* out, int rounds) {
  float a = threadIdx.x, b = 1.0001f, c = 0.5f, d = blockIdx.x;
  for (int i = 0; i < rounds; ++i) {
    a = fmaf(a, b, c);
    d = fmaf(d, b, a);
  }
  if (a + d == 12345.678f) out[0] = a;
}

__global__ void reading(const float4* in, float* out, long count) {
  float sum = 0;
  for (long i = blockIdx.x * long{blockDim.x} + threadIdx.x; i < count;
       i += long{gridDim.x} * blockDim.x)
    sum += in[i].x + in[i].y + in[i].z + in[i].w;
  if (sum == 12345.678f) out[0] = sum;
}

__global__ void crash(int* where) { *where = 1; }

using Clock = std::chrono::steady_clock;

int main(int argc, char** argv) {
  const char* const kind = argc > 1 ? argv[1] : "short";
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2,
               delay = argc > 3 ? std::atof(argv[3]) : 0.5;
  const auto is = [kind](const char* name) { return std::strcmp(kind, name) == 0; };
  constexpr long kBytes = 1L << 30;
  float* out = nullptr;
  float4* in = nullptr;
  MUST(cudaMalloc(&out, 256));
  if (is("reading") || is("narrow")) {
    MUST(cudaMalloc(&in, kBytes));
    MUST(cudaMemset(in, 0, kBytes));
  }
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto request = [&] {
    if (is("short"))
      for (int i = 0; i < 5; ++i) compute<<<32, 256, 0, stream>>>(out, 4000);
    if (is("long")) compute<<<132 * 32, 256, 0, stream>>>(out, 100000);
    if (is("reading")) reading<<<132 * 8, 512, 0, stream>>>(in, out, kBytes / 16);
    if (is("null")) empty<<<1, 32, 0, stream>>>();
    if (is("launches"))
      for (int i = 0; i < 1000; ++i) empty<<<1, 32, 0, stream>>>();
    for (int i = 0; is("narrow") && i < 6; ++i) {
      compute<<<16, 256, 0, stream>>>(out, 4000);
      compute<<<132 * 4, 256, 0, stream>>>(out, 1000);
      reading<<<132, 512, 0, stream>>>(in, out, kBytes / 16 / 32);
    }
    for (int i = 0; is("wide") && i < 4; ++i) {
      compute<<<132 * 16, 256, 0, stream>>>(out, 3000);
      compute<<<64, 256, 0, stream>>>(out, 4000);
    }
    if (is("crash")) crash<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(64));
    MUST(cudaGetLastError());
    MUST(cudaStreamSynchronize(stream));
  };
  request();
  std::vector<double> us;
  const Clock::time_point begun = Clock::now();
  const auto since = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  while (since(begun) < delay + seconds) {
    const Clock::time_point at = Clock::now();
    request();
    if (since(begun) > delay) us.push_back(since(at) * 1e6);
  }
  std::sort(us.begin(), us.end());
  const auto rank = [&us](double share) {
    return us.empty() ? 0.0
                      : us[static_cast<std::size_t>(share * static_cast<double>(us.size() - 1))];
  };
  std::printf(
      "{\"kind\": \"%s\", \"requests\": %zu, \"per_s\": %.1f, \"p50_us\": %.1f, \"p99_us\": "
      "%.1f}\n",
      kind, us.size(), static_cast<double>(us.size()) / seconds, rank(0.5), rank(0.99));
}
