// Four streams that copy in, compute and copy out; events order them, measure time and are asked.
// At the end their kernels wait for each other.
#include "program.h"

KERNEL(streams_scale, (const float* from, float* to, int count, float by)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < count) to[at] = from[at] * by + 1.0F;
}

KERNEL(streams_sum, (const float* from, float* to, int count, int parts)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= count) return;
  float sum = 0;
  for (int part = 0; part < parts; ++part) sum += from[part * count + at];
  to[at] = sum;
}

// Until all blocks of all launches are here.
KERNEL(streams_meet, (int* here, int all)) {
  atomicAdd(here, 1);
  while (atomicAdd(here, 0) != all) {
  }
}

int main() {
  const int parts = 4, count = 3000, total = parts * count;
  const size_t bytes = count * sizeof(float);
  float *in = nullptr, *out = nullptr;
  MUST(cudaMallocHost(&in, total * sizeof(float)));
  MUST(cudaMallocHost(&out, bytes));
  Noise noise(15);
  for (int at = 0; at < total; ++at) in[at] = noise.unit();
  float *from = empty_on_device<float>(total), *middle = empty_on_device<float>(total);
  float* to = empty_on_device<float>(count);
  cudaStream_t streams[parts];
  cudaEvent_t done[parts], begin, end;
  MUST(cudaEventCreate(&begin));
  MUST(cudaEventCreate(&end));
  for (int part = 0; part < parts; ++part) {
    MUST(cudaStreamCreateWithFlags(&streams[part], cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&done[part], cudaEventDisableTiming));
  }
  MUST(cudaEventRecord(begin, streams[0]));
  for (int part = 0; part < parts; ++part) {
    const int at = part * count;
    MUST(cudaMemcpyAsync(from + at, in + at, bytes, cudaMemcpyHostToDevice, streams[part]));
    LAUNCH(streams_scale, blocks_for(count, 128), 128, 0, streams[part], from + at, middle + at,
           count, static_cast<float>(part + 1));
    MUST(cudaEventRecord(done[part], streams[part]));
    if (part > 0) MUST(cudaStreamWaitEvent(streams[0], done[part], 0));
  }
  LAUNCH(streams_sum, blocks_for(count, 128), 128, 0, streams[0], middle, to, count, parts);
  MUST(cudaMemcpyAsync(out, to, bytes, cudaMemcpyDeviceToHost, streams[0]));
  MUST(cudaEventRecord(end, streams[0]));
  const cudaError_t early = cudaEventQuery(end);
  MUST(cudaEventSynchronize(end));
  float milliseconds = -1;
  MUST(cudaEventElapsedTime(&milliseconds, begin, end));
  const bool events = (early == cudaSuccess || early == cudaErrorNotReady) && milliseconds >= 0 &&
                      cudaEventQuery(end) == cudaSuccess &&
                      cudaStreamQuery(streams[0]) == cudaSuccess;
  std::vector<float> have(out, out + count), want(count, 0.0F);
  for (int at = 0; at < total; ++at) {
    want[at % count] += in[at] * static_cast<float>(at / count + 1) + 1.0F;
  }
  int units = 0;
  MUST(cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, 0));
  int* here = to_device(std::vector<int>(1, 0));
  for (cudaStream_t stream : streams)
    LAUNCH(streams_meet, static_cast<unsigned>(units), 1, 0, stream, here, parts * units);
  MUST(cudaDeviceSynchronize());
  for (int part = 0; part < parts; ++part) {
    MUST(cudaEventDestroy(done[part]));
    MUST(cudaStreamDestroy(streams[part]));
  }
  MUST(cudaFreeHost(in));
  MUST(cudaFreeHost(out));
  const double off = difference(have, want);
  return finish("streams", events && off < 1e-6, off);
}
