// Graphs of a session and how they are captured. The server records and runs them; copies with the
// program's memory are kept here: in the graph they go to and from staging memory on the device,
// and every launch of the graph sends the bytes as they are then before it, and fetches the results
// behind it. Functions without a Lock take the session's.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "client/core.h"
#include "client/kernels.h"

namespace partita::remote::client {

class Session;

// What a graph has beside its nodes on the server: copies with the program's memory, which the
// server's part of the graph does to and from staging memory on the device.
struct HostCopy {
  std::uint64_t staging = 0, bytes = 0;
  std::byte* host = nullptr;
  bool enabled = true;
  std::shared_ptr<const Block> block = {};  // of its own, where the staging memory was made anew
};
std::vector<HostCopy> enabled(std::span<const HostCopy> copies);
struct HostCopies {
  std::vector<HostCopy> in = {}, out = {};
  std::vector<std::shared_ptr<const Block>> memory = {};  // of the graph
  struct Call {  // a function of the program, behind so many of the copies
    std::uint64_t token = 0;
    std::size_t in = 0, out = 0;
    Callback what = {};
    bool own = false;  // the token is that of one executable graph alone
  };
  std::vector<Call> calls = {};
  struct Condition {  // a word of a graph's, and what it is set to before each launch
    std::uint64_t address = 0;
    std::uint32_t value = 0;
  };
  std::vector<Condition> conditions = {};
  struct Event {  // that a node records, or waits for, behind so many of the copies
    std::uint64_t event = 0;
    bool records = false;
    std::size_t out = 0;
  };
  std::vector<Event> events = {};
  // A node with `event` has `other` now, or is gone (0).
  void replace(const Event& event, std::uint64_t other);
  void add(const HostCopies& others);  // behind these
  void add_call(std::uint64_t token, const Callback& what) {
    calls.push_back({token, in.size(), out.size(), what});
  }
};

struct CaptureState {
  int status = 0;  // cudaStreamCaptureStatus: none, active, invalidated
  std::uint64_t id = 0;
  std::uint64_t graph = 0;
};

class Captures {
 public:
  Captures(Session& all, Core& core) : all_(all), core_(core) {}

  struct Capture {
    std::uint64_t id = 0, origin = 0, graph = 0;
    std::uint64_t first = 0;  // number of the first node
    bool fresh = true;        // the graph begins with it
    std::uint32_t mode = 0;
    bool broken = false;
    HostCopies copies = {};
  };
  // Into a new graph, or behind what `graph` has, after these of its nodes.
  Status begin(std::uint64_t stream, std::uint32_t mode, std::uint64_t graph = 0,
               std::span<const std::uint64_t> after = {});
  Got<std::uint64_t> end(std::uint64_t stream);  // a graph
  Got<CaptureState> state_of(std::uint64_t stream);
  // Something that cannot be recorded was asked for on the stream: whether it is being captured.
  // Nothing comes of that capture then.
  bool spoil(std::uint64_t stream);
  // The nodes that what the stream does next comes after.
  Got<std::vector<std::uint64_t>> nodes_before(std::uint64_t stream);
  Status set_nodes_before(std::uint64_t stream, std::span<const std::uint64_t> nodes, bool add);

  bool any() const { return !captures_.empty(); }
  bool goes_on(std::uint64_t id) const { return captures_.contains(id); }
  Capture* at(std::uint64_t stream);
  // The same, of a stream as programs name it.
  Got<Capture*> of(const Lock& lock, std::uint64_t stream);
  // The default stream would wait for what is only recorded: whether there is such a capture.
  bool break_blocking();
  void clear() { captures_.clear(); }

 private:
  Session& all_;
  Core& core_;
  std::map<std::uint64_t, Capture> captures_;
};

// Memory that graphs have: with those who share it.
class GraphMemory {
 public:
  GraphMemory(Session& all, Core& core) : all_(all), core_(core) {}

  bool has(std::uint64_t address);
  std::uint64_t bytes();

  bool has(const Lock&, std::uint64_t address) const { return blocks_.contains(address); }
  Got<std::uint64_t> make(Lock& lock, HostCopies& of, std::uint64_t bytes);
  Got<std::shared_ptr<const Block>> make_staging(Lock& lock, std::uint64_t bytes);
  Status sweep(const Lock& lock);  // frees what no graph has any more
  void clear() { blocks_.clear(), held_.clear(), staging_.clear(); }

  // Memory of a library's: until it is dropped, and for as long as a graph needs it in which there
  // is work on it, of a stream that was being captured when it was used.
  Got<std::uint64_t> hold(std::uint64_t bytes);
  void use(std::uint64_t stream, std::uint64_t address);
  Status drop(std::uint64_t address);

