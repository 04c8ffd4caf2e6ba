// The functions of NVML that Partita calls or simulates. Text lengths are bytes, powers milliwatts,
// energies millijoules, clocks MHz, temperatures degrees Celsius. A count that goes in and out: the
// room in, the number out (insufficient_size with the number when the room is too small). The
// driver never links these names; it takes their types for dlsym.
#pragma once

#include "drivers/nvml_mig/nvml_abi.h"

namespace partita::drivers::nvml_mig::abi {

// NOLINTBEGIN(readability-identifier-naming): the names are NVML's.
extern "C" {
// The library and the system.
Return nvmlInit();
Return nvmlInit_v2();
Return nvmlInitWithFlags(unsigned flags);
Return nvmlShutdown();
const char* nvmlErrorString(Return);
Return nvmlSystemGetDriverVersion(char* text, unsigned length);
Return nvmlSystemGetNVMLVersion(char* text, unsigned length);
Return nvmlSystemGetCudaDriverVersion(int*);  // 1000 * major + 10 * minor
Return nvmlSystemGetCudaDriverVersion_v2(int*);
Return nvmlSystemGetProcessName(unsigned pid, char* text, unsigned length);
Return nvmlSystemGetTopologyGpuSet(unsigned cpu, unsigned* count, Device*);
Return nvmlSystemGetHicVersion(unsigned* count, void* entries);
Return nvmlUnitGetCount(unsigned*);
Return nvmlGetExcludedDeviceCount(unsigned*);
Return nvmlGetExcludedDeviceInfoByIndex(unsigned index, void* info);
Return nvmlGetBlacklistDeviceCount(unsigned*);  // as they were called before
Return nvmlGetBlacklistDeviceInfoByIndex(unsigned index, void* info);
Return nvmlUnitGetHandleByIndex(unsigned index, void** unit);

// Finding GPUs.
Return nvmlDeviceGetCount(unsigned*);
Return nvmlDeviceGetCount_v2(unsigned*);
Return nvmlDeviceGetHandleByIndex(unsigned index, Device*);
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device*);
Return nvmlDeviceGetHandleByUUID(const char*, Device*);
Return nvmlDeviceGetHandleBySerial(const char*, Device*);
Return nvmlDeviceGetHandleByPciBusId(const char*, Device*);
Return nvmlDeviceGetHandleByPciBusId_v2(const char*, Device*);

// What a GPU is.
Return nvmlDeviceGetName(Device, char* text, unsigned length);
Return nvmlDeviceGetUUID(Device, char* text, unsigned length);
Return nvmlDeviceGetSerial(Device, char* text, unsigned length);
Return nvmlDeviceGetBoardPartNumber(Device, char* text, unsigned length);
Return nvmlDeviceGetVbiosVersion(Device, char* text, unsigned length);
Return nvmlDeviceGetInforomImageVersion(Device, char* text, unsigned length);
Return nvmlDeviceGetInforomVersion(Device, unsigned object, char* text, unsigned length);
Return nvmlDeviceGetIndex(Device, unsigned*);
Return nvmlDeviceGetMinorNumber(Device, unsigned*);
Return nvmlDeviceGetBoardId(Device, unsigned*);
Return nvmlDeviceGetMultiGpuBoard(Device, unsigned*);
Return nvmlDeviceGetBrand(Device, unsigned*);
Return nvmlDeviceGetArchitecture(Device, unsigned*);
Return nvmlDeviceGetBusType(Device, unsigned*);
Return nvmlDeviceGetVirtualizationMode(Device, unsigned*);
Return nvmlDeviceGetCudaComputeCapability(Device, int* major, int* minor);
Return nvmlDeviceGetNumGpuCores(Device, unsigned*);
Return nvmlDeviceGetMemoryBusWidth(Device, unsigned*);
Return nvmlDeviceGetPciInfo(Device, PciInfo*);
Return nvmlDeviceGetPciInfo_v2(Device, PciInfo*);
Return nvmlDeviceGetPciInfo_v3(Device, PciInfo*);
Return nvmlDeviceGetPciInfoExt(Device, PciInfoExt*);
Return nvmlDeviceGetCurrPcieLinkGeneration(Device, unsigned*);
Return nvmlDeviceGetMaxPcieLinkGeneration(Device, unsigned*);
Return nvmlDeviceGetGpuMaxPcieLinkGeneration(Device, unsigned*);
Return nvmlDeviceGetCurrPcieLinkWidth(Device, unsigned*);
Return nvmlDeviceGetMaxPcieLinkWidth(Device, unsigned*);
Return nvmlDeviceGetPcieLinkMaxSpeed(Device, unsigned*);
Return nvmlDeviceGetIrqNum(Device, unsigned*);
Return nvmlDeviceGetPowerSource(Device, unsigned*);
Return nvmlDeviceGetPcieThroughput(Device, unsigned counter, unsigned*);
Return nvmlDeviceGetPcieReplayCounter(Device, unsigned*);
Return nvmlDeviceGetCpuAffinity(Device, unsigned words, unsigned long*);
Return nvmlDeviceGetCpuAffinityWithinScope(Device, unsigned words, unsigned long*, unsigned scope);
Return nvmlDeviceGetMemoryAffinity(Device, unsigned words, unsigned long*, unsigned scope);
Return nvmlDeviceGetTopologyCommonAncestor(Device, Device, unsigned* level);
Return nvmlDeviceGetTopologyNearestGpus(Device, unsigned level, unsigned* count, Device*);
Return nvmlDeviceOnSameBoard(Device, Device, int*);
Return nvmlDeviceGetP2PStatus(Device, Device, unsigned index, unsigned* status);
Return nvmlDeviceGetNvLinkState(Device, unsigned link, unsigned* active);
Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device, unsigned link, PciInfo*);

