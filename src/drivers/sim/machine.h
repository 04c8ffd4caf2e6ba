// Machine: a node with MIG GPUs in memory, with the semantics of NVIDIA's driver as far as they are
// known (docs/drivers.md lists each rule with its source). A value: copying it is a snapshot. It has no
// clock and no randomness of its own; every change says how long the real driver would take for it.
// Used by SimDriver (the door) and by the simulated libnvidia-ml (the C ABI), which therefore agree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hw/catalogue.h"

namespace partita::drivers::sim {

struct SimProcess {
  std::int64_t pid = 0;
  std::string name;
  int gi_id = -1, ci_id = -1;  // -1: on the GPU outside any instance
  bool operator==(const SimProcess&) const = default;
};

struct SimComputeInstance {
  int ci_id = 0;
  int gpcs = 0;   // compute slices of the GPU instance that it has
  int start = 0;  // first of them
  std::string uuid;
  bool operator==(const SimComputeInstance&) const = default;
};

struct SimInstance {
  int gi_id = 0;
  int profile = 0;                          // index into GpuModel::profiles
  int start = 0;                            // memory slices
  std::vector<SimComputeInstance> compute;  // by ci_id
  bool operator==(const SimInstance&) const = default;
};

struct SimGpu {
  const hw::GpuModel* model = nullptr;  // in the catalogue that the machine was made with
  std::string uuid, serial, pci_bus_id;
  bool mig = false, mig_pending = false;
  bool lost = false;
  std::vector<SimInstance> instances;  // by gi_id
  std::vector<SimProcess> processes;   // by pid
  bool operator==(const SimGpu&) const = default;
};

// What a change costs: the time that the real driver takes (GpuModel::reconfiguration; sizes without a
// measured time take that of the next larger measured one).
template <class T>
struct Timed {
  T value{};
  std::int64_t duration_ns = 0;
};

class Machine {
 public:
  struct Gpus {
    const hw::GpuModel* model = nullptr;
    int count = 1;
    bool mig = true;
  };
  // UUIDs are made from `identity` (the same gives the same UUIDs, others differ).
  Machine(const std::vector<Gpus>& gpus, std::string identity);

  const std::vector<SimGpu>& gpus() const { return gpus_; }
  const SimGpu* find(int gpu) const;  // null when there is none

  // Errors as NodeDriver's, and `lost` for every call on a lost GPU.
  // Ampere: stored as pending until reset() or reboot(); Hopper and later: at once, which needs a GPU
  // without instances and processes (in_use).
  Result<void> set_mig_mode(int gpu, bool enabled);
  // Without a start: the legal free start that leaves the most capacity, of equals the highest.
  Result<Timed<int>> create_instance(int gpu, int profile, std::optional<int> start);
  Result<Timed<bool>> destroy_instance(int gpu, int gi_id);
  // A compute instance of `gpcs` slices of the GPU instance; first free start when none is given.
  Result<Timed<int>> create_compute(int gpu, int gi_id, int gpcs, std::optional<int> start);
  Result<Timed<bool>> destroy_compute(int gpu, int gi_id, int ci_id);
  // How many more instances of the profile fit now.
  int remaining(int gpu, int profile) const;

  // A process appears (on an instance, or on the GPU with -1, -1) or ends.
  Result<void> attach(int gpu, const SimProcess& process);
  void detach(std::int64_t pid);
  // What happens to real machines.
  Result<void> reset(int gpu);  // pending mode comes in force; in_use while processes are there
  void reboot();       // pending modes in force; instances and processes gone, MIG mode stays
  void lose(int gpu);  // falls off the bus; instances and processes with it until reboot

  // The whole state as text; from_text(text(), same catalogue) is equal to it.
  std::string text() const;
  static Result<Machine> from_text(const std::string& file, std::string_view text,
                                   const hw::Catalogue& catalogue);
  bool operator==(const Machine&) const = default;

 private:
  Machine() = default;
  std::vector<SimGpu> gpus_;
  std::string identity_;
  std::uint64_t created_ = 0;  // instances ever created; UUIDs are made from it
};

}  // namespace partita::drivers::sim
