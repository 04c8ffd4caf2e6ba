// GraphMaker: makes a session's graphs CUDA's own by capturing their nodes in their order (one
// after another). One with conditional nodes is captured into the graph that its conditions belong
// to, and its bodies into those that the driver makes of them. Thread rule: the context's.
#pragma once

#include <functional>
#include <vector>

#include "server/backend.h"
#include "server/cuda/context.h"
#include "server/cuda/cuda_conditions.h"
#include "server/cuda/cuda_streams.h"

namespace partita::remote::cuda {

class GraphMaker {
 public:
  GraphMaker(Context& context, Streams& streams, Conditions& conditions)
      : context_(context), streams_(streams), conditions_(conditions) {}

  // `enqueue` does nodes on a stream; it calls add_branch() for conditional ones.
  using Enqueue =
      std::function<server::Answered<void>(server::Id stream, const server::GraphSpec& nodes)>;
  server::Answered<abi::GraphExec> make(const server::GraphSpec& spec, const Enqueue& enqueue);
  // A conditional node behind what the stream has captured; its bodies are captured later.
  server::Answered<void> add_branch(abi::Stream stream, const server::BranchWork& branch);

 private:
  struct Body {
    abi::Graph graph = nullptr;  // null: a new one
    const server::GraphSpec* spec = nullptr;
  };
  server::Answered<abi::Graph> capture(server::Id stream, const Enqueue& enqueue);
  server::Answered<abi::Graph> capture(server::Id stream, const Body& body, const Enqueue& enqueue);

  Context& context_;
  Streams& streams_;
  Conditions& conditions_;
  std::vector<Body> to_capture_ = {};  // with bodies that came up meanwhile
};

}  // namespace partita::remote::cuda
