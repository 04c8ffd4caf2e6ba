// Session::Core: the state of a session and a handler `on` per operation. Handlers of async
// operations answer whether they were refused; those of sync ones give a reply, a refusal, or
// nothing when the answer follows later. Private to session*.cc.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "server/allocations.h"
#include "server/session.h"

namespace partita::remote::server {

using Done = Answered<void>;
template <class Op>
using Reply = std::optional<Answered<typename Op::Reply>>;

class Session::Core {
 public:
  Core(Channel& channel, Images& images, std::string token, SessionLimits limits);
  ~Core();

  Step step(Nanos patience);
  int backend_descriptor() const { return backend_ ? backend_->descriptor() : -1; }
  std::optional<Wanted> wanted();
  void greeted(std::uint32_t request) { greeted_ = true, hello_ = request; }
  void waiting(std::uint32_t place);
  void grant(std::uint64_t number, std::unique_ptr<DeviceBackend> backend, Open reopen);
  void deny(Status status, const std::string& reason);
  void end(const std::string& reason);
  const std::string& reason() const { return reason_; }
  SessionCounts counts() const { return counts_; }

 private:
  struct Waiter {
    std::function<void(Completed&)> run;
    bool often = false;  // of a graph's node: until the graph is gone
  };
  // Forgets the waiters of a graph's nodes with the last that may launch it.
  struct Tags {
    explicit Tags(Core& core) : of(core) {}
    ~Tags() {
      for (const std::uint64_t tag : tags) of.waiters_.erase(tag);
    }
    Tags(const Tags&) = delete;
    Tags& operator=(const Tags&) = delete;
    Core& of;
    std::vector<std::uint64_t> tags = {};
  };
  using Take = void (Core::*)(const Frame&);
  static constexpr std::size_t kCodes = 128;
  struct Module {
    Id id = 0;
    std::uint64_t serial = 0;
  };
  struct Kernel {
    KernelFacts facts = {};
    std::uint64_t module = 0;  // serial
    std::uint32_t dynamic_shared = 0;
  };
  struct Stream {
    Id id = kDefaultStream;
    std::uint64_t capture = 0;  // number of the capture it is in
    std::vector<Id> frontier = {};
  };
  struct Event {
    Id id = 0;
    std::uint64_t capture = 0;  // last recorded inside this capture
    std::vector<Id> frontier = {};
  };
  struct Touch {  // memory that a node copies or sets; freed since, it may be, when it is launched
    std::uint64_t address = 0, width = 0, pitch = 0, rows = 1;
  };
  struct Graph {
    GraphSpec spec = {};
    std::vector<Touch> touches = {};
    std::map<std::uint64_t, Id> nodes = {};  // by the client's handle
    std::set<std::uint64_t> modules = {};    // serials of what it launches
    std::shared_ptr<Tags> tags = {};
    std::uint64_t bytes = 0;  // of copies in
  };
  struct Exec {
    Id id = 0;
    std::vector<Touch> touches = {};
    std::set<std::uint64_t> modules = {};
    std::shared_ptr<Tags> tags = {};
    std::size_t nodes = 0;
  };
  struct Capture {
    std::uint64_t origin = 0;  // stream
    bool invalid = false;
    Graph graph = {};
  };
  struct Arriving {  // the bulk of the frame at hand
    enum class Kind : std::uint8_t { none, drop, chunks, image };
    Kind kind = Kind::none;
    std::uint64_t left = 0, to = 0;
    StreamHandle stream = {};
    std::span<std::byte> target = {};
    std::vector<std::byte> chunk = {};
    std::size_t filled = 0;
    ModulePut put = {};
  };
  struct Deferred {
    FrameHeader header = {};
    std::vector<std::byte> body = {};
  };

