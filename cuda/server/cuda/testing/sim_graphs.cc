// Of the simulated libcuda: graphs, captured or made node by node, and their conditions.
#include "server/cuda/testing/sim_world.h"

namespace cuda_sim {

namespace {

// All of it at once: a body has nothing to wait for.
Return run_all(const SimGraph& graph) {
  for (const Item& item : graph.items)
    if (const Return code = item.run ? item.run() : kOk; code != kOk) return code;
  return kOk;
}

Return run_branch(abi::Condition condition, int kind,
                  const std::vector<std::shared_ptr<SimGraph>>& bodies) {
  constexpr int kLoop = 1, kNumbered = 2, kMostRounds = 1000;
  const std::uint32_t& value = world().conditions.at(condition).value;
  if (kind == kLoop) {
    for (int round = 0; value != 0; ++round) {
      if (round == kMostRounds) return wrong(kInvalid, "a loop without end");
      if (const Return code = run_all(*bodies[0]); code != kOk) return code;
    }
    return kOk;
  }
  const std::size_t which = kind == kNumbered ? value : value != 0 ? 0 : 1;
  return which < bodies.size() ? run_all(*bodies[which]) : kOk;
}

// Bodies go with their graph; what was made of it keeps its own.
void forget_bodies(SimGraph& graph) {
  for (const auto& body : graph.bodies) {
    forget_bodies(*body);
    world().graphs.erase(body.get());
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Return cuStreamBeginCapture_v2(abi::Stream handle, int) {
  SimStream* const stream = stream_of(handle);
  if (handle == nullptr || stream == nullptr || stream->captured != nullptr)
    return wrong(kCaptureInvalid, "a stream that cannot be captured");
  stream->captured = new SimGraph{.is_captured = true};
  world().graphs.insert(stream->captured);
  return kOk;
}
Return cuStreamBeginCaptureToGraph(abi::Stream handle, abi::Graph graph, const abi::GraphNode*,
                                   const void* edges, std::size_t count, int) {
  SimStream* const stream = stream_of(handle);
  auto* const into = reinterpret_cast<SimGraph*>(graph);
  if (handle == nullptr || stream == nullptr || stream->captured != nullptr)
    return wrong(kCaptureInvalid, "a stream that cannot be captured");
  if (!world().graphs.contains(into) || into->is_captured)
    return wrong(kBadHandle, "a capture into a graph that is not there, or is captured");
  if (count != 0 || edges != nullptr || !into->nodes.empty())
    return wrong(kInvalid, "captured work that does not wait for a node before");
  into->is_captured = true;
  stream->captured = into;
  return kOk;
}
Return cuStreamGetCaptureInfo_v3(abi::Stream handle, int* status, unsigned long long* id,
                                 abi::Graph* graph, const abi::GraphNode** after,
                                 const void** edges, std::size_t* count) {
  SimStream* const stream = stream_of(handle);
  if (stream == nullptr || status == nullptr || id != nullptr || edges != nullptr)
    return wrong(kInvalid, "what is asked of a capture");
  *status = stream->captured != nullptr ? 1 : 0;
  *graph = reinterpret_cast<abi::Graph>(stream->captured);
  *after = stream->after.data();
  return *count = stream->after.size(), kOk;
}
Return cuStreamUpdateCaptureDependencies_v2(abi::Stream handle, abi::GraphNode* nodes,
                                            const void* edges, std::size_t count, unsigned flags) {
  SimStream* const stream = stream_of(handle);
  if (stream == nullptr || stream->captured == nullptr || edges != nullptr ||
      flags != abi::kSetDependencies)
    return wrong(kCaptureInvalid, "nodes for what is not captured");
  return stream->after.assign(nodes, nodes + count), kOk;
}
Return cuStreamEndCapture(abi::Stream handle, abi::Graph* graph) {
  SimStream* const stream = stream_of(handle);
  if (stream == nullptr || stream->captured == nullptr) return wrong(kCaptureInvalid, "no capture");
  SimGraph* const made = std::exchange(stream->captured, nullptr);
  made->is_captured = false;
  stream->after.clear();
  return *graph = reinterpret_cast<abi::Graph>(made), kOk;
}

Return cuGraphCreate(abi::Graph* graph, unsigned flags) {
  if (const Return code = closed(); code != kOk) return code;
  if (flags != 0) return wrong(kInvalid, "a graph with flags");
  auto* const made = new SimGraph;
  world().graphs.insert(made);
  return *graph = reinterpret_cast<abi::Graph>(made), kOk;
}
Return cuGraphConditionalHandleCreate(abi::Condition* condition, abi::Graph graph,
                                      abi::Context context, unsigned value, unsigned flags) {
  if (const Return code = closed(); code != kOk) return code;
  auto* const in = reinterpret_cast<SimGraph*>(graph);
  if (!world().graphs.contains(in) || in->around != nullptr)
    return wrong(kBadHandle, "a condition of a graph that is not there");
  if (context != reinterpret_cast<abi::Context>(&world()) || flags > abi::kAssignDefault)
    return wrong(kInvalid, "a condition of another context, or with other flags");
  *condition = world().serial++ << 20;
  world().conditions[*condition] = {.assign = flags == abi::kAssignDefault, .first = value};
  return in->conditions.insert(*condition), kOk;
}
Return cuGraphAddNode_v2(abi::GraphNode* node, abi::Graph graph, const abi::GraphNode* after,
                         const void* edges, std::size_t count, abi::NodeParameters* what) {
  auto* const in = reinterpret_cast<SimGraph*>(graph);
  if (!world().graphs.contains(in)) return wrong(kBadHandle, "a node of a graph that is not there");
  auto& branch = what->of.conditional;
  const std::size_t most[] = {2, 1, ~0u};
  if (what->type != abi::kConditionalNode || edges != nullptr || what->reserved[0] != 0 ||
      what->reserved[1] != 0 || what->reserved[2] != 0 || what->reserved_behind != 0 ||
      branch.kind < 0 || branch.kind > 2 || branch.size < 1 || branch.size > most[branch.kind] ||
      branch.context != reinterpret_cast<abi::Context>(&world()))
    return wrong(kInvalid, "a conditional node that cannot be");
  if (!in->root().conditions.contains(branch.condition) ||
      std::exchange(world().conditions[branch.condition].used, true))
    return wrong(kInvalid, "a condition of another graph, or of another node");
  if (!in->nodes.empty() && (count != 1 || *after != node_of(*in->nodes.back())))
    return wrong(kInvalid, "a node that does not wait for one before");
  std::vector<std::shared_ptr<SimGraph>> bodies;
  std::vector<abi::Graph>& handles = in->told.emplace_back();
  for (unsigned i = 0; i < branch.size; ++i) {
    bodies.push_back(std::make_shared<SimGraph>(SimGraph{.around = in}));
    world().graphs.insert(bodies.back().get());
    handles.push_back(reinterpret_cast<abi::Graph>(bodies.back().get()));
  }
  in->bodies.insert(in->bodies.end(), bodies.begin(), bodies.end());
  in->items.push_back({[condition = branch.condition, kind = branch.kind, bodies] {
    return run_branch(condition, kind, bodies);
  }});
  in->nodes.push_back(std::make_unique<char>());
  branch.bodies = handles.data();
  return *node = node_of(*in->nodes.back()), kOk;
}
Return cuGraphInstantiateWithFlags(abi::GraphExec* exec, abi::Graph graph, unsigned long long) {
  auto* const from = reinterpret_cast<SimGraph*>(graph);
  if (!world().graphs.contains(from)) return wrong(kBadHandle, "a graph that is not there");
  if (from->around != nullptr || (!from->bodies.empty() && from->execs > 0))
    return wrong(kInvalid, "a body, or one with branches that is there already, instantiated");
  for (const abi::Condition one : from->conditions)
    if (!world().conditions[one].used) return kInvalid;
  auto* const made = new SimExec{from->items, from};
  ++from->execs;
  if (!from->conditions.empty())
    made->items.insert(made->items.begin(), {[all = from->conditions] {
                         for (const abi::Condition one : all)
                           if (SimCondition& of = world().conditions[one]; of.assign)
                             of.value = of.first;
                         return kOk;
                       }});
  world().execs.insert(made);
  return *exec = reinterpret_cast<abi::GraphExec>(made), kOk;
}
Return cuGraphDestroy(abi::Graph graph) {
  auto* const gone = reinterpret_cast<SimGraph*>(graph);
  if (!world().graphs.contains(gone) || gone->around != nullptr || gone->is_captured)
    return wrong(kBadHandle, "a graph destroyed that is gone, a body, or captured");
  for (SimExec* exec : world().execs)
    if (exec->of == gone) exec->of = nullptr;
  forget_bodies(*gone);
  return forget(world().graphs, graph, "a graph destroyed twice");
}
Return cuGraphExecDestroy(abi::GraphExec exec) {
  auto* const gone = reinterpret_cast<SimExec*>(exec);
  if (world().execs.contains(gone) && gone->of != nullptr) --gone->of->execs;
  return forget(world().execs, exec, "an executable graph destroyed twice");
}
Return cuGraphLaunch(abi::GraphExec exec, abi::Stream stream) {
  auto* const made = reinterpret_cast<SimExec*>(exec);
  if (!world().execs.contains(made)) return wrong(kBadHandle, "a graph that is not there");
  for (const Item& item : made->items)
    if (const Return code = item.at_launch ? item.at_launch(stream) : push(stream, item);
        code != kOk)
      return code;
  return kOk;
}

}  // extern "C"
#pragma GCC visibility pop

}  // namespace cuda_sim
