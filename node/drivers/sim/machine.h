// Machine: a node with MIG GPUs in memory, with the semantics of NVIDIA's driver as far as they are
// known (docs/drivers.md lists each rule with its source and its test). A value: copying it is a
// snapshot. It has no clock and no randomness of its own; every change says how long the real
// driver takes for it. SimDriver (the door) and the simulated libnvidia-ml (the C ABI) both use it
// and therefore agree. Refers to the GPU models of the catalogue, which must outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/power_settings.h"
#include "drivers/sim/power_model.h"
#include "hw/catalogue.h"
#include "hw/layout.h"

namespace partita::drivers::sim {

struct SimProcess {
  std::int64_t pid = 0;
  std::string name;
  int gi_id = -1, ci_id = -1;           // -1, -1: on the GPU outside any instance
  bool observed = false;                // put there by observe()
  std::optional<double> activity = {};  // how busy it keeps its instance; empty: made up from it
  bool operator==(const SimProcess&) const = default;
};

// A process of this computer that uses some of the devices with these UUIDs.
struct ObservedProcess {
  std::int64_t pid = 0;
  std::string name;
  std::vector<std::string> devices;  // UUIDs of GPUs and MIG devices; others are ignored
};

struct SimComputeInstance {
  int ci_id = 0;
  int gpcs = 0;   // compute slices of the GPU instance that it has
  int start = 0;  // first of them
  std::string uuid;
  bool operator==(const SimComputeInstance&) const = default;
};

struct SimInstance : hw::PlacedProfile {
  int gi_id = 0;
  std::vector<SimComputeInstance> compute;  // by ci_id
  bool operator==(const SimInstance&) const = default;
};

// An XID that a GPU reported, on an instance or on the whole GPU (-1).
struct SimXid {
  long number = 0;  // of all that this GPU ever reported, from 1
  int xid = 0;
  int gi_id = -1, ci_id = -1;
  bool operator==(const SimXid&) const = default;
};
inline constexpr std::size_t kMaxSimXids = 32;  // that a GPU remembers

struct SimHealth {
  std::vector<SimXid> xids;  // the newest, by number
  long reported = 0;         // ever
  // Until a reset:
  long uncorrected_errors = 0;
  bool rows_pending = false, rows_failed = false;
  int recovery = 0;  // what the driver recommends, device::GpuRecovery
  bool operator==(const SimHealth&) const = default;
};

struct SimGpu {
  const hw::GpuModel* model = nullptr;  // in the catalogue that the machine was made with
  std::string uuid, serial, pci_bus_id;
  std::string nvlink =
      {};  // PCI address of the switch that its NVLinks lead to; empty: it has none
  bool mig = false, mig_pending = false;
  bool lost = false;
  std::vector<SimInstance> instances;  // by gi_id
  std::vector<SimProcess> processes;   // by pid, gi_id, ci_id
  std::vector<int> free_gi_ids;        // in the order in which they are handed out
  SimPower power = {};
  SimHealth health = {};
  bool operator==(const SimGpu&) const = default;

  const SimInstance* find(int gi_id) const;  // null when there is none
  // NVLinks are down while a board has MIG on whose mode needs a reset (Ampere).
  bool links_are_up() const;
  // Layout of the instances, in their order.
  std::vector<hw::PlacedProfile> placed() const;
};

// A change and what it costs: the time of GpuModel::reconfiguration for the compute slices of the
// instance, of the next larger size where that one was not measured. The whole time lies on the
// call for the GPU instance; compute instances cost nothing, because Table 1 measured both at once.
template <class T>
struct Timed {
  T value{};
  std::int64_t duration_ns = 0;
};

// The number of a call, from 1.
struct CallCount {
  int of_method = 0, of_all = 0;
};

class Machine {
 public:
  struct Gpus {
    const hw::GpuModel* model = nullptr;
    int count = 1;
    bool mig = true;
    int nvlink = 0;  // so many of them at a time are at an NVLink switch; 0: they have no links
    bool operator==(const Gpus&) const = default;
  };
  // UUIDs are made from `identity`: the same gives the same UUIDs, another gives others.
  Machine(const std::vector<Gpus>& gpus, std::string_view identity);

  const std::vector<SimGpu>& gpus() const { return gpus_; }
  const SimGpu* find(int gpu) const;  // null when there is none