  // session.cc: frames in, answers out.
  static const std::array<Take, kCodes>& table();
  template <class Op>
  void take(const Frame& frame);
  bool read_frame(Nanos patience);
  void accept(const Frame& frame);
  void dispatch(const Frame& frame);
  void defer(const Frame& frame);
  bool may_read() const;
  template <class Op>
  void reply(std::uint32_t request, Status status, const typename Op::Reply& value,
             Bytes bulk = {});
  // The request at hand will be answered later, by settle().
  template <class Op>
  std::uint32_t owe();
  template <class Op>
  void settle(std::uint32_t request, Status status, const typename Op::Reply& value = {},
              Bytes bulk = {});
  template <class Op>
  void cancel(std::uint32_t request) {
    reply<Op>(request, kContextIsDestroyed, {});
  }
  template <class Op>
  void put(const Op& notice, Bytes bulk = {});
  void flush();
  void broken(const Error& error);
  void refused(std::string_view operation, const Refused& why);
  void say(SaidTo where, std::string_view text);
  bool poll();
  void complete(Completed& completed);
  std::uint64_t wait_for(std::function<void(Completed&)> run, bool often = false);
  void watch(ObjectKind kind, Id id, std::function<void()> then);
  void fence(std::function<void()> then);
  void drop_everything();

  // session_memory.cc
  bool go_on_with_bulk();
  bool go_on_with_chunks();
  bool room_for(std::uint64_t bytes);
  bool give_up_bulk(const Refused& why);
  bool go_on_with_image();
  void release_later(std::uint64_t address, std::uint64_t bytes);
  void copy_out(std::uint32_t request, const CopyOut& op);
  Answered<CopyWork> checked(const CopyDevice& op) const;
  Answered<SetWork> checked(const Set& op) const;
  Done on(const Alloc& op);
  Done on(const Free& op);
  Done on(const FreeOnStream& op);
  Done on(const CopyIn& op);
  Reply<CopyOut> on(const CopyOut& op);
  Done on(const CopyOutLater& op);
  Done on(const CopyDevice& op);
  Done on(const Set& op);

  // session_modules.cc
  Answered<LaunchWork> checked(const Launch& op) const;
  Reply<ModuleHave> on(const ModuleHave& op);
  Done on(const ModulePut& op);
  Done on(const ModuleLoad& op);
  Done on(const ModuleUnload& op);
  Done on(const KernelOpen& op);
  Reply<KernelAttributes> on(const KernelAttributes& op);
  Done on(const KernelSetAttribute& op);
  Reply<GlobalAddress> on(const GlobalAddress& op);
  Done on(const Launch& op);

  // session_streams.cc
  Stream* find(StreamHandle stream);
  Event* find(EventHandle event);
  Done submit(StreamHandle stream, StreamWork work);
  std::uint64_t call_tag(Token token, bool often);
  Reply<Hello> on(const Hello& op);
  Reply<Ping> on(const Ping& op);
  Done on(const Bye& op);
  Reply<Fence> on(const Fence& op);
  Reply<Reset> on(const Reset& op);
  Done on(const HostCall& op);
  Done on(const CallDone& op);
  Done on(const StreamCreate& op);
  Done on(const StreamDestroy& op);
  Reply<StreamSync> on(const StreamSync& op);
  Reply<StreamQuery> on(const StreamQuery& op);
  Done on(const StreamWaitEvent& op);
  Done on(const EventCreate& op);
  Done on(const EventDestroy& op);
  Done on(const EventRecord& op);
  Reply<EventSync> on(const EventSync& op);
  Reply<EventQuery> on(const EventQuery& op);
  Reply<EventElapsed> on(const EventElapsed& op);

