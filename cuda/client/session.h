// The session of this process with a server: what the shims call. Every function may be called by
// any thread, connects at its first use (environment PARTITA_REMOTE) and answers with CUDA's
// number.
// Handles (streams, events, graphs) are numbers chosen here; kernels and modules are objects that
// live as long as the process, so that their addresses can be handles in programs.
//
// Not supported: mapped host memory, IPC, several devices. Arrays and textures are the shims'.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/arena.h"
#include "client/callbacks.h"
#include "client/device.h"
#include "client/link.h"
#include "client/managed.h"
#include "client/modules.h"
#include "client/settings.h"

namespace partita::remote::client {

inline constexpr std::uint64_t kLegacyStream = 1, kPerThreadStream = 2;  // as the programs say it

struct LaunchShape {
  Extent3 grid, block;
  std::uint64_t shared_bytes = 0;
  std::uint64_t stream = 0;
  bool cooperative = false;
};

struct MemoryState {
  std::uint64_t free = 0, total = 0;
};

// What a graph has beside its nodes on the server: copies with the program's memory, which the
// server's part of the graph does to and from staging memory on the device.
struct HostCopy {
  std::uint64_t staging = 0, bytes = 0;
  std::byte* host = nullptr;
};
struct HostCopies {
  std::vector<HostCopy> in = {}, out = {};
};

struct CaptureState {
  int status = 0;  // cudaStreamCaptureStatus: none, active, invalidated
  std::uint64_t id = 0;
  std::uint64_t graph = 0;
};

class Session final : public NoticeReader {
 public:
  Session();

  // Connects when that has not been tried.
  Status ready();
  // The snapshot, once ready.
  const Device& device() const { return device_; }
  Stats& stats() { return stats_; }
  // The error that stays, or kOk; local.
  Status failure();

  // --- memory
  Got<std::uint64_t> allocate(std::uint64_t bytes);
  Status release(std::uint64_t address);
  Status release_on(std::uint64_t stream, std::uint64_t address);
  std::optional<Block> block_of(std::uint64_t address);
  bool is_device(std::uint64_t address);
  // Whether these bytes lie in one block, or in a module's variable.
  bool covers_device(std::uint64_t address, std::uint64_t bytes);
  Got<MemoryState> memory();
  // Memory that the program may touch too, when it has waited for the device; page by page.
  Got<std::uint64_t> allocate_managed(std::uint64_t bytes);
  Status release_managed(std::uint64_t address);
  Got<void*> share_variable(Module& module, const std::string& name);  // a __managed__ one
  std::optional<Block> managed_at(std::uint64_t address);
  void attach_managed();  // from now on the program may touch some of it beside running work
  // Before the program takes a copy for finished: what work in this stream wrote is there, too.
  Status settle(std::uint64_t stream);
  // From the program's memory; it may be reused on return.
  Status copy_in(std::uint64_t stream, std::uint64_t to, const void* from, std::uint64_t bytes);
  // `later`: the stream's next synchronisation is early enough where the memory is pinned.
  Status copy_out(std::uint64_t stream, void* to, std::uint64_t from, std::uint64_t bytes,
                  bool later);
  Status copy_device(std::uint64_t stream, const CopyDevice& copy);
  Status set(std::uint64_t stream, const Set& set);
  Status multiply(std::uint64_t stream, const Gemm& gemm);
  Got<void*> host_allocate(std::uint64_t bytes);
  Status host_release(void* memory);
  Status host_register(void* memory, std::uint64_t bytes);
  Status host_unregister(void* memory);
  bool is_pinned(const void* memory, std::uint64_t bytes);

  // --- modules and kernels
  Modules& modules() { return modules_; }
  Status load(Module& module);
  Status unload(Module& module);
  Got<const image::Layout*> layout_of(Kernel& kernel);
  Got<KernelAttributes::Reply> attributes_of(Kernel& kernel);
  Status set_attribute(Kernel& kernel, std::uint32_t attribute, std::int32_t value);
  Got<Block> symbol(Module& module, const std::string& name);
  Got<int> blocks_per_unit(Kernel& kernel, int threads, std::uint64_t dynamic_shared);
  // `parameters`: a pointer to each; or, where `block` is not empty, the block itself.
  Status launch(Kernel& kernel, const LaunchShape& shape, void** parameters, Bytes block = {});
  Status call_host(std::uint64_t stream, Callback callback);