// What a GPU does.
Return nvmlDeviceGetMemoryInfo(Device, Memory*);
Return nvmlDeviceGetMemoryInfo_v2(Device, MemoryV2*);
Return nvmlDeviceGetBAR1MemoryInfo(Device, Bar1Memory*);
Return nvmlDeviceGetUtilizationRates(Device, Utilization*);
Return nvmlDeviceGetEncoderUtilization(Device, unsigned* percent, unsigned* period_us);
Return nvmlDeviceGetDecoderUtilization(Device, unsigned* percent, unsigned* period_us);
Return nvmlDeviceGetProcessUtilization(Device, ProcessSample*, unsigned* count,
                                       unsigned long long since_us);
Return nvmlDeviceGetTemperature(Device, unsigned sensor, unsigned*);
Return nvmlDeviceGetTemperatureV(Device, Temperature*);
Return nvmlDeviceGetTemperatureThreshold(Device, unsigned threshold, unsigned*);
Return nvmlDeviceGetFanSpeed(Device, unsigned*);
Return nvmlDeviceGetFanSpeed_v2(Device, unsigned fan, unsigned*);
Return nvmlDeviceGetNumFans(Device, unsigned*);
Return nvmlDeviceGetClockInfo(Device, unsigned clock, unsigned*);
Return nvmlDeviceGetMaxClockInfo(Device, unsigned clock, unsigned*);
Return nvmlDeviceGetApplicationsClock(Device, unsigned clock, unsigned*);
Return nvmlDeviceGetDefaultApplicationsClock(Device, unsigned clock, unsigned*);
Return nvmlDeviceGetMaxCustomerBoostClock(Device, unsigned clock, unsigned*);
Return nvmlDeviceGetClock(Device, unsigned clock, unsigned which, unsigned*);
Return nvmlDeviceGetSupportedMemoryClocks(Device, unsigned* count, unsigned*);
Return nvmlDeviceGetSupportedGraphicsClocks(Device, unsigned memory, unsigned* count, unsigned*);
Return nvmlDeviceGetCurrentClocksThrottleReasons(Device, unsigned long long*);
Return nvmlDeviceGetCurrentClocksEventReasons(Device, unsigned long long*);
Return nvmlDeviceGetSupportedClocksThrottleReasons(Device, unsigned long long*);
Return nvmlDeviceGetSupportedClocksEventReasons(Device, unsigned long long*);
Return nvmlDeviceGetPowerUsage(Device, unsigned*);
Return nvmlDeviceGetPowerManagementMode(Device, unsigned*);
Return nvmlDeviceGetPowerManagementLimit(Device, unsigned*);
Return nvmlDeviceGetPowerManagementLimitConstraints(Device, unsigned* low, unsigned* high);
Return nvmlDeviceGetPowerManagementDefaultLimit(Device, unsigned*);
Return nvmlDeviceGetEnforcedPowerLimit(Device, unsigned*);
Return nvmlDeviceGetTotalEnergyConsumption(Device, unsigned long long*);
Return nvmlDeviceGetPerformanceState(Device, unsigned*);
Return nvmlDeviceGetPowerState(Device, unsigned*);
Return nvmlDeviceGetPersistenceMode(Device, unsigned*);
Return nvmlDeviceGetComputeMode(Device, unsigned*);
Return nvmlDeviceGetDisplayMode(Device, unsigned*);
Return nvmlDeviceGetDisplayActive(Device, unsigned*);
Return nvmlDeviceGetAccountingMode(Device, unsigned*);
Return nvmlDeviceGetEccMode(Device, unsigned* current, unsigned* pending);
Return nvmlDeviceGetDefaultEccMode(Device, unsigned*);
Return nvmlDeviceGetTotalEccErrors(Device, unsigned kind, unsigned counter, unsigned long long*);
Return nvmlDeviceGetMemoryErrorCounter(Device, unsigned kind, unsigned counter, unsigned place,
                                       unsigned long long*);
