// Captures: graphs in the making. Work on a captured stream is recorded instead of done; what all
// graphs hold together is counted here. A node only depends on nodes that are there already, so no
// graph has a cycle.
#pragma once

#include "server/modules.h"
#include "server/shelf.h"

namespace partita::remote::server {

struct Touch {  // memory that a node copies or sets; freed since, it may be, when it is launched
  std::uint64_t address = 0, width = 0, pitch = 0, rows = 1;
};

// Conditions of a graph that the device keeps; theirs who have it.
struct ConditionSet {
  ConditionSet(DeviceWork& work, Id set) : of(work), id(set) {}
  ~ConditionSet() { of.backend().conditions()->destroy_set(id); }
  ConditionSet(const ConditionSet&) = delete;
  ConditionSet& operator=(const ConditionSet&) = delete;
  DeviceWork& of;
  const Id id;
  std::set<std::uint64_t> numbers = {};
};

// An event of the back end, there for as long as its handle or a graph has it.
struct LiveEvent {
  LiveEvent(DeviceWork& work, Id event, std::uint64_t number)
      : of(work), id(event), handle(number) {}
  ~LiveEvent() { of.backend().destroy(ObjectKind::event, id); }
  LiveEvent(const LiveEvent&) = delete;
  LiveEvent& operator=(const LiveEvent&) = delete;
  DeviceWork& of;
  const Id id;
  const std::uint64_t handle;
};

struct Graph {
  GraphSpec spec = {};  // without the bodies of branches
  std::vector<Touch> touches = {};
  std::map<std::uint64_t, Id> nodes = {};  // by the client's handle
  std::set<Id> disabled = {};              // empty for as long as they are; of executable graphs
  std::set<std::uint64_t> modules = {};    // serials of what it launches
  std::map<Id, std::shared_ptr<LiveEvent>> events = {};  // that nodes record or wait for
  std::vector<std::shared_ptr<Tags>> tags = {};  // its own first, then those of its bodies
  std::uint64_t bytes = 0;                       // of copies in
  std::map<Id, std::vector<std::uint64_t>> bodies = {};  // handles of graphs, by branch
  std::shared_ptr<ConditionSet> conditions = {};  // also of its bodies; null: they have words
  std::uint64_t number = 0;  // the client's handle of it; 0: it has none yet
  std::uint64_t owner = 0;   // handle of the graph whose body this is
  bool in_capture = false;
  bool fresh = false;  // made by the capture that it is in
};
// The numbers of nodes that lie in the bytes; kInvalidHandle where one is not there.
Answered<std::vector<Id>> nodes_in(const Graph& graph, Bytes numbers);

class SharedEvent;

// A stream or an event, as far as captures know it.
struct Captured {
  Id id = 0;
  std::uint64_t capture = 0;  // number of the capture: it is in, or was last recorded inside
  std::vector<Id> frontier = {};
  std::shared_ptr<LiveEvent> live = {};      // of an event
  std::shared_ptr<SharedEvent> shared = {};  // an event that other sessions may have, and its key
  ShareKey key = {};
};

class Captures {
 public:
  Captures(DeviceWork& work, const Modules& modules, const SessionLimits& limits)
      : work_(work), modules_(modules), limits_(limits) {}

  Graph new_graph() { return {.tags = {std::make_shared<Tags>(work_)}}; }
  // A node behind the others, if limits allow; what it launches is noted.
  Done add_node(Graph& graph, GraphSpec::Node node);
  // Notes again what all its nodes touch and launch, and which events they have.
  void look_again(Graph& graph) const;
  void remove_node(Graph& graph, Id node);
  // Gives back what graphs counted for.
  void forget(std::size_t nodes, std::uint64_t bytes);
  // Counts nodes of a copy of a graph.
  Done count(std::size_t nodes);

  // Into a graph that outlives the capture. Nodes are numbered from `first` on, unless it is 0.
  void begin(Captured& stream, std::uint64_t origin, std::shared_ptr<Graph> graph,
             std::vector<Id> after, std::uint64_t first);
  // The graph that a stream is captured into; nullptr where there is none, or it is spoilt.
  Graph* graph_of(const Captured& stream);
  Done record(Captured& stream, StreamWork work);
  // A record of the event, or a wait for it, as a node.
  Done record(Captured& stream, StreamWork work, const std::shared_ptr<LiveEvent>& event);
  // Work of a node with an event that the graph has from now on.
  Done keep_event(Graph& graph, const std::shared_ptr<LiveEvent>& event) const;
  // A stream waits for an event that was recorded in a capture: it joins the capture.
  Done join(Captured& stream, const Captured& event);
  // What waits or asks cannot be recorded: refused, and it spoils the capture.
  Done refuse_in(const Captured& stream);
  // The waiter with this tag belongs to the capture that a stream is in.
  void keep(const Captured& stream, std::uint64_t tag);
  // A stream ends, and with it the capture that began on it.
  void leave(const Captured& stream, std::uint64_t handle);

  struct Taken {
    std::uint64_t number = 0;
    std::shared_ptr<Graph> graph = {};
    std::uint32_t nodes = 0;  // that were recorded
    bool invalid = false;
  };
  // Ends the capture that began on this stream.
  Answered<Taken> take(Captured& stream, std::uint64_t handle);

 private:
  struct Capture {
    std::uint64_t origin = 0;  // stream
    bool invalid = false;
    std::shared_ptr<Graph> graph = {};
    std::uint64_t first = 0;
    std::uint32_t nodes = 0;
  };
  void note(Graph& graph, const GraphSpec::Node& node) const;
  Capture* find(std::uint64_t number);

  DeviceWork& work_;
  const Modules& modules_;
  const SessionLimits& limits_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Capture> captures_ = {};
  std::size_t nodes_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace partita::remote::server
