// The simulated GPU behind fake_hip.cc: streams that run their kernels on threads, in order, one
// work-group after another in turn on the CUs that the kernel driver would enable. Strict: what is
// against HIP's rules is noted. One per process. Thread rule: any thread; everything but run() is
// called under the lock.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/testing/code_engine.h"
#include "drivers/hip_mask/hip_abi.h"
#include "drivers/hip_mask/testing/fake_hip.h"

namespace partita::drivers::hip_mask::fake {

// Where a work-group runs, as the registers say it.
struct Site {
  std::uint32_t hw_id = 0;
  std::uint32_t xcc_id = 0;
};

using Values = std::vector<std::uint64_t>;
// A kernel: its name, how many arguments it has, and what a work-group of it does.
struct HostFunction {
  const char* name;
  std::size_t arguments;
  void (*run)(const Values& values, std::int64_t group, const Site& site, int gfx);
};

struct Item {
  std::function<bool()> ready;  // under the lock
  std::function<void()> run;    // without
};

struct StreamState {
  std::vector<Site> sites;  // its work-groups run on these
  std::vector<std::uint32_t> words;
  std::deque<Item> queue;
  std::int64_t given = 0;
  std::int64_t ended = 0;
  bool blocking = true;  // the null stream waits for it, and it for the null stream
  bool closing = false;
  bool captured = false;
  std::vector<Item> kept;  // while it is captured
  std::thread thread;
};

// A launch that was given to the device.
struct Launched {
  std::string kernel;
  std::vector<std::uint32_t> words;  // of its stream's mask; none: without one
};

struct EventState {
  std::shared_ptr<bool> done;  // of its last record; none: never recorded
};

// The machine, with what is alive by handle. Handles are numbers that never come again.
class Machine {
 public:
  void reset(const Board& board);
  int alive() const;
  bool idle() const;  // no stream has work
  void violated(const std::string& what);
  void* next_handle();
  // The sites of a mask; nothing when the kernel driver refuses it.
  std::vector<Site> sites_of(const std::vector<std::uint32_t>& words);
  int cus() const;  // in use
  int multiprocessors() const;
  void start(StreamState& stream);
  // Of a stream's handle, or of the null stream, which is there from its first use on.
  StreamState* find_stream(void* stream);
  void push(StreamState& stream, Item item);
  void launch(StreamState& stream, const HostFunction& kernel, void** arguments, unsigned groups);
  // The same of a function that the engine runs; whether any device takes it.
  bool launch(StreamState& stream, const device::CodeEngine::Launch& launch);
  // Where bytes of device memory are in this process; of the host's, where they are.
  static void* at(const void* memory, std::size_t bytes);
  // Ends an idle stream's thread.
  void close(std::unique_lock<std::mutex>& lock, void* stream);

  std::mutex mutex;
  std::condition_variable changed;
  Board board;
  std::map<void*, std::unique_ptr<StreamState>> streams;
  std::unique_ptr<StreamState> null_stream;  // none before its first use
  std::map<void*, EventState> events;
  std::map<void*, std::string> modules;                              // their source
  std::map<void*, std::string> programs;                             // of hiprtc, likewise
  std::map<void*, std::pair<void*, const HostFunction*>> functions;  // and their modules
  std::map<void*, std::uint64_t> of_engine;                          // modules that it runs
  std::map<void*, std::string> named;                                // functions of those
  std::map<const void*, const HostFunction*> registered;             // of <<< >>>
  std::map<void*, std::vector<Item>> graphs;
  std::vector<Launched> launched;
  std::map<void*, std::unique_ptr<char[]>> host;
  std::map<void*, std::size_t> device;
  std::vector<std::uint32_t> taken;  // from every mask
  std::vector<std::uint32_t> last_mask;
  int created = 0;
  int fails_in = 0;  // calls; 0: never
  int fails_with = 0;
  bool failed = false;
  std::string violation;
  bool lost = false;  // a kernel has done wrong

 private:
  void work(StreamState& stream);
  std::function<bool()> after_others(const StreamState& stream);
  std::intptr_t handles_ = 0;
};

Machine& machine();
const HostFunction* host_function(const std::string& name);

}  // namespace partita::drivers::hip_mask::fake