 private:
  Session& all_;
  Core& core_;
  std::map<std::uint64_t, std::shared_ptr<const Block>> blocks_, held_;
  std::set<std::uint64_t> staging_ = {};  // those that no program knows of
};

// Copies with the program's memory around functions in the order of streams.
class CallCopies {
 public:
  CallCopies(Session& all, Core& core) : all_(all), core_(core) {}
  // What the functions of a graph read comes from the device before them, what they wrote goes
  // there.
  void note(const std::shared_ptr<const HostCopies>& copies);
  // No launch from now on has this function, unless it is noted again.
  void retire(std::uint64_t token);
  bool is_due(std::uint64_t token) const;  // in a launch that is under way
  // A function of ours in this stream, once: what the program has there by then goes to the device.
  // `frees`: the places on the device, once what is posted next to the stream has ended.
  Status fetch(const Lock& lock, std::uint64_t stream, const std::vector<HostCopy>& in,
               bool frees = false);
  // What functions of a graph have seen goes to the program once the graph has ended only where it
  // came later: they may have changed it meanwhile.
  Status show_rest(const Lock& lock, std::uint64_t stream, std::vector<HostCopy> seen);
  // Of pinned memory that something which the stream comes behind may still write: the copy reads
  // it when the stream gets there.
  Status copy_in(Lock& lock, std::uint64_t stream, std::uint64_t to, Bytes from);
  // Waits until nothing that the stream comes behind writes this memory any more, if it is pinned.
  Status wait(std::uint64_t stream, const void* memory, std::uint64_t bytes);
  void before(std::uint64_t token);
  void after(std::uint64_t token);
  void clear() { around_.clear(), seen_.clear(); }

 private:
  struct Around {
    std::vector<HostCopy> in = {}, rest = {};
    std::shared_ptr<const HostCopies> of = {};  // a graph's: those behind it, and before it
    std::size_t in_from = 0, out_to = 0;
    bool once = false, frees = false, retired = false;
    std::uint64_t stream = 0;
    std::size_t due = 0;  // launches that have it and have not come to it
  };
  void take_rest(Lock& lock, const HostCopy& copy);

  Session& all_;
  Core& core_;
  std::map<std::uint64_t, Around> around_;                     // by token
  std::map<std::uint64_t, std::vector<std::byte>> seen_ = {};  // by place on the device
};

enum class NodeKind : int {  // numbers of cudaGraphNodeType
  kernel = 0,
  copy = 1,
  set = 2,
  call = 3,
  child = 4,
  empty = 5,
  wait = 6,  // for an event
  record = 7,
  allocate = 10,
  release = 11,
  branch = 13,
};
using AttributeValue = std::array<std::byte, 64>;  // cudaLaunchAttributeValue
enum NodeAttribute : int { kIsCooperative = 2, kNodePriority = 8 };
inline constexpr std::uint64_t kUsesPriorities = 8;  // cudaGraphInstantiateFlagUseNodePriority
struct MadeNode {
  std::uint64_t number = 0;
  std::uint64_t at_server = 0;  // its number there: the original's, in a clone
  std::uint64_t original = 0;   // that it was cloned from
  bool known = false;  // what follows; of captured ones the server is asked first (nodes.h)
  NodeKind kind = NodeKind::empty;
  std::vector<std::uint64_t> after = {};
  std::vector<std::byte> operation = {};  // as graph_add says it
  std::vector<std::uint64_t> bodies = {};
  std::map<int, AttributeValue> attributes = {};  // that the program set; by cudaLaunchAttributeID
  std::vector<void*> parameters = {};  // of a launch, in `operation`: what the program is told
};

// Null: there is none. Almost always they are in the order of their numbers.
template <class List>
auto* node_at(List& nodes, std::uint64_t number) {
  auto at = std::ranges::lower_bound(nodes, number, {}, &MadeNode::number);
  if (at == nodes.end() || at->number != number)
    at = std::ranges::find(nodes, number, &MadeNode::number);
  return at == nodes.end() ? nullptr : &*at;
}

struct MadeGraph {
  HostCopies copies = {};
  std::vector<MadeNode> nodes = {};  // in the order of the server where all are known
  bool known = true;
  std::vector<std::uint64_t> bodies = {};
  std::vector<std::shared_ptr<std::vector<void*>>> told = {};  // handles of bodies
  bool is_body = false, being_captured = false;
  const MadeNode* find(std::uint64_t node) const { return node_at(nodes, node); }
  // Nodes of a capture that goes on are the server's to know.
  bool has(std::span<const std::uint64_t> some) const;
  void add(MadeNode node);
  std::vector<std::uint64_t> for_server(std::span<const std::uint64_t> some) const;
};
// The same with nodes of its own, whose numbers `core` gives.
MadeGraph cloned(const MadeGraph& graph, Core& core);

struct MadeExec {
  HostCopies copies = {};
  // The same, for launches that are under way; null where it has changed since.
  std::shared_ptr<const HostCopies> as_launched = {};
  std::vector<MadeNode> nodes = {};
  bool known = true;
  std::set<std::uint64_t> disabled = {};  // nodes
  std::uint64_t flags = 0;                // of cudaGraphInstantiate
  std::uint64_t stream = 0, event = 0;    // of its last launch
  bool launched = false;
};

class Graphs {
 public:
  Graphs(Session& all, Core& core) : all_(all), core_(core) {}

