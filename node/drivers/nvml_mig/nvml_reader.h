// NvmlReader: everything that the driver reads from NVML. It enumerates: GPU instances and compute
// instances by every profile the board may have, MIG devices (for their UUIDs and processes) by
// index. Refers to the library and the catalogue, which must outlive it. It remembers which
// profiles a GPU has, by UUID, and nothing that can change. Thread rule: one call at a time.
// Limits: kMaxProfiles profiles, kMaxInstances instances of one, kMaxProcesses processes.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "device/node_driver.h"
#include "drivers/nvml_mig/nvml_library.h"
#include "hw/catalogue.h"

namespace partita::drivers::nvml_mig {

// More than any driver enumerates; what a board does not have answers not_supported.
inline constexpr unsigned kMaxProfiles = 32;
inline constexpr unsigned kMaxInstances = 64;
inline constexpr unsigned kMaxProcesses = 65'536;
inline constexpr unsigned kMaxLinks = 36;  // NVLinks

// An answer that says "there is no such thing".
bool absent(const Error& error);
// An index or id that cannot be is an invalid argument to NVML; to callers it is not_found.
Error no_such(Error error);
// An answer for enumerator `i` that says that the library knows none from here on.
bool past_the_last(const Error& error, unsigned i);

class NvmlReader {
 public:
  NvmlReader(const hw::Catalogue& catalogue, const NvmlLibrary& library)
      : catalogue_(catalogue), library_(library), api_(library.api()) {}

  struct Profile {
    abi::GpuInstanceProfile figures{};
    std::string name;
  };
  // UUID and processes of one MIG device.
  struct MigDevice {
    std::string uuid;
    std::vector<device::Holder> holders;
  };
  using MigDevices = std::map<std::pair<unsigned, unsigned>, MigDevice>;  // by (gi, ci)

  Result<unsigned> count() const;
  // The GPU of this index; not_found when there is none, lost when it does not answer.
  Result<abi::Device> find(int gpu) const;
  // One reading of the whole GPU. invalid_argument or not_found when what was listed was gone a
  // call later, which another reading cures.
  Result<device::GpuState> state(abi::Device device, int gpu);
  // absent() when the board does not have it.
  Result<Profile> profile(abi::Device device, unsigned nvml_enum) const;
  Result<std::vector<abi::Place>> placements(abi::Device device, unsigned profile_id) const;
  Result<std::vector<device::ProfileInfo>> profiles(abi::Device device) const;
  // Without their processes where nobody asks for them.
  Result<MigDevices> mig_devices(abi::Device device, bool with_processes) const;
  // Compute and graphics processes; none where the driver does not tell.
  Result<std::vector<abi::ProcessInfo>> processes(abi::Device device) const;

 private:
  // What a GPU offers while MIG is on; `computes` by profile, the widest first.
  struct Offers {
    std::vector<Profile> profiles;
    std::map<unsigned, std::vector<abi::ComputeInstanceProfile>> computes;
  };

  Result<void> identify(abi::Device device, device::GpuState& gpu) const;
  Result<void> fill(abi::Device device, device::GpuState& gpu);
  Result<void> follow_links(abi::Device device, device::GpuState& gpu) const;
  Result<Offers*> offers(abi::Device device, const std::string& uuid);
  Result<std::vector<device::Instance>> instances(abi::Device device, const device::GpuState& gpu,
                                                  const MigDevices& devices);
  Result<std::vector<abi::GpuInstance>> handles(abi::Device device, unsigned profile_id) const;
  Result<device::Instance> instance(abi::GpuInstance handle, const Profile& profile, Offers& offers,
                                    const MigDevices& devices) const;
  Result<std::vector<abi::ComputeInstanceProfile>> compute_profiles(abi::GpuInstance handle) const;
  Result<std::vector<device::ComputeInstance>> computes(abi::GpuInstance handle,
                                                        const Profile& profile,
                                                        Offers& offers) const;
  device::Holder holder(unsigned pid) const;

  const hw::Catalogue& catalogue_;
  const NvmlLibrary& library_;
  const NvmlApi& api_;
  std::map<std::string, Offers> offers_;  // by UUID
};

// The name of a GPU instance profile by NVIDIA's rule, for libraries that do not tell: compute
// slices, memory in eighths of the GPU's rounded to GB, and what the enumeration says of engines.
std::string computed_profile_name(int nvml_enum, int gpcs, double memory_mib, double total_mib);

}  // namespace partita::drivers::nvml_mig