  // --- streams and events
  Got<std::uint64_t> create_stream(std::uint32_t flags, std::int32_t priority);
  Status destroy_stream(std::uint64_t stream);
  Status synchronise();
  Status synchronise_stream(std::uint64_t stream);
  Status query_stream(std::uint64_t stream);
  Status wait_event(std::uint64_t stream, std::uint64_t event);
  Got<std::uint32_t> stream_flags(std::uint64_t stream);
  Got<std::int32_t> stream_priority(std::uint64_t stream);
  Got<std::uint64_t> create_event(std::uint32_t flags);
  Status destroy_event(std::uint64_t event);
  Status record_event(std::uint64_t event, std::uint64_t stream);
  Status synchronise_event(std::uint64_t event);
  Status query_event(std::uint64_t event);
  Got<std::uint64_t> elapsed_ns(std::uint64_t from, std::uint64_t to);
  Status reset();

  // --- graphs
  Status begin_capture(std::uint64_t stream, std::uint32_t mode);
  Got<std::uint64_t> end_capture(std::uint64_t stream);
  Got<CaptureState> capture_of(std::uint64_t stream);
  Got<std::uint64_t> create_graph();
  Status destroy_graph(std::uint64_t graph);
  // Nodes of a graph that the program builds itself; `after`: nodes of the same graph.
  using Nodes = std::span<const std::uint64_t>;
  Got<std::uint64_t> add_empty(std::uint64_t graph, Nodes after);
  Got<std::uint64_t> add_launch(std::uint64_t graph, Nodes after, Kernel& kernel,
                                const LaunchShape& shape, void** parameters);
  Got<std::uint64_t> add_set(std::uint64_t graph, Nodes after, const Set& set);
  Got<std::uint64_t> add_call(std::uint64_t graph, Nodes after, Callback callback);
  Got<std::uint64_t> add_copy_device(std::uint64_t graph, Nodes after, const CopyDevice& copy);
  Got<std::uint64_t> add_copy_in(std::uint64_t graph, Nodes after, std::uint64_t to,
                                 const void* from, std::uint64_t bytes);
  Got<std::uint64_t> add_copy_out(std::uint64_t graph, Nodes after, void* to, std::uint64_t from,
                                  std::uint64_t bytes);
  Got<std::uint64_t> graph_of(std::uint64_t node);  // the first that has it: no clone
  Got<std::vector<std::uint64_t>> nodes_of(std::uint64_t graph);
  Got<std::uint64_t> clone(std::uint64_t graph);  // its nodes have the same handles
  // A kernel node of a graph, or of an executable one, launches something else.
  Status set_launch(std::uint64_t graph, std::uint64_t node, Kernel& kernel,
                    const LaunchShape& shape, void** parameters);
  // The executable graph does what the graph does; kUpdateFailure where their nodes differ.
  Status update(std::uint64_t exec, std::uint64_t graph);
  Got<std::uint64_t> instantiate(std::uint64_t graph);
  Status launch_graph(std::uint64_t exec, std::uint64_t stream);
  Status destroy_exec(std::uint64_t exec);

  // Says once that a function is not there, and again at the end.
  void refuse(const char* function);
  // At exit: sends what is left, says goodbye and what was refused or failed, writes the counts.
  void leave();
  // Around fork().
  void before_fork();
  void after_fork(bool child);

 private:
  template <class Message>
  Status ask_event(std::uint64_t event, Cause cause);
  struct Stream {
    std::uint32_t flags = 0;
    std::int32_t priority = 0;
    std::uint64_t last = 0, finished = 0;  // numbers of operations
    std::uint64_t capture = 0;             // id, 0: none
  };
  struct Event {
    std::uint32_t flags = 0;
    std::uint64_t stream = 0, recorded = 0;  // number of the operation; 0: never
    bool finished = true;
    std::uint64_t capture = 0;  // recorded in this capture
  };
  struct Capture {
    std::uint64_t origin = 0, graph = 0;
    std::uint32_t mode = 0;
    bool broken = false;
    HostCopies copies = {};
  };
  struct Graph {
    HostCopies copies = {};
    std::vector<std::uint64_t> nodes = {};
    std::uint32_t count = 0;
  };
  struct Exec {
    HostCopies copies = {};
    std::vector<std::uint64_t> nodes = {};
    std::uint64_t stream = 0, event = 0;  // of its last launch
    bool launched = false;
  };
  struct Deferred {  // a copy into pinned memory on its way
    std::byte* to = nullptr;
    std::uint64_t bytes = 0;
  };

