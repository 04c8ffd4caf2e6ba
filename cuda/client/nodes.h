// Nodes of graphs and of executable graphs: what they are, and how they change. What a program
// built is known here; of what was captured the server is asked, once. Copies with the program's
// memory stay what graphs.h says: a change gives them other staging memory where the old one may
// still be in use, and functions of their graph other tokens, since those see what was copied.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "client/graphs.h"

namespace partita::remote::client {

NodeKind kind_of(Bytes operation);
// The operation in a frame, if it is this one.
template <class Op>
std::optional<Op> operation_in(Bytes frame) {
  FrameHeader header;
  if (frame.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, frame.data(), sizeof header);
  return header.code == Op::kSpec.code ? decode<Op>(frame.subspan(sizeof header)) : std::nullopt;
}
// Of a node that records it, or else waits for it; and the event of such a node, or 0.
std::vector<std::byte> frame_of_event(std::uint64_t event, bool records);
std::uint64_t event_in(Bytes operation, bool records);

// Why an executable graph cannot become a graph; kSame: it could, as far as is known here.
struct Difference {
  enum What : int { kSame = 0, kTopology = 2, kType = 3, kParameters = 5, kAttributes = 8 };
  What what = kSame;
  std::uint64_t node = 0, from = 0;  // of the graph; `from`: at the edge
};
Got<Difference> difference(Session& all, std::uint64_t exec, std::uint64_t graph);

class Nodes {
 public:
  Nodes(Session& all, Core& core) : all_(all), core_(core) {}

  // Of a graph or an executable one, in an order that suits their dependencies.
  Got<std::vector<MadeNode>> all_of(std::uint64_t graph);
  Got<std::uint64_t> graph_of(std::uint64_t node);
  Got<MadeNode> find(std::uint64_t node);
  Got<std::uint64_t> in_clone(std::uint64_t original, std::uint64_t clone);
  // What a node does; kInvalidValue where it is of another kind, kNotSupported where a library does
  // it. A copy has the program's addresses, parameters are there until the node changes.
  struct Launched {
    Kernel* kernel = nullptr;
    LaunchShape shape = {};
    void** parameters = nullptr;
  };
  Got<Launched> launch_of(std::uint64_t node);
  Got<CopyDevice> copy_of(std::uint64_t node);
  Got<Callback> call_of(std::uint64_t node);

  // A node of an executable graph, or, where `exec` is 0, of the graph that has it.
  struct At {
    std::uint64_t exec = 0, node = 0;
  };
  // It does something else of its kind from now on.
  Status set_launch(const At& at, Kernel& kernel, const LaunchShape& shape, void** parameters);
  Status set_set(const At& at, Set set);
  struct Copy {
    std::uint64_t to = 0, from = 0, bytes = 0;
    bool to_device = false, from_device = false;
  };
  Status set_copy(const At& at, Copy copy);
  Status set_call(const At& at, Callback callback);
  Status set_event(const At& at, std::uint64_t event, bool records);
  // Of a kernel in a graph.
  Status set_attribute(std::uint64_t node, int attribute, const AttributeValue& value);
  // One that is not enabled does nothing; of executable graphs.
  Status enable(const At& at, bool is);
  Got<bool> is_enabled(const At& at);
  // It comes after these only, all of which are before it.
  Status order(std::uint64_t node, std::span<const std::uint64_t> after);
  Status remove(std::uint64_t node);

  // An executable graph does what another graph does: what is disabled stays so.
  Status updated(Lock& lock, std::uint64_t exec);

 private:
  struct Found {
    std::uint64_t graph = 0, exec = 0;
    std::vector<MadeNode>* nodes = nullptr;
    bool* known = nullptr;
    HostCopies* copies = nullptr;
    MadeExec* made = nullptr;  // null: a graph
    bool grows = false;        // a capture into it goes on
    std::size_t place = 0;
    MadeNode& node() const { return (*nodes)[place]; }
  };
  Got<std::uint64_t> graph_of(const Lock& lock, std::uint64_t node);
  Got<Found> find(const Lock& lock, const At& at);
  static Found found_in(std::uint64_t graph, MadeGraph& made);
  static Found found_in(std::uint64_t exec, MadeExec& made);
  // Asks the server for what is not known.
  Status learn(const Lock& lock, const Found& of);
  // The copy with the program's memory that it is, or null.
  static HostCopy* host_copy(const Found& of);
  Status change(const Lock& lock, const Found& of, std::vector<std::byte> operation);
  Status place_copy(Lock& lock, HostCopy& copy, std::uint64_t bytes);
  // Whether functions of the graph can be called by other tokens; then they are.
  static bool can_rename_calls(const Found& of);
  Status rename_calls(const Lock& lock, const Found& of);

  Session& all_;
  Core& core_;
};

}  // namespace partita::remote::client
