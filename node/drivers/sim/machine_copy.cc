#include "drivers/sim/machine_copy.h"

#include <vector>

#include "base/index.h"

namespace partita::drivers::sim {

Machine copy_of(const device::NodeState& node, const hw::Catalogue& catalogue) {
  std::vector<Machine::Gpus> gpus;
  for (const device::GpuState& gpu : node.gpus) {
    const hw::GpuModel* model = catalogue.find(gpu.model);
    // A GPU that the catalogue does not know is not used; any model keeps its place.
    gpus.push_back(
        {model == nullptr ? &catalogue.gpus.front() : model, 1, model && gpu.mig_enabled});
  }
  Machine machine(gpus, "rehearsal");
  for (const device::GpuState& gpu : node.gpus) {
    const hw::GpuModel& model = *gpus[at(gpu.index)].model;
    for (const device::Instance& instance : gpu.instances) {
      const int profile = model.profile_index(instance.profile);
      if (profile < 0) continue;
      const auto made = machine.create_instance(gpu.index, profile, instance.start);
      if (!made || !instance.whole()) continue;
      const auto compute = machine.create_compute(gpu.index, made->value, instance.gpcs, 0);
      for (const device::Holder& holder : instance.holders) {
        if (!compute) break;
        static_cast<void>(
            machine.attach(gpu.index, {holder.pid, holder.name, made->value, compute->value}));
      }
    }
    if (gpu.lost) machine.lose(gpu.index);
  }
  return machine;
}

}  // namespace partita::drivers::sim
