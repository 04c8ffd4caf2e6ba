// Device code of this process and the names in it: what programs registered before main(), and what
// they loaded themselves. Objects live as long as the process; what the server knows of them counts
// for one generation (a connection, until it is reset).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/arena.h"
#include "client/status.h"
#include "image/fatbin.h"
#include "image/layout.h"
#include "wire/operations.h"

namespace partita::remote::client {

struct Kernel;

struct Module {
  Module* original = nullptr;    // whose twin on another device it is
  const void* source = nullptr;  // where the program keeps its wrapper or image
  std::vector<std::byte> copy;   // of an image that was loaded at run time, or put together
  bool is_read = false;
  std::vector<image::Member> members = {};
  std::string problem = {};  // why there are none

  const image::Member* chosen = nullptr;
  bool has_layouts = false;
  image::Layouts layouts = {};
  std::uint64_t generation = 0;  // of `handle` and `status`
  ModuleHandle handle = {};
  Status status = kOk;
  std::map<std::string, Block> symbols = {};
  std::map<std::string, Kernel*, std::less<>> kernels = {};
};

struct Kernel {
  Module* module = nullptr;
  std::string name;
  const image::Layout* layout = nullptr;
  std::uint64_t generation = 0;  // of what follows
  KernelHandle handle = {};
  std::optional<KernelAttributes::Reply> attributes = {};
  std::optional<std::uint32_t> dynamic_limit = {};  // of shared memory, set by the program
};

struct Variable {
  Module* module = nullptr;
  std::string name;
  std::uint64_t bytes = 0;
};

// Each device has its own kernels and variables of what the program registered: a twin of the
// module, made when the device uses it first. A module with managed variables is on all of them.
// Thread rule: any thread; one lock inside.
class Modules {
 public:
  // `wrapper`: of the program's fat binary. Never null.
  Module* add_registered(const void* wrapper);
  // Copies the image: a wrapper, a container, a cubin or PTX text, as cuModuleLoadData takes it.
  Module* add_loaded(const void* image);
  Kernel* add_kernel(Module& module, const void* host, std::string name);
  void add_variable(Module& module, const void* host, const char* name, std::uint64_t bytes);
  // A managed one: `shared` is to be where it lies.
  void add_managed(Module& module, void** shared, const char* name, std::uint64_t bytes);
  std::vector<std::pair<void**, std::string>> managed_of(const Module& module);
  // The names that were registered with this module lead nowhere from now on.
  void forget(Module& module);

  bool has_registered();  // the program has code for the runtime
  // On the thread's device.
  Kernel* kernel_of(const void* host);
  Kernel* here(Kernel* kernel);  // of another device, perhaps
  // That the server knows by this number, or null.
  Kernel* kernel_by(KernelHandle handle, std::uint64_t generation);
  // By which the program knows it: what it registered, or else the kernel itself.
  const void* host_of(const Kernel& kernel);
  std::optional<Variable> variable_of(const void* host);
  // By its name in the module; made when it is asked for first. Needs the module's layouts.
  Kernel* kernel_named(Module& module, std::string_view name);
  bool is_kernel(const void* handle);

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  Module* on_device(Module* module);
  Kernel* kernel_in(Module& module, std::string name);

  std::mutex mutex_;
  std::map<std::pair<const Module*, int>, Module*> twins_;
  std::deque<Module> modules_;
  std::deque<Kernel> kernels_;
  std::unordered_map<const void*, Kernel*> by_host_;
  std::unordered_map<const void*, Kernel*> known_;
  std::unordered_map<const void*, Variable> variables_;
  std::map<void**, Variable> managed_;
};

// Finds the members behind `module.source`; once. Relocatable PTX is put together for a device of
// this compute capability.
void read_members(Module& module, std::uint32_t sm);
// Decompresses the chosen member and finds its kernels' layouts; once. kInvalidImage on failure,
// with `module.problem`.
Status read_layouts(Module& module);

}  // namespace partita::remote::client
