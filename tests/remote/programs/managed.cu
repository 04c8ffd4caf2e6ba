// Managed memory as programs use it: a list that the host links and the device walks, values that
// both change in turns, two streams, graphs, copies by address.
#include "program.h"

struct Item {
  int value;
  Item* next;
};

KERNEL(managed_walk, (const Item* first, int* sum)) {
  int own = 0;
  for (const Item* item = first; item != nullptr; item = item->next) own += item->value;
  *sum = own;
}

KERNEL(managed_add, (int* values, int count, int more)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < count) values[at] += more;
}

KERNEL(managed_total, (const int* first, const int* end, int* sum)) {
  int own = 0;
  for (const int* at = first; at < end; ++at) own += *at;
  *sum = own;
}

// Goes on once the host has said so.
KERNEL(managed_await, (const volatile int* flag, int* values)) {
  while (flag[0] == 0) {
  }
  values[1] = values[0] + flag[0];
}

static int wrong = 0;

static void expect(bool right, const char* what) {
  if (right) return;
  std::printf("not so: %s\n", what);
  ++wrong;
}

// Pointers that the host wrote are the device's, too.
static void list() {
  const int count = 1000, step = 37;  // through all of them, since 37 does not divide 1000
  Item* items = nullptr;
  int* sum = nullptr;
  MUST(cudaMallocManaged(&items, count * sizeof(Item)));
  MUST(cudaMallocManaged(&sum, sizeof(int)));
  int want = 0;
  for (int at = 0; at < count; ++at) {
    const int next = (at + step) % count;
    items[at].value = at * 7 % 101;
    items[at].next = next == 0 ? nullptr : items + next;
    want += items[at].value;
  }
  LAUNCH(managed_walk, 1, 1, 0, nullptr, items, sum);
  MUST(cudaDeviceSynchronize());
  expect(*sum == want, "the sum of the list");
  items[step * 3].value += 5;
  LAUNCH(managed_walk, 1, 1, 0, nullptr, items, sum);
  MUST(cudaDeviceSynchronize());
  expect(*sum == want + 5, "the sum after the host changed an item");
  MUST(cudaFree(sum));
  MUST(cudaFree(items));
}

// Both sides change it in turns; what waits for it is a stream, an event, a copy.
static void turns() {
  const int count = 5000, half = count / 2;
  int *values = nullptr, *plain = nullptr;
  cudaStream_t one, two;
  cudaEvent_t done;
  MUST(cudaMallocManaged(&values, count * sizeof(int)));
  MUST(cudaMalloc(&plain, count * sizeof(int)));
  MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  MUST(cudaStreamCreate(&two));
  MUST(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  MUST(cudaMemset(values, 0, count * sizeof(int)));
  MUST(cudaDeviceSynchronize());
  int off = 0;
  for (int round = 1; round <= 5; ++round) {
    for (int at = 0; at < count; ++at) values[at] += at % 13;
    LAUNCH(managed_add, blocks_for(half, 128), 128, 0, one, values, half, 3);
    LAUNCH(managed_add, blocks_for(count - half, 128), 128, 0, two, values + half, count - half, 4);
    MUST(cudaEventRecord(done, two));
    MUST(cudaStreamSynchronize(one));
    MUST(cudaEventSynchronize(done));
    for (int at = 0; at < count; ++at) {
      if (values[at] != round * (at % 13 + (at < half ? 3 : 4))) ++off;
    }
  }
  expect(off == 0, "values that both changed");
  MUST(cudaMemcpy(plain, values, count * sizeof(int), cudaMemcpyDefault));
  LAUNCH(managed_add, blocks_for(count, 128), 128, 0, nullptr, plain, count, 1);
  MUST(cudaMemcpy(values, plain, count * sizeof(int), cudaMemcpyDeviceToDevice));
  expect(values[14] == 5 * (1 + 3) + 1, "what was copied into it");
  LAUNCH(managed_add, blocks_for(count, 128), 128, 0, nullptr, values, count, 1);
  const std::vector<int> there = to_host(values, count);
  expect(there[14] == 22 && values[14] == 22, "what was copied out of it");
  MUST(cudaEventDestroy(done));
  MUST(cudaStreamDestroy(one));
  MUST(cudaStreamDestroy(two));
  MUST(cudaFree(values));
  MUST(cudaFree(plain));
}

// A graph sees what the host wrote before its launch, not before its capture.
static void graphs() {
  int* values = nullptr;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  MUST(cudaMallocManaged(&values, 64 * sizeof(int)));
  MUST(cudaStreamCreate(&stream));
  for (int at = 0; at < 64; ++at) values[at] = at;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  LAUNCH(managed_add, 1, 64, 0, stream, values, 64, 100);
  MUST(cudaStreamEndCapture(stream, &graph));
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < 3; ++round) {
    values[7] = 7 * round;
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    expect(values[7] == 7 * round + 100 && values[8] == 8 + 100 * (round + 1), "a graph's turn");
  }
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaStreamDestroy(stream));
  MUST(cudaFree(values));
}

