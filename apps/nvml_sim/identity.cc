// What a GPU is: names, numbers, places.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "drivers/sim/figures.h"
#include "library.h"

namespace partita::nvml_sim {
namespace {

constexpr unsigned kBrandNvidia = 14;
constexpr unsigned kBusPcie = 2;
constexpr unsigned kPcieWidth = 16;
constexpr unsigned kTopologyInternal = 0, kTopologyNode = 40, kTopologySystem = 50;
constexpr unsigned kPeerNotSupported = 5;
constexpr unsigned kBitsPerWord = 8 * sizeof(unsigned long);

std::string product_name(const SimGpu& gpu) {
  return gpu.model->nvml_names.empty() ? gpu.model->name : gpu.model->nvml_names.front();
}

// "1c.3g.40gb" for a part of an instance, "3g.40gb" for all of it.
std::string mig_name(const Target& target) {
  const hw::MigProfile& profile = target.profile();
  const int gpcs = target.compute->gpcs;
  return (gpcs == profile.gpcs ? "" : std::to_string(gpcs) + "c.") + profile.name;
}

Return write_pci(const SimGpu& gpu, abi::PciInfo& pci) {
  std::sscanf(gpu.pci_bus_id.c_str(), "%x:%x:%x", &pci.domain, &pci.bus, &pci.device);
  std::snprintf(pci.bus_id, sizeof pci.bus_id, "%08X:%02X:%02X.0", pci.domain, pci.bus, pci.device);
  std::snprintf(pci.bus_id_legacy, sizeof pci.bus_id_legacy, "%04X:%02X:%02X.0",
                pci.domain & 0xFFFF, pci.bus & 0xFF, pci.device & 0xFF);
  if (!gpu.model->pci_device_ids.empty())
    pci.device_id =
        static_cast<unsigned>(std::strtoul(gpu.model->pci_device_ids.front().c_str(), nullptr, 16));
  return Return::success;
}

// The first `bytes` of it, which is what older versions of the call have.
Return pci_info(Device device, abi::PciInfo* out, std::size_t bytes) {
  return on_any_device(device, given(out), [&](const Target& target) {
    abi::PciInfo pci{};
    const Return written = write_pci(target.gpu, pci);
    std::memcpy(static_cast<void*>(out), &pci, bytes);
    return written;
  });
}

Return text_of_gpu(Device device, char* out, unsigned length, const std::string& text) {
  return on_board(device, given(out), [&](const Target&) { return put(text, out, length); });
}

Return number_of_gpu(Device device, unsigned* out, unsigned number) {
  return on_gpu(device, given(out), [&](const Target&) { return answer(out, number); });
}

Return generation(Device device, unsigned* out) {
  return on_gpu(device, given(out), [&](const Target& target) {
    return answer(out, figures_of(*target.gpu.model).pcie);
  });
}

// Bits 0 to `count` - 1 of a set of `words`.
Return first_bits(unsigned count, unsigned words, unsigned long* set) {
  if (words == 0) return Return::invalid_argument;
  std::memset(set, 0, words * sizeof *set);
  for (unsigned bit = 0; bit < count && bit / kBitsPerWord < words; ++bit)
    set[bit / kBitsPerWord] |= 1UL << bit % kBitsPerWord;
  return Return::success;
}

// One socket: every CPU is near every GPU.
Return cpu_affinity(Device device, unsigned words, unsigned long* set) {
  return on_gpu(device, given(set), [&](const Target&) {
    const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
    return first_bits(cpus > 0 ? static_cast<unsigned>(cpus) : 1, words, set);
  });
}

// Runs `use` on two GPUs.
Return on_two(Device one, Device other, bool arguments,
              const std::function<Return(int, int)>& use) {
  int second = -1;
  const Return found = on_gpu(other, arguments, [&](const Target& target) {
    second = target.index;
    return Return::success;
  });
  if (found != Return::success) return found;
  return on_gpu(one, arguments, [&](const Target& target) { return use(target.index, second); });
}

}  // namespace

extern "C" {

Return nvmlDeviceGetName(Device device, char* text, unsigned length) {
  return on_any_device(device, given(text), [&](const Target& target) {
    std::string name = product_name(target.gpu);
    if (target.compute != nullptr) name += " MIG " + mig_name(target);
    return put(name, text, length);
  });
}

Return nvmlDeviceGetUUID(Device device, char* text, unsigned length) {
  return on_any_device(device, given(text), [&](const Target& target) {
    return put(target.compute ? target.compute->uuid : target.gpu.uuid, text, length);
  });
}

Return nvmlDeviceGetSerial(Device device, char* text, unsigned length) {
  return on_any_device(device, given(text),
                       [&](const Target& target) { return put(target.gpu.serial, text, length); });
}

Return nvmlDeviceGetBoardPartNumber(Device device, char* text, unsigned length) {
  return text_of_gpu(device, text, length, "900-00000-0000-000");
}
Return nvmlDeviceGetVbiosVersion(Device device, char* text, unsigned length) {
  return text_of_gpu(device, text, length, "00.00.00.00.00");
}
Return nvmlDeviceGetInforomImageVersion(Device device, char* text, unsigned length) {
  return text_of_gpu(device, text, length, "0000.0000.00.00");
}
Return nvmlDeviceGetInforomVersion(Device device, unsigned, char* text, unsigned length) {
  return text_of_gpu(device, text, length, "0.0");
}

Return nvmlDeviceGetIndex(Device device, unsigned* index) {
  return on_any_device(device, given(index), [&](const Target& target) {
    if (target.compute == nullptr) return answer(index, target.index);
    unsigned before = 0;
    for (const SimInstance& instance : target.gpu.instances)
      for (const SimComputeInstance& compute : instance.compute) {
        if (&compute == target.compute) return answer(index, before);
        ++before;
      }
    return Return::unknown;
  });
}

Return nvmlDeviceGetMinorNumber(Device device, unsigned* minor) {
  return on_board(device, given(minor),
                  [&](const Target& target) { return answer(minor, target.index); });
}
Return nvmlDeviceGetBoardId(Device device, unsigned* id) {
  return on_gpu(device, given(id),
                [&](const Target& target) { return answer(id, (target.index + 1) << 8); });
}
Return nvmlDeviceGetMultiGpuBoard(Device device, unsigned* several) {
  return number_of_gpu(device, several, 0);
}
Return nvmlDeviceGetBrand(Device device, unsigned* brand) {
  return number_of_gpu(device, brand, kBrandNvidia);
}
Return nvmlDeviceGetBusType(Device device, unsigned* type) {
  return number_of_gpu(device, type, kBusPcie);
}
Return nvmlDeviceGetVirtualizationMode(Device device, unsigned* mode) {
  return number_of_gpu(device, mode, 0);
}

Return nvmlDeviceGetArchitecture(Device device, unsigned* architecture) {
  return on_device(device, given(architecture), [&](const Target& target) {
    return answer(architecture, figures_of(*target.gpu.model).architecture);
  });
}

Return nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  return on_device(device, given(major, minor), [&](const Target& target) {
    const Figures& figures = figures_of(*target.gpu.model);
    *major = figures.major;
    return answer(minor, figures.minor);
  });
}

Return nvmlDeviceGetNumGpuCores(Device device, unsigned* cores) {
  return on_gpu(device, given(cores), [&](const Target& target) {
    const hw::GpuModel& model = *target.gpu.model;
    return answer(cores, multiprocessors(model) * figures_of(model).cores_per_sm);
  });
}

Return nvmlDeviceGetMemoryBusWidth(Device device, unsigned* bits) {
  return on_gpu(device, given(bits), [&](const Target& target) {
    return answer(bits, figures_of(*target.gpu.model).bus_bits);
  });
}

Return nvmlDeviceGetPciInfo(Device device, abi::PciInfo* pci) {
  return pci_info(device, pci, offsetof(abi::PciInfo, subsystem_id));
}
Return nvmlDeviceGetPciInfo_v2(Device device, abi::PciInfo* pci) {
  return pci_info(device, pci, offsetof(abi::PciInfo, bus_id));
}
Return nvmlDeviceGetPciInfo_v3(Device device, abi::PciInfo* pci) {
  return pci_info(device, pci, sizeof *pci);
}

Return nvmlDeviceGetPciInfoExt(Device device, abi::PciInfoExt* out) {
  constexpr unsigned kDisplayController = 3, kThreeD = 2;  // class of boards without a display
  return on_any_device(device, given(out), [&](const Target& target) {
    if (out->version != abi::version_word<abi::PciInfoExt>(1))
      return Return::argument_version_mismatch;
    abi::PciInfo pci{};
    write_pci(target.gpu, pci);
    *out = {.version = out->version,
            .domain = pci.domain,
            .bus = pci.bus,
            .device = pci.device,
            .device_id = pci.device_id,
            .subsystem_id = pci.subsystem_id,
            .base_class = kDisplayController,
            .sub_class = kThreeD,
            .bus_id = {}};
    return put(pci.bus_id, out->bus_id, sizeof out->bus_id);
  });
}

Return nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned* out) {
  return generation(device, out);
}
Return nvmlDeviceGetMaxPcieLinkGeneration(Device device, unsigned* out) {
  return generation(device, out);
}
Return nvmlDeviceGetGpuMaxPcieLinkGeneration(Device device, unsigned* out) {
  return generation(device, out);
}
Return nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned* width) {
  return number_of_gpu(device, width, kPcieWidth);
}
Return nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned* width) {
  return number_of_gpu(device, width, kPcieWidth);
}
Return nvmlDeviceGetPcieLinkMaxSpeed(Device device, unsigned* speed) {
  return generation(device, speed);  // NVML's numbers of speeds are those of the generations
}
Return nvmlDeviceGetIrqNum(Device device, unsigned* irq) { return number_of_gpu(device, irq, 0); }
Return nvmlDeviceGetPowerSource(Device device, unsigned* source) {
  return number_of_gpu(device, source, 0);
}
Return nvmlDeviceGetPcieThroughput(Device device, unsigned, unsigned* kilobytes_per_second) {
  return number_of_gpu(device, kilobytes_per_second, 0);
}
Return nvmlDeviceGetPcieReplayCounter(Device device, unsigned* replays) {
  return number_of_gpu(device, replays, 0);
}

