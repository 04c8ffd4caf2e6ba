// The library itself, the system, and finding GPUs.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "library.h"

namespace partita::nvml_sim {
namespace {

constexpr const char* kDriverVersion = "580.00.00";
constexpr const char* kNvmlVersion = "13.580.00.00";
constexpr int kCudaVersion = 13000;

Return system_text(std::string_view text, char* out, unsigned length) {
  return on_boards(given(out), [&](const Machine&) { return put(text, out, length); });
}

Return count(unsigned* out) {
  return on_boards(given(out),
                   [&](const Machine& machine) { return answer(out, machine.gpus().size()); });
}

Return by_index(unsigned index, Device* out) {
  return on_boards(given(out), [&](const Machine& machine) {
    if (index >= machine.gpus().size()) return Return::invalid_argument;
    return answer(out, device_handle(static_cast<int>(index)));
  });
}

// The first GPU that `matches`.
template <class Matches>
Return first_gpu(const Machine& machine, Device* out, Matches matches) {
  const auto at = std::ranges::find_if(machine.gpus(), matches);
  if (at == machine.gpus().end()) return Return::not_found;
  return answer(out, device_handle(static_cast<int>(at - machine.gpus().begin())));
}

struct BusId {
  unsigned domain = 0, bus = 0, device = 0;
  bool operator==(const BusId&) const = default;
};
// "0000:01:00.0", with a longer domain or none.
std::optional<BusId> bus_id_of(const char* text) {
  BusId id;
  if (std::sscanf(text, "%x:%x:%x", &id.domain, &id.bus, &id.device) == 3) return id;
  id = {};
  if (std::sscanf(text, "%x:%x", &id.bus, &id.device) == 2) return id;
  return std::nullopt;
}

Return by_bus_id(const char* text, Device* out) {
  return on_boards(given(text, out), [&](const Machine& machine) {
    const std::optional<BusId> wanted = bus_id_of(text);
    if (!wanted) return Return::invalid_argument;
    return first_gpu(machine, out, [&](const SimGpu& gpu) {
      return bus_id_of(gpu.pci_bus_id.c_str()) == wanted;
    });
  });
}

Return mig_by_uuid(const Machine& machine, std::string_view uuid, Device* out) {
  for (std::size_t gpu = 0; gpu < machine.gpus().size(); ++gpu)
    for (const SimInstance& instance : machine.gpus()[gpu].instances)
      for (const SimComputeInstance& compute : instance.compute)
        if (compute.uuid == uuid)
          return answer(out, mig_device_handle(static_cast<int>(gpu), instance, compute));
  return Return::not_found;
}

const char* words(Return code) {
  switch (code) {
    case Return::success:
      return "success";
    case Return::uninitialized:
      return "the library is not initialised";
    case Return::invalid_argument:
      return "invalid argument";
    case Return::not_supported:
      return "not supported";
    case Return::no_permission:
      return "missing permission";
    case Return::not_found:
      return "not found";
    case Return::insufficient_size:
      return "the buffer is too small";
    case Return::driver_not_loaded:
      return "the driver is not loaded";
    case Return::timeout:
      return "timeout";
    case Return::function_not_found:
      return "function not found";
    case Return::gpu_is_lost:
      return "the GPU is lost";
    case Return::reset_required:
      return "the GPU needs a reset";
    case Return::operating_system:
      return "the operating system refused";
    case Return::in_use:
      return "in use";
    case Return::memory:
      return "out of memory";
    case Return::insufficient_resources:
      return "insufficient resources";
    case Return::argument_version_mismatch:
      return "the struct is of another version";
    default:
      return "unknown error";
  }
}

}  // namespace

extern "C" {

Return nvmlInit() { return Library::here().initialise(); }
Return nvmlInit_v2() { return Library::here().initialise(); }
Return nvmlInitWithFlags(unsigned) { return Library::here().initialise(); }
Return nvmlShutdown() { return Library::here().shut_down(); }

const char* nvmlErrorString(Return code) { return words(code); }

Return nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return system_text(kDriverVersion, text, length);
}
Return nvmlSystemGetNVMLVersion(char* text, unsigned length) {
  return system_text(kNvmlVersion, text, length);
}
Return nvmlSystemGetCudaDriverVersion(int* version) {
  return on_boards(given(version), [&](const Machine&) { return answer(version, kCudaVersion); });
}
Return nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

Return nvmlSystemGetProcessName(unsigned pid, char* text, unsigned length) {
  return with_processes(given(text), [&](const Machine& machine) {
    for (const SimGpu& gpu : machine.gpus())
      for (const drivers::sim::SimProcess& process : gpu.processes)
        if (process.pid == pid) return put(process.name, text, length);
    return Return::not_found;
  });
}

Return nvmlSystemGetTopologyGpuSet(unsigned, unsigned* count, Device* devices) {
  return on_machine(given(count), [&](const Machine& machine) {
    std::vector<Device> all;  // one socket: every GPU is near every CPU
    for (std::size_t i = 0; i < machine.gpus().size(); ++i)
      all.push_back(device_handle(static_cast<int>(i)));
    return put_near(all, count, devices);
  });
}

Return nvmlSystemGetHicVersion(unsigned* count, void*) {
  return on_boards(given(count), [&](const Machine&) { return answer(count, 0); });
}
Return nvmlUnitGetCount(unsigned* count) {
  return on_boards(given(count), [&](const Machine&) { return answer(count, 0); });
}
Return nvmlGetExcludedDeviceCount(unsigned* count) {
  return on_boards(given(count), [&](const Machine&) { return answer(count, 0); });
}

Return nvmlDeviceGetCount(unsigned* number) { return count(number); }
Return nvmlDeviceGetCount_v2(unsigned* number) { return count(number); }
Return nvmlDeviceGetHandleByIndex(unsigned index, Device* out) { return by_index(index, out); }
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* out) { return by_index(index, out); }
Return nvmlDeviceGetHandleByPciBusId(const char* id, Device* out) { return by_bus_id(id, out); }
Return nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* out) { return by_bus_id(id, out); }

Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* out) {
  return on_machine(given(uuid, out), [&](const Machine& machine) {
    const std::string_view wanted = uuid;
    if (wanted.starts_with("MIG-")) return mig_by_uuid(machine, wanted, out);
    return first_gpu(machine, out, [&](const SimGpu& gpu) { return gpu.uuid == wanted; });
  });
}

Return nvmlDeviceGetHandleBySerial(const char* serial, Device* out) {
  return on_boards(given(serial, out), [&](const Machine& machine) {
    return first_gpu(machine, out, [&](const SimGpu& gpu) { return gpu.serial == serial; });
  });
}

}  // extern "C"

}  // namespace partita::nvml_sim
