// Who uses a GPU. Processes are the machine's; all of them compute.
#include <algorithm>
#include <vector>

#include "library.h"

namespace partita::nvml_sim {
namespace {

unsigned id_or_none(int id) { return id < 0 ? abi::kNoInstance : static_cast<unsigned>(id); }

abi::ProcessInfo info_of(const drivers::sim::SimProcess& process) {
  return {.pid = static_cast<unsigned>(process.pid),
          .used_memory = 0,
          .gpu_instance_id = id_or_none(process.gi_id),
          .compute_instance_id = id_or_none(process.ci_id)};
}

// Of a GPU all processes, also those on its instances; of a MIG device its own.
std::vector<abi::ProcessInfo> processes_of(const Target& target) {
  std::vector<abi::ProcessInfo> all;
  for (const drivers::sim::SimProcess& process : target.gpu.processes)
    if (target.compute == nullptr ||
        (process.gi_id == target.instance->gi_id && process.ci_id == target.compute->ci_id))
      all.push_back(info_of(process));
  return all;
}

Return compute(Device device, unsigned* count, abi::ProcessInfo* infos) {
  return on_used_device(device, given(count), [&](const Target& target) {
    return put_list(processes_of(target), count, infos);
  });
}

Return compute_v1(Device device, unsigned* count, abi::ProcessInfoV1* infos) {
  return on_used_device(device, given(count), [&](const Target& target) {
    std::vector<abi::ProcessInfoV1> all;
    for (const abi::ProcessInfo& info : processes_of(target))
      all.push_back({info.pid, info.used_memory});
    return put_list(all, count, infos);
  });
}

// Graphics and MPS: none.
Return none(Device device, unsigned* count) {
  return on_device(device, given(count), [&](const Target&) { return answer(count, 0); });
}

}  // namespace

extern "C" {

Return nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count,
                                            abi::ProcessInfoV1* infos) {
  return compute_v1(device, count, infos);
}
Return nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count,
                                               abi::ProcessInfo* infos) {
  return compute(device, count, infos);
}
Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count,
                                               abi::ProcessInfo* infos) {
  return compute(device, count, infos);
}
Return nvmlDeviceGetGraphicsRunningProcesses(Device device, unsigned* count, abi::ProcessInfoV1*) {
  return none(device, count);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v2(Device device, unsigned* count, abi::ProcessInfo*) {
  return none(device, count);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count, abi::ProcessInfo*) {
  return none(device, count);
}
Return nvmlDeviceGetMPSComputeRunningProcesses(Device device, unsigned* count,
                                               abi::ProcessInfoV1*) {
  return none(device, count);
}
Return nvmlDeviceGetMPSComputeRunningProcesses_v2(Device device, unsigned* count,
                                                  abi::ProcessInfo*) {
  return none(device, count);
}
Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned* count,
                                                  abi::ProcessInfo*) {
  return none(device, count);
}

}  // extern "C"

}  // namespace partita::nvml_sim
