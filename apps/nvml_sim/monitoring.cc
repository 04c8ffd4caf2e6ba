// What monitors ask besides figures: encoders, captures, accounting, spare rows, firmware; and the
// settings that monitors make sure of. Nothing runs on the machine, so sessions are none, errors 0.
#include <algorithm>

#include "drivers/sim/figures.h"
#include "library.h"

namespace partita::nvml_sim {
namespace {

constexpr unsigned kClockKinds = 4, kMemoryKind = 2;
constexpr unsigned kUnknownState = 32;
constexpr std::size_t kMostStates = 16;
constexpr unsigned kAccountedProcesses = 4000;
constexpr unsigned kBanksWithAllSpareRows = 640;
constexpr unsigned kMegabitsOfThirdGeneration = 8000;

// A list that is empty.
Return no_sessions(Device device, unsigned* count) {
  return on_gpu(device, given(count), [&](const Target&) { return answer(count, 0); });
}

// The machine keeps no settings but MIG mode: what is so already is granted, else not_supported.
Return keep(Device device, unsigned wanted, unsigned most, unsigned present) {
  return on_gpu(device, wanted <= most, [&](const Target&) {
    return wanted == present ? Return::success : Return::not_supported;
  });
}

}  // namespace

extern "C" {

Return nvmlDeviceGetSupportedPerformanceStates(Device device, unsigned* states, unsigned bytes) {
  return on_gpu(device, given(states), [&](const Target&) {
    const std::size_t room = std::min(bytes / sizeof *states, kMostStates);
    if (room == 0) return Return::insufficient_size;
    std::fill_n(states, room, kUnknownState);
    return answer(states, 0);
  });
}

Return nvmlDeviceGetMinMaxClockOfPState(Device device, unsigned clock, unsigned state,
                                        unsigned* low, unsigned* high) {
  const bool arguments = clock < kClockKinds && state == 0 && (given(low) || given(high));
  return on_gpu(device, arguments, [&](const Target& target) {
    const Figures& figures = figures_of(*target.gpu.model);
    const bool memory = clock == kMemoryKind;
    if (given(low)) *low = memory ? figures.memory : figures.sm_idle;
    if (given(high)) *high = memory ? figures.memory : figures.sm_max;
    return Return::success;
  });
}

Return nvmlDeviceGetPcieSpeed(Device device, unsigned* megabits_per_second) {
  return on_gpu(device, given(megabits_per_second), [&](const Target& target) {
    const unsigned generation = figures_of(*target.gpu.model).pcie;  // the third or later
    return answer(megabits_per_second, kMegabitsOfThirdGeneration << (generation - 3));
  });
}

Return nvmlDeviceGetEncoderStats(Device device, unsigned* sessions, unsigned* fps,
                                 unsigned* latency_us) {
  return on_gpu(device, given(sessions, fps, latency_us), [&](const Target&) {
    *sessions = *fps = *latency_us = 0;
    return Return::success;
  });
}
Return nvmlDeviceGetEncoderSessions(Device device, unsigned* count, void*) {
  return no_sessions(device, count);
}
Return nvmlDeviceGetFBCStats(Device device, abi::CaptureStats* stats) {
  return on_gpu(device, given(stats),
                [&](const Target&) { return answer(stats, abi::CaptureStats{}); });
}
Return nvmlDeviceGetFBCSessions(Device device, unsigned* count, void*) {
  return no_sessions(device, count);
}

Return nvmlDeviceGetAccountingBufferSize(Device device, unsigned* processes) {
  return on_gpu(device, given(processes),
                [&](const Target&) { return answer(processes, kAccountedProcesses); });
}
Return nvmlDeviceGetAccountingPids(Device device, unsigned* count, unsigned*) {
  return no_sessions(device, count);
}
Return nvmlDeviceGetAccountingStats(Device device, unsigned, void* stats) {
  return on_gpu(device, given(stats), [](const Target&) { return Return::not_found; });
}

Return nvmlDeviceGetDetailedEccErrors(Device device, unsigned, unsigned, abi::EccErrors* errors) {
  return on_gpu(device, given(errors),
                [&](const Target&) { return answer(errors, abi::EccErrors{}); });
}
Return nvmlDeviceGetRowRemapperHistogram(Device device, abi::RowRemapperHistogram* banks) {
  return on_gpu(device, given(banks), [&](const Target&) {
    *banks = {kBanksWithAllSpareRows, 0, 0, 0, 0};
    return Return::success;
  });
}
Return nvmlDeviceGetRetiredPages_v2(Device device, unsigned cause, unsigned* count,
                                    unsigned long long* addresses, unsigned long long*) {
  return nvmlDeviceGetRetiredPages(device, cause, count, addresses);
}

Return nvmlDeviceGetGspFirmwareVersion(Device device, char* text) {
  return on_gpu(device, given(text),
                [&](const Target&) { return put(kDriverVersion, text, abi::kVersionSize); });
}
Return nvmlDeviceGetGspFirmwareMode(Device device, unsigned* on, unsigned* by_default) {
  return on_gpu(device, given(on, by_default), [&](const Target&) {
    *on = 1;
    return answer(by_default, 1);
  });
}
Return nvmlDeviceValidateInforom(Device device) {
  return on_gpu(device, true, [](const Target&) { return Return::success; });
}

Return nvmlDeviceSetPersistenceMode(Device device, unsigned on) { return keep(device, on, 1, 1); }
Return nvmlDeviceSetComputeMode(Device device, unsigned mode) { return keep(device, mode, 3, 0); }
Return nvmlDeviceSetAccountingMode(Device device, unsigned on) { return keep(device, on, 1, 0); }
Return nvmlDeviceSetEccMode(Device device, unsigned on) { return keep(device, on, 1, 1); }

}  // extern "C"

}  // namespace partita::nvml_sim