  void said(std::uint32_t where, Bytes text) override;
  void mark_fault();
  void say_outcome(Status status);
  void waiting(std::uint32_t place) override;
  void call(Token token) override;
  std::span<std::byte> place_of(Token token, std::uint64_t bytes) override;

  Status connected(Lock& lock);
  Status connect(Lock& lock);
  Status greet(Lock& lock, const Settings& settings);
  Got<std::uint64_t> resolved(const Lock& lock, std::uint64_t stream);
  Stream* find(std::uint64_t stream);
  // Asks the server unless the stream is known to be finished.
  template <class Operation>
  Status ask_stream(Lock& lock, const Operation& operation, Cause cause);
  template <class T>
  Got<T> of_stream(std::uint64_t stream, T Stream::*member);
  std::uint64_t note_work(std::uint64_t stream);
  void note_finished(std::uint64_t stream, std::uint64_t number);
  void note_all_finished(std::uint64_t number);
  bool idle() const;
  Capture* capture_at(std::uint64_t stream);
  bool is_finished(const Event& event);

  Got<std::uint64_t> allocate_locked(Lock& lock, std::uint64_t bytes, std::uint64_t align = 0);
  Status release_locked(const Lock& lock, std::uint64_t address);
  Status send_image(Lock& lock, const Module& module);
  Status load_locked(Lock& lock, Module& module);
  Status open_locked(Lock& lock, Kernel& kernel);
  Status check_shape(const Kernel& kernel, const LaunchShape& shape) const;
  struct NodeLaunch {
    Launch launch = {};
    std::vector<std::byte> block = {};  // its parameters
  };
  Got<NodeLaunch> launch_of_node(Kernel& kernel, const LaunchShape& shape, void** parameters);
  Got<Launch> prepared(Lock& lock, Kernel& kernel, const LaunchShape& shape);
  template <class Op>
  Got<std::uint64_t> add_operation(std::uint64_t graph, Nodes after, const Op& operation);
  Got<std::uint64_t> add_node(const Lock& lock, std::uint64_t graph, Nodes after, Bytes operation);
  Status order_launches(const Lock& lock, Exec& exec, std::uint64_t stream);
  std::uint64_t add_callback(const Callback& callback);
  Status share(Lock& lock, const Block& block);
  // Before an operation of the device's that writes to `to`, or anywhere.
  Status begin_work(Lock& lock, std::uint64_t stream, std::optional<std::uint64_t> to = {});
  Status check_callback();
  Status show_device(Lock& lock);   // what the program changed
  Status show_program(Lock& lock);  // what the device may have changed
  Got<std::uint64_t> stage(Lock& lock, std::uint64_t bytes);
  void clear(bool child);

  std::mutex mutex_;  // of everything below but what is atomic or says otherwise
  Settings settings_;
  std::unique_ptr<Link> link_;
  Status connect_failed_ = kOk;
  std::atomic<bool> is_ready_ = false, left_ = false;
  Device device_;  // constant once ready
  Stats stats_;
  std::optional<Arena> arena_;
  std::uint64_t session_ = 0, generation_ = 0, next_handle_ = 0x1000, next_token_ = 0;
  std::uint64_t operations_ = 0, all_finished_ = 0;
  Stream legacy_;
  std::map<std::uint64_t, Stream> streams_;
  std::map<std::uint64_t, Event> events_;
  std::map<std::uint64_t, Capture> captures_;
  std::map<std::uint64_t, Graph> graphs_;
  std::map<std::uint64_t, Exec> execs_;
  std::map<std::uint64_t, std::uint64_t> globals_;  // begin to length, of modules' variables
  std::map<std::uintptr_t, std::uint64_t> pinned_;
  std::map<std::uintptr_t, std::uint64_t> registered_;
  Managed managed_;
  std::uint64_t managed_stream_ = 0;
  bool program_turn_ = false, attached_ = false;  // the program may have changed managed memory
  std::atomic<bool> device_turn_ = false;         // the device may have
  Modules modules_;
  std::mutex refusal_mutex_;
  std::set<std::string> refused_;

  std::mutex notice_mutex_;  // inside mutex_ where both are held
  std::map<std::uint64_t, Deferred> deferred_;
  std::unique_ptr<Callbacks> callbacks_;
};

// The session of this process.
Session& session();

}  // namespace partita::remote::client
