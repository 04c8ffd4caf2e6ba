// Who uses a GPU, and events. Processes are the machine's; all of them compute. Nothing happens by
// itself, so waiting for events ends with the timeout.
#include <algorithm>
#include <atomic>
#include <vector>

#include "library.h"

namespace partita::nvml_sim {
namespace {

constexpr unsigned long long kEventTypes = 0x1F;  // ECC errors, performance state, Xid, clocks
constexpr std::int64_t kNsPerMs = 1'000'000;

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

Return wait(abi::EventSet set, bool arguments, unsigned timeout_ms) {
  const Return ready = on_machine(arguments, [&](const Machine&) {
    const auto entity = Library::here().handles.find(set);
    return entity && entity->kind == Entity::Kind::event_set ? Return::success
                                                             : Return::invalid_argument;
  });
  if (ready != Return::success) return ready;
  Library::here().clock.sleep_ns(timeout_ms * kNsPerMs);
  return Return::timeout;
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

Return nvmlEventSetCreate(abi::EventSet* set) {
  static std::atomic<int> next{0};
  return on_machine(given(set), [&](const Machine&) {
    const Entity entity{.kind = Entity::Kind::event_set, .ci_id = next++};
    return answer(set, Library::here().handles.of<abi::EventSet>(entity));
  });
}

Return nvmlEventSetFree(abi::EventSet set) {
  return on_machine(given(set), [&](const Machine&) {
    const auto entity = Library::here().handles.find(set);
    if (!entity || entity->kind != Entity::Kind::event_set) return Return::invalid_argument;
    Library::here().handles.forget(*entity);
    return Return::success;
  });
}

Return nvmlEventSetWait(abi::EventSet set, abi::EventDataV1* data, unsigned timeout_ms) {
  return wait(set, given(data), timeout_ms);
}
Return nvmlEventSetWait_v2(abi::EventSet set, abi::EventData* data, unsigned timeout_ms) {
  return wait(set, given(data), timeout_ms);
}

Return nvmlDeviceRegisterEvents(Device device, unsigned long long types, abi::EventSet set) {
  return on_gpu(device, given(set), [&](const Target&) {
    const auto entity = Library::here().handles.find(set);
    if (!entity || entity->kind != Entity::Kind::event_set) return Return::invalid_argument;
    return (types & ~kEventTypes) == 0 ? Return::success : Return::not_supported;
  });
}

Return nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long* types) {
  return on_gpu(device, given(types), [&](const Target&) { return answer(types, kEventTypes); });
}

}  // extern "C"

}  // namespace partita::nvml_sim
