// Graphs: a session's graphs, captured or built node by node, and their launches.
#pragma once

#include "server/memory.h"

namespace partita::remote::server {

class Graphs {
 public:
  Graphs(DeviceWork& work, const Allocations& allocations, const Modules& modules,
         Captures& captures, Streams& streams, const Memory& memory, Outbox& out,
         const SessionLimits& limits);

  Done on(const CaptureBegin& op);
  Reply<CaptureEnd> on(const CaptureEnd& op);
  Reply<CaptureNodes> on(const CaptureNodes& op);
  Done on(const CaptureAfter& op);
  Done on(const GraphCreate& op);
  Done on(const GraphAdd& op);
  Done on(const GraphBranch& op);
  Reply<GraphCondition> on(const GraphCondition& op);
  Done on(const GraphDestroy& op);
  Reply<GraphInstantiate> on(const GraphInstantiate& op);
  Done on(const GraphLaunch& op);
  Done on(const GraphExecDestroy& op);
  Done on(const GraphClone& op);
  Done on(const GraphSet& op);
  Done on(const GraphOrder& op);
  Reply<GraphNodes> on(const GraphNodes& op);
  Reply<GraphUpdate> on(const GraphUpdate& op);

 private:
  struct Exec {
    Id id = 0;
    Graph graph = {};        // with the bodies of its branches
    std::size_t nodes = 0;  // with theirs
    bool stale = false;     // the back end has it as it was
  };
  Graph* find(std::uint64_t handle);
  Graph& outermost(Graph& graph);
  Done add_node(Graph& graph, NodeHandle node, Bytes after, GraphSpec::Node made);
  Done adopt(const Graph& graph, const std::vector<std::uint64_t>& bodies);
  // With all that its branches run; `nodes` counts them.
  Graph whole(const Graph& graph, std::size_t& nodes);
  void drop(std::uint64_t handle);
  Done make_again(Exec& exec, Graph graph);
  Answered<Id> make(const Graph& graph);  // at the back end
  template <class Op>
  std::optional<Answered<StreamWork>> work_if(const FrameHeader& header, Bytes body, Graph& graph);
  Answered<StreamWork> work_of(Bytes frame, Graph& graph);
  // The frame that would make it.
  std::vector<std::byte> frame_for(const Graph& graph, std::uint64_t handle, Id node,
                                   std::span<const std::uint64_t> after) const;

  DeviceWork& work_;
  const Allocations& allocations_;
  const Modules& modules_;
  Captures& captures_;
  Streams& streams_;
  const Memory& memory_;
  Outbox& out_;
  const SessionLimits& limits_;
  Handles<std::shared_ptr<Graph>> graphs_;
  std::vector<std::uint64_t> asked_;  // the last answer to CaptureNodes
  std::vector<std::byte> told_;       // and to GraphNodes
  Handles<Exec> execs_;
};

}  // namespace partita::remote::server
