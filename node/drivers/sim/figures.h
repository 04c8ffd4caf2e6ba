// Figures that the catalogue does not have: clocks, power, capability. Made up per
// architecture to be plausible for an idle data-centre board (docs/drivers.md says so); what the
// catalogue knows (memory, SMs) is used where it knows it.
#pragma once

#include "hw/gpu_model.h"

namespace partita::drivers::sim {

inline constexpr const char* kDriverVersion = "580.00.00";

struct Figures {
  unsigned architecture;             // NVML's number
  int major, minor;                  // CUDA compute capability
  unsigned cores_per_sm, bus_bits;   // bus_bits: of the memory
  unsigned sm_idle, sm_max, memory;  // clocks, MHz
  unsigned idle_w, low_w, limit_w;   // power: idle, least limit, default and highest limit
  unsigned pcie;                     // generation
  unsigned sms_per_slice;            // where the catalogue knows no SMs
};

const Figures& figures_of(const hw::GpuModel& model);

// Total memory in MiB; of a model without a known one the GB of its largest profile's name.
unsigned long long total_mib(const hw::GpuModel& model);
// SMs of the whole board.
unsigned multiprocessors(const hw::GpuModel& model);
// Memory in MiB and SMs of a profile, where unknown in proportion to its slices.
unsigned long long memory_mib(const hw::GpuModel& model, const hw::MigProfile& profile);
unsigned multiprocessors(const hw::GpuModel& model, const hw::MigProfile& profile);
// SMs of a compute instance of `gpcs` slices in an instance of this profile.
unsigned multiprocessors(const hw::GpuModel& model, const hw::MigProfile& profile, int gpcs);

}  // namespace partita::drivers::sim
