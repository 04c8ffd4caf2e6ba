// Functions of the host that a stream calls between kernels, in order; a callback with the stream's
// status; and a function that waits, beside which another stream goes on.
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "program.h"

KERNEL(callbacks_fill, (int* values, int value, int count)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < count) values[at] = value * 10 + at;
}

struct Step {
  int* host;
  int want;
  std::atomic<int>* right;
};

static void look(void* data) {
  const Step* step = static_cast<const Step*>(data);
  bool same = true;
  for (int at = 0; at < 64; ++at) same = same && step->host[at] == step->want * 10 + at;
  if (same && *step->right == step->want) step->right->fetch_add(1);
}

static void last(cudaStream_t, cudaError_t status, void* data) {
  if (status == cudaSuccess) static_cast<std::atomic<int>*>(data)->fetch_add(100);
}

struct Door {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
};

static void wait_at(void* data) {
  Door* door = static_cast<Door*>(data);
  std::unique_lock<std::mutex> lock(door->mutex);
  door->opened.wait(lock, [door] { return door->open; });
}

// There, back and there again in one stream, while a function of another waits for it.
static bool goes_on_beside(const int* values, int* host, int count) {
  Door door;
  cudaStream_t waits, works;
  MUST(cudaStreamCreateWithFlags(&waits, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&works, cudaStreamNonBlocking));
  MUST(cudaLaunchHostFunc(waits, wait_at, &door));
  const size_t bytes = count * sizeof(int);
  int* copy = empty_on_device<int>(count);
  MUST(cudaMemcpyAsync(host, values, bytes, cudaMemcpyDeviceToHost, works));
  MUST(cudaMemcpyAsync(copy, host, bytes, cudaMemcpyHostToDevice, works));
  MUST(cudaStreamSynchronize(works));
  const bool right = cudaStreamQuery(waits) == cudaErrorNotReady;
  {
    const std::lock_guard<std::mutex> lock(door.mutex);
    door.open = true;
  }
  door.opened.notify_one();
  MUST(cudaStreamSynchronize(waits));
  return right && to_host(copy, count) == to_host(values, count);
}

int main() {
  const int count = 64, steps = 8;
  std::atomic<int> right{0};
  int* host = nullptr;
  MUST(cudaMallocHost(&host, count * sizeof(int)));
  int* values = empty_on_device<int>(count);
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  std::vector<Step> all;
  for (int step = 0; step < steps; ++step) all.push_back({host, step, &right});
  for (Step& step : all) {
    LAUNCH(callbacks_fill, 1, count, 0, stream, values, step.want, count);
    MUST(cudaMemcpyAsync(host, values, count * sizeof(int), cudaMemcpyDeviceToHost, stream));
    MUST(cudaLaunchHostFunc(stream, look, &step));
  }
  MUST(cudaStreamAddCallback(stream, last, &right, 0));
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaStreamDestroy(stream));
  const int have = right;
  const bool beside = goes_on_beside(values, host, count);
  return finish("callbacks", have == steps + 100 && beside, steps + 100 - have);
}