Return nvmlDeviceGetCpuAffinity(Device device, unsigned words, unsigned long* set) {
  return cpu_affinity(device, words, set);
}
Return nvmlDeviceGetCpuAffinityWithinScope(Device device, unsigned words, unsigned long* set,
                                           unsigned) {
  return cpu_affinity(device, words, set);
}
Return nvmlDeviceGetMemoryAffinity(Device device, unsigned words, unsigned long* set, unsigned) {
  return on_gpu(device, given(set), [&](const Target&) { return first_bits(1, words, set); });
}

Return nvmlDeviceGetTopologyCommonAncestor(Device one, Device other, unsigned* level) {
  return on_two(one, other, given(level), [&](int a, int b) {
    return answer(level, a == b ? kTopologyInternal : kTopologyNode);
  });
}

Return nvmlDeviceGetTopologyNearestGpus(Device device, unsigned level, unsigned* count,
                                        Device* devices) {
  return on_gpu(device, given(count), [&](const Target& target) {
    if (level > kTopologySystem) return Return::invalid_argument;
    std::vector<Device> near;  // every other GPU is kTopologyNode away
    for (int i = 0; level == kTopologyNode && target.machine.find(i) != nullptr; ++i)
      if (i != target.index) near.push_back(device_handle(i));
    return put_near(near, count, devices);
  });
}

Return nvmlDeviceOnSameBoard(Device one, Device other, int* same) {
  return on_two(one, other, given(same), [&](int a, int b) { return answer(same, a == b); });
}

Return nvmlDeviceGetP2PStatus(Device one, Device other, unsigned, unsigned* status) {
  return on_two(one, other, given(status),
                [&](int, int) { return answer(status, kPeerNotSupported); });
}

// One link a GPU, to the switch that it shares with others.
Return nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned* active) {
  return on_gpu(device, given(active), [&](const Target& target) {
    if (target.gpu.nvlink.empty()) return Return::not_supported;
    if (link > 0) return Return::invalid_argument;
    return answer(active, target.gpu.links_are_up() ? 1U : 0U);
  });
}
Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, abi::PciInfo* pci) {
  return on_gpu(device, given(pci), [&](const Target& target) {
    if (target.gpu.nvlink.empty()) return Return::not_supported;
    if (link > 0 || !target.gpu.links_are_up()) return Return::invalid_argument;
    std::snprintf(pci->bus_id, sizeof pci->bus_id, "%s", target.gpu.nvlink.c_str());
    return Return::success;
  });
}

}  // extern "C"

}  // namespace partita::nvml_sim
