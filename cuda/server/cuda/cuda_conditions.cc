#include "server/cuda/cuda_conditions.h"

#include "base/check.h"

namespace partita::remote::cuda {

using server::Answered;
using server::Id;

Conditions::~Conditions() {
  for (const auto& [id, set] : sets_) context_.api().cuGraphDestroy(set.graph);
}

Answered<Id> Conditions::create_set() {
  Set made;
  if (const abi::Return code = context_.api().cuGraphCreate(&made.graph, 0); code != 0)
    return context_.refused("cuGraphCreate", code);
  const Id id = context_.next_id();
  sets_.emplace(id, made);
  return id;
}

Answered<std::uint64_t> Conditions::add(Id set, std::uint32_t value, bool assign) {
  const Set& in = sets_.at(set);
  if (in.taken)
    return server::refuse(server::kNotSupported,
                          "another condition for a graph that was instantiated");
  abi::Condition made = 0;
  if (const abi::Return code = context_.api().cuGraphConditionalHandleCreate(
          &made, in.graph, context_.handle(), value, assign ? abi::kAssignDefault : 0);
      code != 0)
    return context_.refused("cuGraphConditionalHandleCreate", code);
  return made;
}

void Conditions::destroy_set(Id set) {
  const auto found = sets_.find(set);
  CHECK(found != sets_.end());
  context_.api().cuGraphDestroy(found->second.graph);
  sets_.erase(found);
}

Answered<abi::Graph> Conditions::take(Id set) {
  Set& taken = sets_.at(set);
  if (std::exchange(taken.taken, true))
    return server::refuse(server::kNotSupported,
                          "a graph with conditional nodes a second time, on a GPU");
  return taken.graph;
}

}  // namespace partita::remote::cuda