  Got<std::uint64_t> create();
  Status destroy(std::uint64_t graph);
  // Nodes of a graph that the program builds itself; `after`: nodes of the same graph.
  using Nodes = std::span<const std::uint64_t>;
  // Nothing to do. `kind`: what it is called nevertheless.
  Got<std::uint64_t> add_empty(std::uint64_t graph, Nodes after, NodeKind kind = NodeKind::empty);
  Got<std::uint64_t> add_launch(std::uint64_t graph, Nodes after, Kernel& kernel,
                                const LaunchShape& shape, void** parameters);
  Got<std::uint64_t> add_set(std::uint64_t graph, Nodes after, Set set);
  Got<std::uint64_t> add_call(std::uint64_t graph, Nodes after, Callback callback);
  // A record of an event at each launch, or a wait for it.
  Got<std::uint64_t> add_event(std::uint64_t graph, Nodes after, std::uint64_t event, bool records);
  Got<std::uint64_t> add_copy_device(std::uint64_t graph, Nodes after, const CopyDevice& copy);
  Got<std::uint64_t> add_copy_in(std::uint64_t graph, Nodes after, std::uint64_t to,
                                 const void* from, std::uint64_t bytes);
  Got<std::uint64_t> add_copy_out(std::uint64_t graph, Nodes after, void* to, std::uint64_t from,
                                  std::uint64_t bytes);
  Got<std::uint64_t> clone(std::uint64_t graph);
  Got<std::uint64_t> flags(std::uint64_t exec);  // of cudaGraphInstantiate
  // The executable graph does what the graph does; kUpdateFailure where their nodes differ.
  Status update(std::uint64_t exec, std::uint64_t graph);
  // Memory of the graph: it lies at its address from now on, for as long as the graph or something
  // made of it is there.
  Got<std::uint64_t> add_memory(std::uint64_t graph, Nodes after, std::uint64_t& address,
                                std::uint64_t bytes);
  Got<std::uint64_t> instantiate(std::uint64_t graph, std::uint64_t flags = 0);
  Status launch(std::uint64_t exec, std::uint64_t stream);
  Status destroy_exec(std::uint64_t exec);

  std::map<std::uint64_t, MadeGraph>& all() { return graphs_; }
  std::map<std::uint64_t, MadeExec>& execs() { return execs_; }
  void forget(std::uint64_t graph);  // with its bodies
  void clear();

 private:
  HostCopies all_copies(const MadeGraph& graph) const;  // and of its bodies
  template <class Op>
  Got<std::uint64_t> add_operation(std::uint64_t graph, Nodes after, const Op& operation);
  Got<std::uint64_t> add_node(const Lock& lock, std::uint64_t graph, Nodes after,
                              std::vector<std::byte> operation, NodeKind empty = NodeKind::empty);
  Status order_launches(const Lock& lock, MadeExec& exec, std::uint64_t stream);
  // What the launch is behind beside its stream.
  Status wait_for_events(const Lock& lock, const MadeExec& exec, std::uint64_t stream);
  Status note_records(const Lock& lock, const MadeExec& exec, std::uint64_t stream);
  Status fetch_results(const Lock& lock, const MadeExec& exec, std::uint64_t stream);

  Session& all_;
  Core& core_;
  std::map<std::uint64_t, MadeGraph> graphs_;
  std::map<std::uint64_t, MadeExec> execs_;
};

MadeGraph* made_graph(Session& all, std::uint64_t graph);  // nullptr: there is none
// Nodes that run other graphs.
class Branches {
 public:
  Branches(Session& all, Core& core) : all_(all), core_(core) {}

  // What kernels set, and one branch goes by: the address of a word, or the device's own number.
  // `assign`: it is `value` whenever the graph is launched; words always are.
  Got<std::uint64_t> add_condition(std::uint64_t graph, std::uint32_t value, bool assign);
  // A node that runs one of so many new graphs, `bodies`.
  struct Branch {
    BranchKind kind = kIf;
    std::uint64_t condition = 0;
    std::size_t bodies = 1;
  };
  struct Branched {
    std::uint64_t node = 0;
    void** bodies = nullptr;  // handles; there as long as the graph
  };
  Got<Branched> add(std::uint64_t graph, Graphs::Nodes after, const Branch& what);
  Got<std::uint64_t> add_child(std::uint64_t graph, Graphs::Nodes after, std::uint64_t child);

 private:
  Got<std::uint64_t> branch(const Lock& lock, std::uint64_t graph, Graphs::Nodes after,
                            const Branch& what, std::span<const std::uint64_t> bodies);
  Got<std::uint64_t> condition_of_device(const Lock& lock, std::uint64_t graph, std::uint32_t value,
                                         bool assign);

  Session& all_;
  Core& core_;
  std::set<std::uint64_t> used_ = {};  // conditions that a branch goes by
};

}  // namespace partita::remote::client