Return nvmlDeviceGetRetiredPages(Device, unsigned cause, unsigned* count, unsigned long long*);
Return nvmlDeviceGetRetiredPagesPendingStatus(Device, unsigned*);
Return nvmlDeviceGetRemappedRows(Device, unsigned* corrected, unsigned* uncorrected,
                                 unsigned* pending, unsigned* failed);
Return nvmlDeviceGetViolationStatus(Device, unsigned policy, ViolationTime*);
Return nvmlDeviceGetFieldValues(Device, int count, FieldValue*);

// What monitors ask besides.
Return nvmlDeviceGetSupportedPerformanceStates(Device, unsigned* states, unsigned bytes);
Return nvmlDeviceGetMinMaxClockOfPState(Device, unsigned clock, unsigned state, unsigned* low,
                                        unsigned* high);
Return nvmlDeviceGetPcieSpeed(Device, unsigned* megabits_per_second);
Return nvmlDeviceGetJpgUtilization(Device, unsigned* percent, unsigned* period_us);
Return nvmlDeviceGetOfaUtilization(Device, unsigned* percent, unsigned* period_us);
Return nvmlDeviceGetEncoderStats(Device, unsigned* sessions, unsigned* fps, unsigned* latency_us);
Return nvmlDeviceGetEncoderSessions(Device, unsigned* count, void*);
Return nvmlDeviceGetFBCStats(Device, CaptureStats*);
Return nvmlDeviceGetFBCSessions(Device, unsigned* count, void*);
Return nvmlDeviceGetAccountingBufferSize(Device, unsigned*);
Return nvmlDeviceGetAccountingPids(Device, unsigned* count, unsigned*);
Return nvmlDeviceGetAccountingStats(Device, unsigned pid, void*);
Return nvmlDeviceGetDetailedEccErrors(Device, unsigned kind, unsigned counter, EccErrors*);
Return nvmlDeviceGetRowRemapperHistogram(Device, RowRemapperHistogram*);
Return nvmlDeviceGetRetiredPages_v2(Device, unsigned cause, unsigned* count, unsigned long long*,
                                    unsigned long long* times);
Return nvmlDeviceGetGspFirmwareVersion(Device, char* text);  // room for kVersionSize
Return nvmlDeviceGetGspFirmwareMode(Device, unsigned* on, unsigned* by_default);
Return nvmlDeviceValidateInforom(Device);
Return nvmlGpmQueryDeviceSupport(Device, GpmSupport*);
Return nvmlGpmSampleAlloc(GpmSample*);
Return nvmlGpmSampleFree(GpmSample);
Return nvmlGpmSampleGet(Device, GpmSample);
Return nvmlGpmMigSampleGet(Device, unsigned gi_id, GpmSample);
Return nvmlGpmMetricsGet(GpmMetricsHead*);  // of a GpmMetrics

// Power limits and clocks that stay until somebody else sets them; need root.
Return nvmlDeviceSetPowerManagementLimit(Device, unsigned milliwatts);
Return nvmlDeviceSetGpuLockedClocks(Device, unsigned low, unsigned high);
Return nvmlDeviceResetGpuLockedClocks(Device);

// Settings: what is so already may be set again, nothing else.
Return nvmlDeviceSetPersistenceMode(Device, unsigned on);
Return nvmlDeviceSetComputeMode(Device, unsigned mode);
Return nvmlDeviceSetAccountingMode(Device, unsigned on);
Return nvmlDeviceSetEccMode(Device, unsigned on);

// Who uses it.
Return nvmlDeviceGetComputeRunningProcesses(Device, unsigned* count, ProcessInfoV1*);
Return nvmlDeviceGetComputeRunningProcesses_v2(Device, unsigned* count, ProcessInfo*);
Return nvmlDeviceGetComputeRunningProcesses_v3(Device, unsigned* count, ProcessInfo*);
Return nvmlDeviceGetGraphicsRunningProcesses(Device, unsigned* count, ProcessInfoV1*);
Return nvmlDeviceGetGraphicsRunningProcesses_v2(Device, unsigned* count, ProcessInfo*);
Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device, unsigned* count, ProcessInfo*);
Return nvmlDeviceGetMPSComputeRunningProcesses(Device, unsigned* count, ProcessInfoV1*);
Return nvmlDeviceGetMPSComputeRunningProcesses_v2(Device, unsigned* count, ProcessInfo*);
Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device, unsigned* count, ProcessInfo*);

