#include "device/gpu_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/unicode.h"

namespace partita::device {
namespace {

constexpr std::size_t kMaxInstances = 64;  // of one GPU; compute instances of one instance too
constexpr std::size_t kMaxHolders = 1'000'000;
constexpr Range kIds{.high = 1e9};
constexpr Range kPids{.high = 4294967295.0};
constexpr Range kSlices{.high = 1023};
constexpr Range kSizes{.low = 1, .high = 1023};
constexpr Range kProcesses{.high = 1e6};
constexpr int kNoId = -1;  // none was given

void describe_holder(Form& f, Holder& holder) {
  f.whole("pid", holder.pid, kPids, "of a process");
  f.quote("name", holder.name, "null where the driver does not tell");
}

// `busy` without holders is a holder of pid 0.
void describe_holders(Form& f, std::vector<Holder>& holders) {
  f.optional().list("holders", holders, describe_holder, {.most = kMaxHolders}, "by pid");
  Fields* const in = f.reading();
  if (!in) return;
  if (!in->has("holders") && in->has("busy") && in->boolean("busy")) holders.push_back({});
  std::ranges::stable_sort(holders, {}, &Holder::pid);
}

// What the catalogue says about the instance's profile, where the document does not.
void complete(Fields& in, const hw::GpuModel* model, Instance& instance) {
  const int at = model ? model->profile_index(instance.profile) : -1;
  const hw::MigProfile* known = at < 0 ? nullptr : &model->profiles[static_cast<std::size_t>(at)];
  for (const std::string_view key : {"size", "gpcs", "profile_id"})
    if (!known && !in.has(key))
      in.refuse(key,
                fmt::format("'{}' is missing, and the catalogue does not know the profile '{}' "
                            "of this GPU",
                            key, utf8(printable(instance.profile))));
  instance.gi_id = kNoId;
  if (!known) return;
  instance.size = known->size;
  instance.gpcs = known->gpcs;
  instance.profile_id = known->profile_id;
}

void describe_occupant(Form& f, const std::string& uuid, Occupants& occupants) {
  Fields* const in = f.reading();
  const auto found = occupants.find(uuid);
  const bool runs = found != occupants.end() && !uuid.empty();
  if (!f.walk().when(in ? in->known("service") : runs)) return;
  Occupant occupant = in || !runs ? Occupant{} : found->second;
  f.name("service", occupant.service, "that runs there");
  f.optional().integer("batch", occupant.batch, kProcesses, "largest batch");
  f.optional().integer("processes", occupant.processes, kProcesses, "that share it");
  f.optional(!occupant.group.empty())
      .notes("group", occupant.group, {.most = kMaxNodeGpus}, "UUIDs of the GPUs that it has");
  if (!in) return;
  if (uuid.empty()) {
    in->refuse("service", "a service is on an instance that has no compute instance with a uuid");
  } else if (!occupants.emplace(uuid, occupant).second) {
    in->refuse("service", fmt::format("the device '{}' is listed twice", uuid));
  }
}

struct InstanceForm {
  const GpuState& gpu;
  const hw::GpuModel* model;
  Occupants& occupants;

  void operator()(Form& f, Instance& one) const {
    Fields* const in = f.reading();
    f.name("profile", one.profile, "catalogue name");
    f.integer("start", one.start, kSlices, "first memory slice");
    if (in) complete(*in, model, one);
    f.optional().integer("size", one.size, kSizes, "memory slices");
    f.optional().integer("gpcs", one.gpcs, kSlices, "compute slices");
    f.optional().integer("profile_id", one.profile_id, kIds, "the driver's");
    f.optional().integer("gi_id", one.gi_id, kIds, "of the GPU instance");
    std::string uuid = one.uuid();
    f.quote("uuid", uuid, "of its MIG device");
    f.told("busy", one.busy(), "processes hold it");
    f.optional().list("compute", one.compute, describe_compute, {.most = kMaxInstances},
                      "by ci_id");
    if (in && !in->has("compute")) {
      if (uuid.empty()) uuid = fmt::format("MIG-gpu{}-start{}", gpu.index, one.start);
      one.compute = {{.ci_id = 0, .gpcs = one.gpcs, .uuid = uuid}};
    }
    if (in) std::ranges::stable_sort(one.compute, {}, &ComputeInstance::ci_id);
    describe_holders(f, one.holders);
    describe_occupant(f, one.uuid(), occupants);
    const auto same = std::ranges::count(gpu.instances, one.gi_id, &Instance::gi_id);
    if (in && one.gi_id != kNoId && same > 1)
      in->refuse(in->node(), fmt::format("two instances of this GPU have the gi_id {}", one.gi_id));
  }
};

// Who was given no number gets the start, or, where another instance has that, the lowest that is
// free.
void number_the_rest(std::vector<Instance>& instances) {
  std::set<int> taken;
  for (const Instance& instance : instances) taken.insert(instance.gi_id);
  for (Instance& instance : instances) {
    if (instance.gi_id != kNoId) continue;
    instance.gi_id = instance.start;
    for (int id = 0; !taken.insert(instance.gi_id).second; ++id) instance.gi_id = id;
  }
}

}  // namespace

void describe_compute(Form& f, ComputeInstance& compute) {
  f.integer("ci_id", compute.ci_id, kIds, "of the compute instance");
  f.integer("gpcs", compute.gpcs, kSlices, "compute slices");
  f.quote("uuid", compute.uuid, "of the MIG device");
}

void GpuForm::operator()(Form& f, GpuState& gpu) const {
  Fields* const in = f.reading();
  if (in && !in->has("model")) in->refuse("model", "'model' is missing");
  f.integer("index", gpu.index, kIds, "the driver's");
  f.quote("uuid", gpu.uuid, "of the GPU");
  f.quote("name", gpu.name, "the driver's product name");
  f.quote("model", gpu.model, "catalogue name; null: unknown");
  f.optional(!gpu.nvlinks.empty())
      .notes(
          "nvlinks", gpu.nvlinks, {.most = kMaxInstances},
          "PCI addresses that its NVLinks join, its own first; missing: the driver does not tell");
  f.quote("pci_device_id", gpu.pci_device_id, "as the driver says");
  const hw::GpuModel* model = gpu.model.empty() ? nullptr : catalogue.find(gpu.model);
  if (in && model) gpu.memory = model->total_memory.value_or(Mib{});
  f.optional().number("memory_mib", gpu.memory, kNotNegative, "in all");
  if (in) gpu.mig_capable = true;
  f.line("     ").optional().boolean("mig_capable", gpu.mig_capable, "can be cut");
  if (in) gpu.mig_enabled = gpu.mig_capable;
  f.optional().boolean("mig_enabled", gpu.mig_enabled, "is in MIG mode");
  if (in) gpu.mig_pending = gpu.mig_enabled;
  f.optional().boolean("mig_pending", gpu.mig_pending, "the mode after the next reset");
  f.optional().boolean("lost", gpu.lost, "fell off the bus");
  describe_holders(f, gpu.holders);
  describe_occupant(f, gpu.uuid, occupants);  // of all of it
  f.line("     ").list("instances", gpu.instances, InstanceForm{gpu, model, occupants},
                       {.most = kMaxInstances, .indent = "       "}, "by start");
  if (!in || in->error()) return;
  number_the_rest(gpu.instances);
  std::ranges::sort(gpu.instances, [](const Instance& a, const Instance& b) {
    return std::pair(a.start, a.gi_id) < std::pair(b.start, b.gi_id);
  });
}

}  // namespace partita::device
