#include "server/cuda/cuda_graphs.h"

namespace partita::remote::cuda {

using server::Answered;
using server::Id;
using server::Refused;

Answered<void> GraphMaker::add_branch(abi::Stream stream, const server::BranchWork& branch) {
  const DriverApi& api = context_.api();
  int status = 0;
  abi::Graph graph = nullptr;
  const abi::GraphNode* before = nullptr;
  std::size_t count = 0;
  if (Answered<void> ok = context_.done(
          "cuStreamGetCaptureInfo", api.cuStreamGetCaptureInfo_v3(stream, &status, nullptr, &graph,
                                                                  &before, nullptr, &count));
      !ok)
    return ok;
  abi::NodeParameters node{};
  node.type = abi::kConditionalNode;
  node.of.conditional = {.condition = branch.condition,
                         .kind = static_cast<int>(branch.kind - kIf),
                         .size = static_cast<unsigned>(branch.bodies.size()),
                         .bodies = nullptr,
                         .context = context_.handle()};
  abi::GraphNode made = nullptr;
  if (Answered<void> ok =
          context_.done("cuGraphAddNode (a conditional one)",
                        api.cuGraphAddNode_v2(&made, graph, before, nullptr, count, &node));
      !ok)
    return ok;
  for (std::size_t i = 0; i < branch.bodies.size(); ++i)
    to_capture_.push_back({node.of.conditional.bodies[i], branch.bodies[i].get()});
  return context_.done(
      "cuStreamUpdateCaptureDependencies",
      api.cuStreamUpdateCaptureDependencies_v2(stream, &made, nullptr, 1, abi::kSetDependencies));
}

Answered<abi::GraphExec> GraphMaker::make(const server::GraphSpec& spec, const Enqueue& enqueue) {
  const DriverApi& api = context_.api();
  to_capture_ = {{nullptr, &spec}};
  if (spec.conditions != 0) {
    const Answered<abi::Graph> given = conditions_.take(spec.conditions);
    if (!given) return tl::unexpected<Refused>(given.error());
    to_capture_.front().graph = *given;
  }
  const Answered<Id> stream = streams_.create({.blocking = false});
  if (!stream) return tl::unexpected<Refused>(stream.error());
  const Answered<abi::Graph> captured = capture(*stream, enqueue);
  streams_.destroy(*stream);
  if (!captured) return tl::unexpected<Refused>(captured.error());
  abi::GraphExec made = nullptr;
  const abi::Return code = api.cuGraphInstantiateWithFlags(&made, *captured, 0);
  if (spec.conditions == 0) api.cuGraphDestroy(*captured);
  if (code != 0) return context_.refused("cuGraphInstantiate", code);
  return made;
}

// All that is to be captured; the first graph of them.
Answered<abi::Graph> GraphMaker::capture(Id stream, const Enqueue& enqueue) {
  abi::Graph first = nullptr;
  while (!to_capture_.empty()) {
    const Body body = to_capture_.back();
    to_capture_.pop_back();
    const Answered<abi::Graph> captured = capture(stream, body, enqueue);
    if (!captured) return captured;
    if (first == nullptr) first = *captured;
  }
  return first;
}

Answered<abi::Graph> GraphMaker::capture(Id stream, const Body& body, const Enqueue& enqueue) {
  const DriverApi& api = context_.api();
  const abi::Stream raw = streams_.at(stream).stream;
  const abi::Return begun = body.graph == nullptr
                                ? api.cuStreamBeginCapture_v2(raw, abi::kCaptureThreadLocal)
                                : api.cuStreamBeginCaptureToGraph(raw, body.graph, nullptr, nullptr,
                                                                  0, abi::kCaptureThreadLocal);
  if (begun != 0) return context_.refused("cuStreamBeginCapture", begun);
  const Answered<void> ok = enqueue(stream, *body.spec);
  abi::Graph captured = nullptr;
  const abi::Return end = api.cuStreamEndCapture(raw, &captured);
  if (ok && end == 0) return captured;
  if (body.graph == nullptr && captured != nullptr) api.cuGraphDestroy(captured);
  if (!ok) return tl::unexpected<Refused>(ok.error());
  return context_.refused("cuStreamEndCapture", end);
}

}  // namespace partita::remote::cuda
