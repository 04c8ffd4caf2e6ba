// Modules: a session's modules, their kernels and globals.
#pragma once

#include <future>
#include <set>

#include "server/allocations.h"
#include "server/device_work.h"
#include "server/handles.h"

namespace partita::remote::server {

class Modules {
 public:
  Modules(DeviceWork& work, Allocations& allocations, Images& images, const SessionLimits& limits);

  Reply<ModuleHave> on(const ModuleHave& op);
  // Once more when it is no longer loading().
  Done on(const ModuleLoad& op);
  Done on(const ModuleUnload& op);
  Done on(const KernelOpen& op);
  Reply<KernelAttributes> on(const KernelAttributes& op);
  Done on(const KernelSetAttribute& op);
  Reply<GlobalAddress> on(const GlobalAddress& op);

  // A thread of its own has the back end, for a module that takes long.
  bool loading() const { return loading_; }
  void look();  // whether it still does

  Answered<LaunchWork> checked(const Launch& op) const;
  // The module of a kernel of the backend, by a number that is never given again; 0: it is gone.
  std::uint64_t module_of(Id kernel) const {
    const auto found = module_of_kernel_.find(kernel);
    return found == module_of_kernel_.end() ? 0 : found->second;
  }
  // By which the client knows it; 0: it is gone.
  std::uint64_t handle_of(Id kernel) const;
  // Refused where one of these modules has been unloaded.
  Done are_loaded(const std::set<std::uint64_t>& modules) const;

 private:
  struct Module {
    Id id = 0;
    std::uint64_t serial = 0;
  };
  struct Kernel {
    KernelFacts facts = {};
    std::uint64_t module = 0;  // serial
    std::uint32_t dynamic_shared = 0;
  };

  DeviceWork& work_;
  Allocations& allocations_;
  Images& images_;
  const Nanos load_at_once_;
  std::uint64_t next_serial_ = 1;
  Handles<Module> modules_;
  Handles<Kernel> kernels_;
  std::set<std::uint64_t> living_ = {};  // serials
  std::unordered_map<Id, std::uint64_t> module_of_kernel_ = {};
  std::future<Answered<Id>> load_ = {};
  bool loading_ = false;
};

}  // namespace partita::remote::server
