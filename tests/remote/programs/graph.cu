// Work of two streams captured as a graph, launched often: kernels, a copy, a memset; what the
// graph reads changes between launches. Then a graph whose copies go to and from other memory of
// the program in each round, and whose kernel is switched off in some.
#include "program.h"

KERNEL(graph_step, (float* values, const float* by, int count)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < count) values[at] = values[at] * 0.5F + *by;
}

KERNEL(graph_count, (int* counter)) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *counter += 1;
}

KERNEL(graph_collect, (const float* values, const int* counter, float* sum, int count)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < count) atomicAdd(sum, values[at] * static_cast<float>(*counter));
}

static cudaGraphExec_t captured_round(float* values, float* by, int count,
                                      std::vector<cudaGraphNode_t>& nodes) {
  cudaStream_t stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  float now = 0;
  std::vector<float> have(static_cast<size_t>(count));
  MUST(cudaStreamCreate(&stream));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  MUST(cudaMemcpyAsync(by, &now, sizeof now, cudaMemcpyHostToDevice, stream));
  LAUNCH(graph_step, 1, 64, 0, stream, values, by, count);
  MUST(cudaMemcpyAsync(have.data(), values, have.size() * sizeof now, cudaMemcpyDeviceToHost,
                       stream));
  MUST(cudaStreamEndCapture(stream, &graph));
  size_t most = nodes.size();
  MUST(cudaGraphGetNodes(graph, nodes.data(), &most));
  nodes.resize(most);
  MUST(cudaGraphInstantiate(&executable, graph, 0));
  return executable;
}

static double with_changing_nodes() {
  const int count = 64, rounds = 30;
  std::vector<float> want(count, 8.0F);
  float *values = to_device(want), *by = empty_on_device<float>(1);
  std::vector<cudaGraphNode_t> nodes(8);
  const cudaGraphExec_t executable = captured_round(values, by, count, nodes);
  const cudaGraphNodeType types[] = {cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeKernel,
                                     cudaGraphNodeTypeMemcpy};
  if (nodes.size() != 3) return 1;
  for (size_t i = 0; i < 3; ++i) {
    cudaGraphNodeType type;
    MUST(cudaGraphNodeGetType(nodes[i], &type));
    if (type != types[i]) return 1;
  }
  double off = 0;
  for (int round = 1; round <= rounds; ++round) {
    const float now = static_cast<float>(round % 7);
    std::vector<float> have(count);
    MUST(cudaGraphExecMemcpyNodeSetParams1D(executable, nodes[0], by, &now, sizeof now,
                                            cudaMemcpyHostToDevice));
    MUST(cudaGraphExecMemcpyNodeSetParams1D(executable, nodes[2], have.data(), values,
                                            have.size() * sizeof now, cudaMemcpyDeviceToHost));
    const bool runs = round % 3 != 0;
    MUST(cudaGraphNodeSetEnabled(executable, nodes[1], runs ? 1 : 0));
    MUST(cudaGraphLaunch(executable, nullptr));
    MUST(cudaDeviceSynchronize());
    if (runs)
      for (float& value : want) value = value * 0.5F + now;
    off = std::fmax(off, difference(have, want));
  }
  MUST(cudaGraphExecDestroy(executable));
  return off;
}

int main() {
  const int count = 256, rounds = 20;
  std::vector<float> want(count, 8.0F);
  float* values = to_device(want);
  float *by = empty_on_device<float>(1), *sum = empty_on_device<float>(1);
  int* counter = empty_on_device<int>(1);
  MUST(cudaMemset(counter, 0, sizeof(int)));
  cudaStream_t main_stream, side;
  cudaEvent_t fork, join;
  MUST(cudaStreamCreate(&main_stream));
  MUST(cudaStreamCreate(&side));
  MUST(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  MUST(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  MUST(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal));
  MUST(cudaEventRecord(fork, main_stream));
  MUST(cudaStreamWaitEvent(side, fork, 0));
  LAUNCH(graph_count, 1, 32, 0, side, counter);
  MUST(cudaEventRecord(join, side));
  LAUNCH(graph_step, 2, 128, 0, main_stream, values, by, count);
  MUST(cudaMemsetAsync(sum, 0, sizeof(float), main_stream));
  MUST(cudaStreamWaitEvent(main_stream, join, 0));
  LAUNCH(graph_collect, 2, 128, 0, main_stream, values, counter, sum, count);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  MUST(cudaStreamEndCapture(main_stream, &graph));
  MUST(cudaGraphInstantiate(&executable, graph, 0));
  MUST(cudaGraphDestroy(graph));
  double off = 0;
  for (int round = 1; round <= rounds; ++round) {
    const float now = static_cast<float>(round % 3);
    MUST(cudaMemcpyAsync(by, &now, sizeof now, cudaMemcpyHostToDevice, main_stream));
    MUST(cudaGraphLaunch(executable, main_stream));
    float have = 0;
    MUST(cudaMemcpyAsync(&have, sum, sizeof have, cudaMemcpyDeviceToHost, main_stream));
    MUST(cudaStreamSynchronize(main_stream));
    float total = 0;
    for (float& value : want)
      value = value * 0.5F + now, total += value * static_cast<float>(round);
    off = std::fmax(off, std::fabs(have - total) / std::fmax(1.0F, total));
  }
  MUST(cudaGraphExecDestroy(executable));
  off = std::fmax(off, difference(to_host(values, count), want));
  off = std::fmax(off, with_changing_nodes());
  return finish("graph", off < 1e-5, off);
}