// Events.
Return nvmlEventSetCreate(EventSet*);
Return nvmlEventSetFree(EventSet);
Return nvmlEventSetWait(EventSet, EventDataV1*, unsigned timeout_ms);
Return nvmlEventSetWait_v2(EventSet, EventData*, unsigned timeout_ms);
Return nvmlDeviceRegisterEvents(Device, unsigned long long types, EventSet);
Return nvmlDeviceGetSupportedEventTypes(Device, unsigned long long*);

// MIG: mode and profiles.
Return nvmlDeviceGetMigMode(Device, unsigned* current, unsigned* pending);
Return nvmlDeviceSetMigMode(Device, unsigned mode, Return* activation);
Return nvmlDeviceGetGpuInstanceProfileInfo(Device, unsigned profile, GpuInstanceProfile*);
Return nvmlDeviceGetGpuInstanceProfileInfoV(Device, unsigned profile, GpuInstanceProfileV2*);
Return nvmlDeviceGetGpuInstanceProfileInfoByIdV(Device, unsigned id, GpuInstanceProfileV2*);
Return nvmlDeviceGetGpuInstancePossiblePlacements(Device, unsigned id, Place*, unsigned* count);
Return nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device, unsigned id, Place*, unsigned* count);
Return nvmlDeviceGetGpuInstanceRemainingCapacity(Device, unsigned id, unsigned* count);

// MIG: GPU instances. Here and below `count` of a listing only goes out.
Return nvmlDeviceCreateGpuInstance(Device, unsigned id, GpuInstance*);
Return nvmlDeviceCreateGpuInstanceWithPlacement(Device, unsigned id, const Place*, GpuInstance*);
Return nvmlGpuInstanceDestroy(GpuInstance);
Return nvmlDeviceGetGpuInstances(Device, unsigned id, GpuInstance*, unsigned* count);
Return nvmlDeviceGetGpuInstanceById(Device, unsigned gi_id, GpuInstance*);
Return nvmlGpuInstanceGetInfo(GpuInstance, GpuInstanceInfo*);

// MIG: compute instances. `engines` is the engine profile; only 0 exists.
Return nvmlGpuInstanceGetComputeInstanceProfileInfo(GpuInstance, unsigned profile, unsigned engines,
                                                    ComputeInstanceProfile*);
Return nvmlGpuInstanceGetComputeInstanceProfileInfoV(GpuInstance, unsigned profile,
                                                     unsigned engines, ComputeInstanceProfileV2*);
Return nvmlGpuInstanceGetComputeInstancePossiblePlacements(GpuInstance, unsigned id, Place*,
                                                           unsigned* count);
Return nvmlGpuInstanceGetComputeInstanceRemainingCapacity(GpuInstance, unsigned id, unsigned*);
Return nvmlGpuInstanceCreateComputeInstance(GpuInstance, unsigned id, ComputeInstance*);
Return nvmlGpuInstanceCreateComputeInstanceWithPlacement(GpuInstance, unsigned id, const Place*,
                                                         ComputeInstance*);
Return nvmlComputeInstanceDestroy(ComputeInstance);
Return nvmlGpuInstanceGetComputeInstances(GpuInstance, unsigned id, ComputeInstance*,
                                          unsigned* count);
Return nvmlGpuInstanceGetComputeInstanceById(GpuInstance, unsigned ci_id, ComputeInstance*);
Return nvmlComputeInstanceGetInfo(ComputeInstance, ComputeInstanceInfo*);
Return nvmlComputeInstanceGetInfo_v2(ComputeInstance, ComputeInstanceInfo*);

// MIG: devices, which are compute instances seen as GPUs.
Return nvmlDeviceIsMigDeviceHandle(Device, unsigned*);
Return nvmlDeviceGetMaxMigDeviceCount(Device, unsigned*);
Return nvmlDeviceGetMigDeviceHandleByIndex(Device, unsigned index, Device*);
Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device, Device*);
Return nvmlDeviceGetGpuInstanceId(Device, unsigned*);
Return nvmlDeviceGetComputeInstanceId(Device, unsigned*);
Return nvmlDeviceGetAttributes(Device, DeviceAttributes*);
Return nvmlDeviceGetAttributes_v2(Device, DeviceAttributes*);
}
// NOLINTEND(readability-identifier-naming)

}  // namespace partita::drivers::nvml_mig::abi