// A kernel waits for a flag in the host's memory that is set behind its launch.
static void flag() {
  int *set = nullptr, *values = nullptr;
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaMallocHost(&set, sizeof(int)));
  MUST(cudaMalloc(&values, 2 * sizeof(int)));
  for (int round = 1; round <= 3; ++round) {
    *set = 0;
    MUST(cudaMemset(values, 0, 2 * sizeof(int)));
    MUST(cudaDeviceSynchronize());
    LAUNCH(managed_await, 1, 1, 0, stream, set, values);
    *set = round * 0x101;
    MUST(cudaStreamSynchronize(stream));
    expect(to_host(values, 2)[1] == round * 0x101, "what a kernel did that waited for the host");
  }
  MUST(cudaFree(values));
  MUST(cudaFreeHost(set));
  MUST(cudaStreamDestroy(stream));
}

// A kernel is told where pinned memory ends; copies call it the device's.
static void ends() {
  const int count = 1024;  // whole pages
  int *parts[3], numbers[count], *sum = nullptr;
  MUST(cudaMalloc(&sum, sizeof(int)));
  for (int*& part : parts) MUST(cudaMallocHost(&part, sizeof numbers));
  for (int at = 0; at < 3; ++at) {
    for (int& number : numbers) number = at + 1;
    MUST(cudaMemcpy(parts[at], numbers, sizeof numbers, cudaMemcpyHostToDevice));
  }
  for (int at = 0; at < 3; ++at) {
    LAUNCH(managed_total, 1, 1, 0, nullptr, parts[at], parts[at] + count, sum);
    expect(to_host(sum, 1)[0] == (at + 1) * count, "the sum up to the end of pinned memory");
  }
  for (int* part : parts) MUST(cudaFreeHost(part));
  MUST(cudaFree(sum));
}

// What the host made zero, or left so, is zero on the device, whatever lay there before.
static void zeros() {
  const int count = 1024;
  int *before = nullptr, *zero = nullptr, *sum = nullptr;
  MUST(cudaMalloc(&sum, sizeof(int)));
  for (int round = 0; round < 2; ++round) {
    MUST(cudaMalloc(&before, count * sizeof(int)));
    MUST(cudaMemset(before, 1, count * sizeof(int)));
    MUST(cudaFree(before));
    MUST(cudaMallocManaged(&zero, count * sizeof(int)));
    if (round == 0) std::fill(zero, zero + count, 0);
    LAUNCH(managed_total, 1, 1, 0, nullptr, zero, zero + count, sum);
    expect(to_host(sum, 1)[0] == 0, "the sum of zeros");
    MUST(cudaFree(zero));
  }
  MUST(cudaFree(sum));
}

int main() {
  zeros();
  list();
  ends();
  turns();
  graphs();
  flag();
  return finish("managed", wrong == 0, wrong);
}
