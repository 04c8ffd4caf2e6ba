#include <memory>
#include <vector>

#include "client/session.h"

namespace partita::remote::client {

Got<std::uint64_t> Branches::add_condition(std::uint64_t graph, std::uint32_t value, bool assign) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  MadeGraph* const made = made_graph(all_, graph);
  if (made == nullptr) return refused(kInvalidValue);
  if (core_.device.backend == "cuda") return condition_of_device(lock, graph, value, assign);
  const auto word = all_.graph_memory.make(lock, made->copies, sizeof(std::uint32_t));
  if (word) made->copies.conditions.push_back({*word, value});
  if (word) used_.erase(*word);  // of a graph that is gone
  return word;
}

Got<std::uint64_t> Branches::condition_of_device(const Lock& lock, std::uint64_t graph,
                                                 std::uint32_t value, bool assign) {
  const Answer answer = core_.link->call_held(
      lock, GraphCondition{.graph = {graph}, .value = value, .assign = assign ? 1U : 0U},
      Cause::graph);
  if (answer.status != kOk) return refused(answer.status);
  const auto reply = decode<GraphCondition::Reply>(answer.reply);
  if (!reply) return refused(kUnknown);
  used_.erase(reply->condition.value);
  return reply->condition.value;
}

Got<std::uint64_t> Branches::branch(const Lock& lock, std::uint64_t graph, Graphs::Nodes after,
                                    const Branch& what, std::span<const std::uint64_t> bodies) {
  MadeGraph& in = *made_graph(all_, graph);
  if (!in.has(after)) return refused(kInvalidValue);
  const std::uint64_t node = core_.new_handle();
  const auto known = in.for_server(after);
  const GraphBranch add{.graph = {graph},
                        .node = {node},
                        .after = std::as_bytes(std::span(known)),
                        .kind = what.kind,
                        .condition = {what.condition},
                        .bodies = std::as_bytes(bodies)};
  if (const Status status = core_.link->post(lock, add); status != kOk) return refused(status);
  in.add({.number = node,
          .known = true,
          .kind = what.kind == kOnce ? NodeKind::child : NodeKind::branch,
          .after = {after.begin(), after.end()},
          .bodies = {bodies.begin(), bodies.end()}});
  for (const std::uint64_t body : bodies) {
    made_graph(all_, body)->is_body = true;
    in.bodies.push_back(body);
  }
  return node;
}

Got<Branches::Branched> Branches::add(std::uint64_t graph, Graphs::Nodes after,
                                       const Branch& what) {
  constexpr std::size_t kMost = 256;
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (made_graph(all_, graph) == nullptr || what.bodies < 1 || what.bodies > kMost ||
      used_.contains(what.condition))
    return refused(kInvalidValue);
  std::vector<std::uint64_t> bodies;
  const auto handles = std::make_shared<std::vector<void*>>();
  for (std::size_t i = 0; i < what.bodies; ++i) {
    bodies.push_back(core_.new_handle());
    handles->push_back(reinterpret_cast<void*>(bodies.back()));
    const Status status = core_.link->post(lock, GraphCreate{.graph = {bodies.back()}});
    if (status != kOk) return refused(status);
    all_.graphs.all()[bodies.back()] = {};
  }
  const auto node = branch(lock, graph, after, what, bodies);
  if (!node) return refused(node.error());
  used_.insert(what.condition);
  made_graph(all_, graph)->told.push_back(handles);
  return Branched{*node, handles->data()};
}

// A copy of the child as it is now.
Got<std::uint64_t> Branches::add_child(std::uint64_t graph, Graphs::Nodes after,
                                        std::uint64_t child) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const MadeGraph* const from = made_graph(all_, child);
  if (from == nullptr || made_graph(all_, graph) == nullptr || !from->bodies.empty())
    return refused(kInvalidValue);
  const std::uint64_t made = core_.new_handle();
  const Status status = core_.link->post(lock, GraphClone{.graph = {child}, .clone = {made}});
  if (status != kOk) return refused(status);
  all_.graphs.all()[made] = cloned(*from, core_);
  return branch(lock, graph, after, {.kind = kOnce}, {&made, 1});
}

}  // namespace partita::remote::client