  // Errors are those of device::NodeDriver, without context; `lost` for every call on a lost GPU.

  // Ampere: stored as pending until reset() or reboot(); Hopper and later: at once. in_use while
  // instances or processes are there, not_supported where the model has no MIG.
  Result<void> set_mig_mode(int gpu, bool enabled);
  // Creates a GPU instance of GpuModel::profiles[profile]; its gi_id. Without a start: at the legal
  // free start that leaves the most capacity (placements of plain profiles that still fit), of
  // equals the highest.
  Result<Timed<int>> create_instance(int gpu, int profile, std::optional<int> start);
  Result<Timed<bool>> destroy_instance(int gpu, int gi_id);
  // Creates a compute instance of `gpcs` slices of the GPU instance; its ci_id. Without a start: at
  // the first free one. A size must be that of some profile of the model.
  Result<Timed<int>> create_compute(int gpu, int gi_id, int gpcs, std::optional<int> start);
  Result<Timed<bool>> destroy_compute(int gpu, int gi_id, int ci_id);
  // How many more instances of the profile fit now; 0 when none can be made.
  int remaining(int gpu, int profile) const;

  // A process appears on a compute instance, or on the GPU with -1, -1. invalid_argument when the
  // pid is not in 1..2^31-1.
  Result<void> attach(int gpu, const SimProcess& process);
  // It ends, wherever it was.
  void detach(std::int64_t pid);
  // The processes found by looking at this computer, in place of those found before. They hold what
  // they use like attached ones, and text() leaves them out.
  void observe(const std::vector<ObservedProcess>& found);

  // What happens to real machines.
  // A reset: the pending mode comes in force, instances are gone; in_use while processes are there.
  Result<void> reset(int gpu);
  // Pending modes come in force, lost GPUs are back; instances and processes gone, MIG mode stays.
  void reboot();
  // The GPU falls off the bus, its instances and processes with it, until regain() or a reboot.
  void lose(int gpu);
  // A lost GPU is back, as after a reset; nothing happens to one that is not lost.
  void regain(int gpu);
  // The GPU reports an XID. What the driver counts and recommends then follows from hw/xids.h; 79
  // is the last thing that is heard of it.
  void report_xid(int gpu, int xid, int gi_id = -1, int ci_id = -1);

  // ---- power
  // What runs since now runs from `now_ns` on; nothing happens until somebody looked at the power.
  void settle(std::int64_t now_ns);
  // The board's power at `now_ns`, which from now on is kept up by settle(); lost, not_found.
  Result<SimPower> power_at(int gpu, std::int64_t now_ns);
  // The same without keeping anything: of a board that somebody looked at.
  std::optional<SimPower> power_glance(int gpu, std::int64_t now_ns) const;
  // Makes the settings so from `now_ns` on; invalid_argument out of what the board can,
  // not_supported where nobody knows that.
  Result<void> set_power(int gpu, const device::PowerSettings& settings, std::int64_t now_ns);
  // The air that cools the boards.
  void set_ambient(Celsius ambient);

  // Counts one more changing call of `method`; the numbers that it has.
  CallCount count_call(std::string_view method);

  // The whole state as text; from_text(text(), same catalogue) is equal to it but for observed
  // processes. Refused with FILE:LINE.
  std::string text() const;
  static Result<Machine> from_text(const std::string& file, std::string_view text,
                                   const hw::Catalogue& catalogue);
  bool operator==(const Machine&) const = default;

 private:
  Machine() = default;
  Result<SimGpu*> usable(int gpu);
  Result<SimGpu*> mig_gpu(int gpu);  // usable, with MIG on

  std::vector<SimGpu> gpus_;
  std::uint64_t seed_ = 0;  // of UUIDs
  int created_ = 0;         // compute instances ever created; their UUIDs are made from it
  std::map<std::string, int> calls_;
  int all_calls_ = 0;
};

// All gi_ids of a GPU without instances in the order in which they are handed out: 0 for the
// instance of all slices, then a range per halving of the size (7-slice GPUs: 1..2 for 3g and 4g,
// 3..6 for 2g, 7..14 for 1g), each from the last but one downwards, the last one last.
std::vector<int> fresh_gi_ids(const hw::GpuModel& model);

}  // namespace partita::drivers::sim
