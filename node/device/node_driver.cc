#include "device/node_driver.h"

#include <algorithm>

namespace partita::device {

const GpuState* NodeState::find(const std::string& uuid) const {
  const auto found = std::ranges::find(gpus, uuid, &GpuState::uuid);
  return found == gpus.end() ? nullptr : &*found;
}

Result<NodeState> read_node(NodeDriver& driver) {
  const Result<DriverInfo> info = driver.info();
  if (!info) return failed(info.error());
  NodeState state{.driver = info->name, .driver_version = info->version, .gpus = {}};
  for (int gpu = 0; gpu < info->gpus; ++gpu) {
    Result<GpuState> read = driver.read(gpu);
    if (!read) return failed(read.error());
    state.gpus.push_back(*std::move(read));
  }
  return state;
}

}  // namespace partita::device
