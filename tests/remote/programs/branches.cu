// Graphs that decide on the device what runs: if and else, a switch, a loop built node by node, a
// loop in a captured graph with a captured body, a child graph.
#include "program.h"

// A condition decides one node, so the same value goes to two of them.
KERNEL(branches_decide, (const int* value, cudaGraphConditionalHandle condition,
                         cudaGraphConditionalHandle other)) {
  if (threadIdx.x != 0) return;
  cudaGraphSetConditional(condition, static_cast<unsigned>(*value));
  cudaGraphSetConditional(other, static_cast<unsigned>(*value));
}

KERNEL(branches_add, (int* sum, int more)) {
  if (threadIdx.x == 0) *sum += more;
}

// One step down; the loop goes on while something is left.
KERNEL(branches_step, (int* value, int* sum, cudaGraphConditionalHandle condition)) {
  if (threadIdx.x != 0) return;
  if (*value > 0) {
    *sum += *value;
    *value -= 1;
  }
  cudaGraphSetConditional(condition, static_cast<unsigned>(*value));
}

static int *value, *sum;

static cudaGraphNode_t add_kernel(cudaGraph_t graph, const void* kernel, void** parameters,
                                  const std::vector<cudaGraphNode_t>& after) {
  cudaGraphNodeParams what = {};
  what.type = cudaGraphNodeTypeKernel;
  what.kernel.func = const_cast<void*>(kernel);
  what.kernel.gridDim.x = what.kernel.gridDim.y = what.kernel.gridDim.z = 1;
  what.kernel.blockDim.x = 32, what.kernel.blockDim.y = what.kernel.blockDim.z = 1;
  what.kernel.kernelParams = parameters;
  cudaGraphNode_t node = nullptr;
  MUST(cudaGraphAddNode(&node, graph, after.data(), nullptr, after.size(), &what));
  return node;
}

static void add_sum(cudaGraph_t graph, int more) {
  void* parameters[] = {&sum, &more};
  add_kernel(graph, KERNEL_ADDRESS(branches_add), parameters, {});
}

static std::vector<cudaGraph_t> add_branch(cudaGraph_t graph, cudaGraphConditionalHandle condition,
                                           cudaGraphConditionalNodeType type, unsigned size,
                                           const std::vector<cudaGraphNode_t>& after,
                                           cudaGraphNode_t* node) {
  cudaGraphNodeParams what = {};
  what.type = cudaGraphNodeTypeConditional;
  what.conditional.handle = condition;
  what.conditional.type = type;
  what.conditional.size = size;
  MUST(cudaGraphAddNode(node, graph, after.data(), nullptr, after.size(), &what));
  return {what.conditional.phGraph_out, what.conditional.phGraph_out + size};
}

static int launched(cudaGraphExec_t exec, int with) {
  const int none = 0;
  int have = 0;
  MUST(cudaMemcpy(value, &with, sizeof with, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(sum, &none, sizeof none, cudaMemcpyHostToDevice));
  MUST(cudaGraphLaunch(exec, nullptr));
  MUST(cudaMemcpy(&have, sum, sizeof have, cudaMemcpyDeviceToHost));
  return have;
}

static int by_nodes() {
  cudaGraph_t graph = nullptr, child = nullptr;
  MUST(cudaGraphCreate(&graph, 0));
  MUST(cudaGraphCreate(&child, 0));
  cudaGraphConditionalHandle chosen = 0, number = 0, looped = 0;
  MUST(cudaGraphConditionalHandleCreate(&chosen, graph, 0, 0));
  MUST(cudaGraphConditionalHandleCreate(&number, graph, 0, 0));
  MUST(cudaGraphConditionalHandleCreate(&looped, graph, 1, cudaGraphCondAssignDefault));
  void* decide[] = {&value, &chosen, &number};
  const cudaGraphNode_t decided = add_kernel(graph, KERNEL_ADDRESS(branches_decide), decide, {});
  cudaGraphNode_t either = nullptr, one_of = nullptr, loop = nullptr, copied = nullptr;
  const auto yes_no = add_branch(graph, chosen, cudaGraphCondTypeIf, 2, {decided}, &either);
  add_sum(yes_no[0], 1000), add_sum(yes_no[1], 2000);
  const auto cases = add_branch(graph, number, cudaGraphCondTypeSwitch, 3, {either}, &one_of);
  for (int i = 0; i < 3; ++i) add_sum(cases[static_cast<size_t>(i)], 10000 * (i + 1));
  const auto body = add_branch(graph, looped, cudaGraphCondTypeWhile, 1, {one_of}, &loop);
  void* step[] = {&value, &sum, &looped};
  add_kernel(body[0], KERNEL_ADDRESS(branches_step), step, {});
  add_sum(child, 500000);
  MUST(cudaGraphAddChildGraphNode(&copied, graph, &loop, 1, child));
  MUST(cudaGraphDestroy(child));
  cudaGraphExec_t exec = nullptr;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphDestroy(graph));
  int wrong = 0;
  for (int with : {0, 1, 2, 5, 0, 40}) {
    const int want = (with != 0 ? 1000 : 2000) + (with < 3 ? 10000 * (with + 1) : 0) +
                     with * (with + 1) / 2 + 500000;
    if (launched(exec, with) != want) ++wrong;
  }
  MUST(cudaGraphExecDestroy(exec));
  return wrong;
}

static int captured() {
  cudaStream_t stream = nullptr;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr, ended = nullptr;
  const cudaGraphNode_t* before = nullptr;
  size_t count = 0;
  MUST(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &before, nullptr, &count));
  cudaGraphConditionalHandle condition = 0;
  MUST(cudaGraphConditionalHandleCreate(&condition, graph, 0, 0));
  LAUNCH(branches_step, 1, 32, 0, stream, value, sum, condition);
  MUST(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &before, nullptr, &count));
  cudaGraphNode_t loop = nullptr;
  const auto body = add_branch(graph, condition, cudaGraphCondTypeWhile, 1,
                               {before, before + count}, &loop);
  MUST(cudaStreamUpdateCaptureDependencies(stream, &loop, nullptr, 1,
                                           cudaStreamSetCaptureDependencies));
  LAUNCH(branches_add, 1, 32, 0, stream, sum, 7000);
  MUST(cudaStreamEndCapture(stream, &ended));
  MUST(cudaStreamBeginCaptureToGraph(stream, body[0], nullptr, nullptr, 0,
                                     cudaStreamCaptureModeGlobal));
  LAUNCH(branches_add, 1, 32, 0, stream, sum, 100);
  LAUNCH(branches_step, 1, 32, 0, stream, value, sum, condition);
  MUST(cudaStreamEndCapture(stream, nullptr));
  cudaGraphExec_t exec = nullptr;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  int wrong = ended == graph && count == 1 && status == cudaStreamCaptureStatusActive ? 0 : 1;
  for (int with : {0, 1, 2, 9}) {
    const int rounds = with > 0 ? with - 1 : 0;
    if (launched(exec, with) != with * (with + 1) / 2 + 100 * rounds + 7000) ++wrong;
  }
  return wrong;
}

int main() {
  value = empty_on_device<int>(1);
  sum = empty_on_device<int>(1);
  const int wrong = by_nodes() + captured();
  return finish("branches", wrong == 0, wrong);
}
