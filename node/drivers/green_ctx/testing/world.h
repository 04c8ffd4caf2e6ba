// The simulated process: its GPUs and all that was made on them. Handles are numbers that never
// come twice, so a handle that was destroyed is known to be one. Every call locks the world; work
// runs on a thread per stream, outside the lock.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "device/testing/code_engine.h"
#include "drivers/green_ctx/cuda_abi.h"
#include "drivers/green_ctx/testing/fake_cuda.h"

namespace partita::fake_cuda {

namespace abi = drivers::green_ctx::abi;
using abi::Return;

// What a kernel runs on: the SMs of a context.
struct Place {
  int device = 0;
  std::vector<int> sms;  // as %smid numbers them
};

struct Group {
  int device = 0;
  std::vector<int> sms;
};

struct Green {
  std::shared_ptr<const Place> place;
  abi::Context context = nullptr;
};

struct Completion {
  bool done = false;
};

struct Stream {
  std::shared_ptr<const Place> place;
  abi::GreenContext green = nullptr;  // null: of the primary context
  std::deque<std::function<void()>> work = {};
  bool running = false, ending = false;
  std::thread thread = {};
};

struct Event {
  int device = 0;
  std::shared_ptr<Completion> completion = {};  // of the last record
};

struct Entry {
  std::string name;
  std::size_t parameters = 0;
};

struct KernelOf {
  abi::Library library = nullptr;
  Entry entry;
  abi::Kernel handle = nullptr;
};

struct Node {
  abi::Graph graph = nullptr;
  abi::KernelNodeParams params = {};  // as it was given; pointers of arguments are not kept
  std::shared_ptr<const Place> place;
  abi::GreenContext green = nullptr;
  std::function<void()> run;
  std::vector<abi::GraphNode> after;
};

struct Exec {
  std::map<abi::GraphNode, Node> nodes;
};

struct Block {
  std::size_t bytes = 0;
  bool on_host = false, mapped = false, zeroed = false;
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;  // work ended or came
  Config config;
  bool initialised = false;
  Return lost = Return::success;  // the code that all calls answer from now on
  std::uint64_t next_handle = 0x1000;
  std::map<std::string, int, std::less<>> calls;
  std::map<std::string, std::map<int, int>, std::less<>> faults;  // call, code
  std::string failed;  // the function that was struck last

  std::map<int, int> primary;              // references per device
  std::map<int, abi::Context> contexts;    // primary, per device
  std::vector<std::vector<Group>> splits;  // groups, and what was left over as the last
  std::map<abi::ResourceDesc, Group> descriptions;
  std::map<abi::GreenContext, Green> greens;
  std::map<abi::Stream, std::shared_ptr<Stream>> streams;
  std::map<abi::Event, Event> events;
  std::map<abi::Library, std::vector<Entry>> libraries;
  std::map<abi::Library, std::uint64_t> modules;  // of the engine, of libraries that it runs
  std::map<abi::Kernel, KernelOf> kernels;
  std::map<abi::Kernel, unsigned> most_shared;  // where it was set
  std::vector<std::pair<std::string, int>> launched;
  std::map<abi::Function, abi::Kernel> functions;
  std::set<abi::Graph> graphs;
  std::map<abi::GraphNode, Node> nodes;
  std::map<abi::GraphExec, std::shared_ptr<const Exec>> execs;
  std::map<std::uint64_t, Block> blocks;  // by address
  int green_currents = 0;

  template <class Handle>
  Handle handle() {
    return reinterpret_cast<Handle>(next_handle += 16);
  }
  template <class Handle>
  bool was_made(Handle handle) const {
    const auto value = reinterpret_cast<std::uint64_t>(handle);
    return value > 0x1000 && value <= next_handle && value % 16 == 0;
  }
  Place whole(int device) const;
  std::size_t taken() const;  // bytes of memory
  // Whether the bytes belong to one block.
  bool holds(std::uint64_t address, std::size_t bytes) const;
  bool pinned(const void* memory, std::size_t bytes) const;
  // Where bytes of a block are in this process.
  static void* at(std::uint64_t address, std::size_t bytes);
};

World& world();

// One call of the interface: locks the world, counts the call, and knows whether it must fail.
class Call {
 public:
  enum class Needs { nothing, initialised, context };
  Call(std::string_view name, Needs needs);
  // The first is success where the call may go on.
  Return code() const { return code_; }
  World& operator*() { return world_; }
  World* operator->() { return &world_; }
  std::unique_lock<std::mutex>& lock() { return lock_; }
  // The device of the context that is current to the thread.
  int device() const { return device_; }

 private:
  World& world_;
  std::unique_lock<std::mutex> lock_;
  Return code_ = Return::success;
  int device_ = 0;
};

// The contexts that are current to the calling thread, the last on top.
std::vector<abi::Context>& current_contexts();

// ---- work ----

// Queues work on a stream, whose thread is started with the first.
void enqueue(World& world, const std::shared_ptr<Stream>& stream, std::function<void()> work);
// The stream of a handle, or what is wrong with it.
Return find_stream(World& world, abi::Stream handle, std::shared_ptr<Stream>& found);
// Whether a kernel of this name is known without an engine.
bool known_kernel(std::string_view name);
// A kernel that was given arguments, ready to run on a place. Null where something is wrong.
std::function<void()> kernel_run(World& world, const KernelOf& kernel, const Place& place,
                                 const abi::KernelNodeParams& params);
// The device faults: everything answers this from now on.
void lose(Return code);
bool is_lost();

}  // namespace partita::fake_cuda
