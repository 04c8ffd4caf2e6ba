// The library itself, the system, and finding GPUs.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "drivers/sim/figures.h"
#include "library.h"

namespace partita::nvml_sim {
namespace {

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

// NVML's own words, which some clients compare.
constexpr std::pair<Return, const char*> kWords[] = {
    {Return::success, "Success"},
    {Return::uninitialized, "Uninitialized"},
    {Return::invalid_argument, "Invalid Argument"},
    {Return::not_supported, "Not Supported"},
    {Return::no_permission, "Insufficient Permissions"},
    {Return::already_initialized, "Already Initialized"},
    {Return::not_found, "Not Found"},
    {Return::insufficient_size, "Insufficient Size"},
    {Return::insufficient_power, "Insufficient External Power"},
    {Return::driver_not_loaded, "Driver Not Loaded"},
    {Return::timeout, "Timeout"},
    {Return::irq_issue, "Interrupt Request Issue"},
    {Return::library_not_found, "NVML Shared Library Not Found"},
    {Return::function_not_found, "Function Not Found"},
    {Return::corrupted_inforom, "Corrupted infoROM"},
    {Return::gpu_is_lost, "GPU is lost"},
    {Return::reset_required, "GPU requires reset"},
    {Return::operating_system, "GPU access blocked by the operating system"},
    {Return::lib_rm_version_mismatch, "Driver/library version mismatch"},
    {Return::in_use, "In use by another client"},
    {Return::memory, "Insufficient Memory"},
    {Return::no_data, "No data"},
    {Return::vgpu_ecc_not_supported, "vGPU ECC not supported"},
    {Return::insufficient_resources, "Insufficient Resources"},
    {Return::freq_not_supported, "Invalid Frequency"},
    {Return::argument_version_mismatch, "Argument version mismatch"},
    {Return::deprecated, "Requested functionality has been deprecated"},
    {Return::not_ready, "System is not in ready state"},
};

}  // namespace

extern "C" {

Return nvmlInit() { return Library::here().initialise(); }
Return nvmlInit_v2() { return Library::here().initialise(); }
Return nvmlInitWithFlags(unsigned) { return Library::here().initialise(); }
Return nvmlShutdown() { return Library::here().shut_down(); }

const char* nvmlErrorString(Return code) {
  const auto at = std::ranges::find(kWords, code, &std::pair<Return, const char*>::first);
  return at == std::end(kWords) ? "Unknown Error" : at->second;
}

Return nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return system_text(kDriverVersion, text, length);
}
// The library's own version, which it tells before it is initialised too.
Return nvmlSystemGetNVMLVersion(char* text, unsigned length) {
  return given(text) ? put(kNvmlVersion, text, length) : Return::invalid_argument;
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

Return nvmlGetBlacklistDeviceCount(unsigned* count) { return nvmlGetExcludedDeviceCount(count); }
// There are neither excluded boards nor units.
Return nvmlGetExcludedDeviceInfoByIndex(unsigned, void*) { return on_boards(false, nullptr); }
Return nvmlGetBlacklistDeviceInfoByIndex(unsigned, void*) { return on_boards(false, nullptr); }
Return nvmlUnitGetHandleByIndex(unsigned, void**) { return on_boards(false, nullptr); }

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