  // session_graphs.cc
  Done record(Stream& stream, StreamWork work);
  Done join(Stream& stream, const Event& event);
  Done add_node(Graph& graph, GraphSpec::Node node);
  static void note_touches(const StreamWork& work, std::vector<Touch>& touches);
  void forget(std::size_t nodes, std::uint64_t bytes);
  template <class Op>
  std::optional<Answered<StreamWork>> work_if(const FrameHeader& header, Bytes body, Graph& graph);
  Answered<StreamWork> work_of(Bytes frame, Graph& graph);
  Status refuse_in_capture(Stream& stream);
  Reply<CaptureEnd> finish(const CaptureEnd& op, const Capture& capture);
  Done on(const CaptureBegin& op);
  Reply<CaptureEnd> on(const CaptureEnd& op);
  Done on(const GraphCreate& op);
  Done on(const GraphAdd& op);
  Done on(const GraphDestroy& op);
  Reply<GraphInstantiate> on(const GraphInstantiate& op);
  Done on(const GraphLaunch& op);
  Done on(const GraphExecDestroy& op);

  Channel& channel_;
  Images& images_;
  const std::string token_;
  const SessionLimits limits_;
  FrameReader reader_;
  FrameWriter writer_;
  std::unique_ptr<DeviceBackend> backend_;
  Open reopen_;

  bool ended_ = false;
  std::string reason_;
  std::optional<Wanted> wanted_;
  bool greeted_ = false;       // hello came
  std::uint32_t hello_ = 0;    // its request
  std::uint32_t request_ = 0;  // of the operation at hand
  Status sticky_ = 0;          // first failure of an async operation
  Status dead_ = 0;            // of the device: nothing runs any more
  std::size_t said_ = 0;
  SessionCounts counts_;

  std::uint64_t next_tag_ = 1, next_serial_ = 1;
  std::map<std::uint64_t, Waiter> waiters_;                     // before what has Tags
  std::map<std::uint32_t, void (Core::*)(std::uint32_t)> due_;  // requests without answer
  std::optional<Nanos> again_;
  std::deque<Completed> arrived_;
  std::size_t queued_ = 0;  // by the backend

  Arriving bulk_;
  bool stalled_ = false;  // an allocation waits for memory that is being freed
  std::deque<Deferred> deferred_;
  std::size_t deferred_bytes_ = 0;
  std::deque<Staging> staged_;
  std::uint64_t staged_bytes_ = 0;
  bool asked_for_room_ = false;

  Allocations allocations_;
  std::unordered_map<std::uint64_t, Module> modules_;
  std::set<std::uint64_t> living_modules_;  // serials
  std::unordered_map<Id, std::uint64_t> module_of_kernel_;
  std::unordered_map<std::uint64_t, Kernel> kernels_;
  Stream default_stream_;
  std::unordered_map<std::uint64_t, Stream> streams_;
  std::set<Id> lively_;  // non-blocking streams of the backend, also those being destroyed
  std::unordered_map<std::uint64_t, Event> events_;
  std::unordered_map<std::uint64_t, Graph> graphs_;
  std::unordered_map<std::uint64_t, Exec> execs_;
  std::map<std::uint64_t, Capture> captures_;
  std::size_t graph_nodes_ = 0;
  std::uint64_t graph_bytes_ = 0;
  std::map<std::uint64_t, std::deque<std::uint64_t>> calls_;  // holds by token
  std::size_t calls_out_ = 0;
};

template <class Op>
void Session::Core::reply(std::uint32_t request, Status status, const typename Op::Reply& value,
                          Bytes bulk) {
  if (ended_) return;
  counts_.bytes_out += bulk.size();
  const auto done = writer_.answer<Op>(request, Outcome{status, sticky_}, value, bulk);
  if (!done) broken(done.error());
}

template <class Op>
std::uint32_t Session::Core::owe() {
  due_.emplace(request_, &Core::cancel<Op>);
  return request_;
}

template <class Op>
void Session::Core::settle(std::uint32_t request, Status status, const typename Op::Reply& value,
                           Bytes bulk) {
  if (due_.erase(request) > 0) reply<Op>(request, status, value, bulk);
}

template <class Op>
void Session::Core::put(const Op& notice, Bytes bulk) {
  if (ended_) return;
  counts_.bytes_out += bulk.size();
  if (const auto done = writer_.put(notice, 0, bulk); !done) broken(done.error());
}

}  // namespace partita::remote::server
