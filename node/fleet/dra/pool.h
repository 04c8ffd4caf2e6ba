// The GPUs of a node as a pool of Kubernetes' dynamic resource allocation (DRA, resource.k8s.io/v1
// of Kubernetes 1.36): a device per GPU, profile and legal start, whether it is there or not, and
// per GPU a set of counters that say which of them can exist beside each other. The scheduler takes
// the first device that fits, so the order of the devices decides where an instance goes: of each
// profile the places come first after which the largest shapes stay free (hw::best_spots). Pure.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/node_state.h"
#include "hw/gpu_model.h"
#include "hw/layout.h"

namespace partita::dra {

inline constexpr std::size_t kMaxCounters = 32;  // of a set, by Kubernetes

// A GPU whose instances may be claimed: MIG is on, it answers.
struct PoolGpu {
  device::GpuState gpu;
  std::shared_ptr<const hw::GpuModel> model;  // never null
  // Places that claims have, whether their instances are there yet or not. Every other instance is
  // somebody else's, and what it takes is not in the counters.
  std::vector<hw::PlacedProfile> claimed = {};
};

using Counters = std::map<std::string, int>;  // by name, a DNS label

struct PoolDevice {
  std::string name;     // a DNS label, the same as long as the GPU has this index
  std::size_t gpu = 0;  // index into the GPUs
  hw::PlacedProfile place;
  Counters takes;  // of its GPU's set
};

struct Pool {
  std::vector<PoolGpu> gpus;
  std::vector<Counters> counters;   // that can be taken of each, by claims
  std::vector<PoolDevice> devices;  // of each profile the best place first
};

// "gpu-0": the name of its set of counters.
std::string counters_name(const PoolGpu& gpu);
Pool pool_of(std::vector<PoolGpu> gpus);
// The device of that name, or null.
const PoolDevice* find_device(const Pool& pool, const std::string& name);

}  // namespace partita::dra
