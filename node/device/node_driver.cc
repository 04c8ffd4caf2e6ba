#include "device/node_driver.h"

#include <fmt/format.h>

#include <algorithm>

namespace partita::device {

const GpuState* NodeState::find(const std::string& uuid) const {
  const auto found = std::ranges::find(gpus, uuid, &GpuState::uuid);
  return found == gpus.end() ? nullptr : &*found;
}

std::string to_string(const Holder& holder) {
  if (holder.is_lease()) return holder.name;
  return fmt::format("pid {}{}", holder.pid, holder.name.empty() ? "" : " (" + holder.name + ")");
}

Result<NodeState> read_node(NodeDriver& driver) {
  const DriverInfo info = TRY(driver.info());
  NodeState state{.driver = info.name, .driver_version = info.version, .gpus = {}};
  for (int gpu = 0; gpu < info.gpus; ++gpu) {
    GpuState read = TRY(driver.read(gpu));
    state.gpus.push_back(std::move(read));
  }
  return state;
}

}  // namespace partita::device
