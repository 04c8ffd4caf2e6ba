// The C interface of NVML (libnvidia-ml.so.1) as far as Partita calls or simulates it: our own
// declarations of a published binary interface. Names (nvml_functions.h), layouts and numbers are
// NVML's; every layout is asserted. Used by nvml_driver, which looks the symbols up at run time,
// and by apps/nvml_sim, which defines them. Handles are opaque. Plain data, no ownership.
#pragma once

#include <cstddef>

namespace partita::drivers::nvml_mig::abi {

enum class Return : unsigned int {
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  no_permission = 4,
  already_initialized = 5,
  not_found = 6,
  insufficient_size = 7,
  insufficient_power = 8,
  driver_not_loaded = 9,
  timeout = 10,
  irq_issue = 11,
  library_not_found = 12,
  function_not_found = 13,
  corrupted_inforom = 14,
  gpu_is_lost = 15,
  reset_required = 16,
  operating_system = 17,
  lib_rm_version_mismatch = 18,
  in_use = 19,
  memory = 20,
  no_data = 21,
  vgpu_ecc_not_supported = 22,
  insufficient_resources = 23,
  freq_not_supported = 24,
  argument_version_mismatch = 25,
  deprecated = 26,
  not_ready = 27,
  gpu_not_found = 28,
  invalid_state = 29,
  unknown = 999,
};

struct DeviceTag;
struct GpuInstanceTag;
struct ComputeInstanceTag;
struct EventSetTag;
using Device = DeviceTag*;  // a GPU or a MIG device
using GpuInstance = GpuInstanceTag*;
using ComputeInstance = ComputeInstanceTag*;
using EventSet = EventSetTag*;

inline constexpr unsigned kNameSize = 96;  // buffers that always suffice
inline constexpr unsigned kUuidSize = 96;
inline constexpr unsigned kVersionSize = 80;
inline constexpr unsigned kBusIdSize = 32;
inline constexpr unsigned kLegacyBusIdSize = 16;
inline constexpr unsigned kGpuInstanceProfiles = 18;     // enum values known today
inline constexpr unsigned kComputeInstanceProfiles = 9;  // likewise
inline constexpr unsigned kNoInstance = 0xFFFFFFFF;
inline constexpr unsigned kInitNoGpus = 1;  // flag of nvmlInitWithFlags: zero GPUs are no error

// The version word of a struct that opens with one.
template <class Struct>
constexpr unsigned version_word(unsigned version) {
  return static_cast<unsigned>(sizeof(Struct)) | version << 24;
}

// Of nvmlDeviceGetPciInfo, in three lengths: v1 ends before subsystem_id, v2 after it (with unused
// words behind), v3 is all of it.
struct PciInfo {
  char bus_id_legacy[kLegacyBusIdSize];
  unsigned domain, bus, device;
  unsigned device_id;  // device << 16 | vendor
  unsigned subsystem_id;
  char bus_id[kBusIdSize];
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, domain) == 16 &&
              offsetof(PciInfo, device_id) == 28 && offsetof(PciInfo, subsystem_id) == 32 &&
              offsetof(PciInfo, bus_id) == 36);

struct PciInfoExt {
  unsigned version;
  unsigned domain, bus, device, device_id, subsystem_id, base_class, sub_class;
  char bus_id[kBusIdSize];
};
static_assert(sizeof(PciInfoExt) == 64 && offsetof(PciInfoExt, bus_id) == 32 &&
              version_word<PciInfoExt>(1) == 0x1000040);

struct Memory {  // bytes
  unsigned long long total, free, used;
};
static_assert(sizeof(Memory) == 24 && offsetof(Memory, used) == 16);

struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
static_assert(sizeof(MemoryV2) == 40 && offsetof(MemoryV2, total) == 8 &&
              offsetof(MemoryV2, used) == 32 && version_word<MemoryV2>(2) == 0x2000028);

struct Bar1Memory {
  unsigned long long total, free, used;
};
static_assert(sizeof(Bar1Memory) == 24 && offsetof(Bar1Memory, used) == 16);

struct Utilization {  // percent
  unsigned gpu, memory;
};
static_assert(sizeof(Utilization) == 8 && offsetof(Utilization, memory) == 4);

struct Temperature {
  unsigned version, sensor;
  int celsius;
};
static_assert(sizeof(Temperature) == 12 && version_word<Temperature>(1) == 0x100000C);

struct CaptureStats {  // of the frame buffer
  unsigned sessions, fps, latency_us;
};
static_assert(sizeof(CaptureStats) == 12);

struct EccErrors {
  unsigned long long l1_cache, l2_cache, memory, registers;
};
static_assert(sizeof(EccErrors) == 32 && offsetof(EccErrors, memory) == 16);

struct RowRemapperHistogram {  // memory banks by how many of their spare rows are left
  unsigned all, many, some, few, none;
};
static_assert(sizeof(RowRemapperHistogram) == 20);

struct GpmSupport {
  unsigned version, supported;
};
static_assert(sizeof(GpmSupport) == 8);

// Of performance monitoring. A sample is opaque; the list of metrics is as long as `count` says,
// whatever a version of NVML has room for.
struct GpmSampleTag;
using GpmSample = GpmSampleTag*;
struct GpmMetric {
  unsigned metric;
  Return result;
  double value;  // per cent, of those below
  const char *short_name, *long_name, *unit;
};
static_assert(sizeof(GpmMetric) == 40 && offsetof(GpmMetric, result) == 4 &&
              offsetof(GpmMetric, value) == 8 && offsetof(GpmMetric, short_name) == 16);
struct GpmMetricsHead {
  unsigned version, count;
  GpmSample first, second;
};
static_assert(sizeof(GpmMetricsHead) == 24 && offsetof(GpmMetricsHead, first) == 8 &&
              offsetof(GpmMetricsHead, second) == 16);
inline constexpr unsigned kGpmVersion = 1;  // of metrics and of GpmSupport
inline constexpr unsigned kGpmMostMetrics = 16;
struct GpmMetrics : GpmMetricsHead {
  GpmMetric metrics[kGpmMostMetrics];
};
enum class GpmMetricId : unsigned {
  graphics = 1,
  sm = 2,
  occupancy = 3,
  integer = 4,
  any_tensor = 5,
  dram = 10,
  fp64 = 11,
  fp32 = 12,
  fp16 = 13,
};

// Fields of nvmlDeviceGetFieldValues, and types of their values.
inline constexpr unsigned kFieldMemoryTemperature = 82;  // degrees Celsius
inline constexpr unsigned kFieldEnergy = 83;             // millijoules
inline constexpr unsigned kFieldPowerAverage = 185;      // milliwatts, of the last second
inline constexpr unsigned kFieldPowerInstant = 186;
enum class ValueType : unsigned {
  real = 0,
  word = 1,
  wide = 2,
  huge = 3,
  signed_huge = 4,
  signed_word = 5
};
inline constexpr unsigned kFieldRecoveryAction = 230;  // since driver R565
inline constexpr unsigned kClockSm = 1, kClockMemory = 2;

// What nvmlDeviceRegisterEvents is asked for: bits. And which of the counters of memory errors.
inline constexpr unsigned long long kEventDoubleBitEcc = 0x2, kEventXid = 0x8;
inline constexpr unsigned kUncorrectedErrors = 1, kSinceReset = 0;
inline constexpr unsigned long long kNotAvailable = ~0ULL;  // of a process's memory

// Reasons to be slow: bits.
inline constexpr unsigned long long kReasonIdle = 0x1, kReasonApplication = 0x2,
                                    kReasonPowerCap = 0x4, kReasonHardware = 0x8,
                                    kReasonSyncBoost = 0x10, kReasonSoftwareHeat = 0x20,
                                    kReasonHardwareHeat = 0x40, kReasonPowerBrake = 0x80,
                                    kReasonDisplay = 0x100;

struct ProcessInfoV1 {
  unsigned pid;
  unsigned long long used_memory;
};
static_assert(sizeof(ProcessInfoV1) == 16 && offsetof(ProcessInfoV1, used_memory) == 8);

struct ProcessInfo {  // v2 and v3
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance_id, compute_instance_id;
};
static_assert(sizeof(ProcessInfo) == 24 && offsetof(ProcessInfo, used_memory) == 8 &&
              offsetof(ProcessInfo, gpu_instance_id) == 16 &&
              offsetof(ProcessInfo, compute_instance_id) == 20);

struct ProcessSample {
  unsigned pid;
  unsigned long long time_us;
  unsigned sm, memory, encoder, decoder;
};
static_assert(sizeof(ProcessSample) == 32 && offsetof(ProcessSample, sm) == 16);

struct DeviceAttributes {
  unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, optical_flows;
  unsigned gpu_instance_slices, compute_instance_slices;
  unsigned long long memory_mib;
};
static_assert(sizeof(DeviceAttributes) == 40 &&
              offsetof(DeviceAttributes, gpu_instance_slices) == 24 &&
              offsetof(DeviceAttributes, memory_mib) == 32);

struct ViolationTime {
  unsigned long long reference_us, violation_ns;
};
static_assert(sizeof(ViolationTime) == 16 && offsetof(ViolationTime, violation_ns) == 8);

union Value {
  double real;
  int signed_word;
  unsigned word;
  unsigned long wide;
  unsigned long long huge;
  long long signed_huge;
};
struct FieldValue {
  unsigned field, scope;
  long long time_us, latency_us;
  unsigned value_type;
  Return result;
  Value value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, time_us) == 8 &&
              offsetof(FieldValue, value_type) == 24 && offsetof(FieldValue, result) == 28 &&
              offsetof(FieldValue, value) == 32);

struct EventDataV1 {
  Device device;
  unsigned long long type, data;
};
struct EventData {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance_id, compute_instance_id;
};
static_assert(sizeof(EventDataV1) == 24 && sizeof(EventData) == 32 &&
              offsetof(EventData, gpu_instance_id) == 24);

// A place: memory slices for a GPU instance, compute slices for a compute instance.
struct Place {
  unsigned start, size;
};
static_assert(sizeof(Place) == 8 && offsetof(Place, size) == 4);

struct GpuInstanceProfile {
  unsigned id, peer_to_peer, slices, max_instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, optical_flows;
  unsigned long long memory_mib;
};
static_assert(sizeof(GpuInstanceProfile) == 48 &&
              offsetof(GpuInstanceProfile, multiprocessors) == 16 &&
              offsetof(GpuInstanceProfile, memory_mib) == 40);

struct GpuInstanceProfileV2 {
  unsigned version;
  unsigned id, peer_to_peer, slices, max_instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, optical_flows;
  unsigned long long memory_mib;
  char name[kNameSize];
};
static_assert(sizeof(GpuInstanceProfileV2) == 152 &&
              offsetof(GpuInstanceProfileV2, memory_mib) == 48 &&
              offsetof(GpuInstanceProfileV2, name) == 56 &&
              version_word<GpuInstanceProfileV2>(2) == 0x2000098);

struct GpuInstanceProfileV3 {  // without peer_to_peer, which became a bit of capabilities
  unsigned version;
  unsigned id, slices, max_instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, optical_flows;
  unsigned long long memory_mib;
  char name[kNameSize];
  unsigned capabilities;
};
static_assert(sizeof(GpuInstanceProfileV3) == 152 &&
              offsetof(GpuInstanceProfileV3, memory_mib) == 40 &&
              offsetof(GpuInstanceProfileV3, name) == 48 &&
              offsetof(GpuInstanceProfileV3, capabilities) == 144 &&
              version_word<GpuInstanceProfileV3>(3) == 0x3000098);

struct GpuInstanceInfo {
  Device device;
  unsigned id, profile_id;
  Place place;
};
static_assert(sizeof(GpuInstanceInfo) == 24 && offsetof(GpuInstanceInfo, profile_id) == 12 &&
              offsetof(GpuInstanceInfo, place) == 16);

struct ComputeInstanceProfile {
  unsigned id, slices, max_instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, optical_flows;  // shared in the GPU instance
};
static_assert(sizeof(ComputeInstanceProfile) == 36 &&
              offsetof(ComputeInstanceProfile, optical_flows) == 32);

struct ComputeInstanceProfileV2 {
  unsigned version;
  unsigned id, slices, max_instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, optical_flows;
  char name[kNameSize];
};
static_assert(sizeof(ComputeInstanceProfileV2) == 136 &&
              offsetof(ComputeInstanceProfileV2, name) == 40 &&
              version_word<ComputeInstanceProfileV2>(2) == 0x2000088);

struct ComputeInstanceProfileV3 {
  unsigned version;
  unsigned id, slices, max_instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, optical_flows;
  char name[kNameSize];
  unsigned capabilities;
};
static_assert(sizeof(ComputeInstanceProfileV3) == 140 &&
              offsetof(ComputeInstanceProfileV3, capabilities) == 136 &&
              version_word<ComputeInstanceProfileV3>(3) == 0x300008C);

struct ComputeInstanceInfo {  // v1 ends before place
  Device device;
  GpuInstance gpu_instance;
  unsigned id, profile_id;
  Place place;
};
static_assert(sizeof(ComputeInstanceInfo) == 32 && offsetof(ComputeInstanceInfo, id) == 16 &&
              offsetof(ComputeInstanceInfo, place) == 24);

}  // namespace partita::drivers::nvml_mig::abi
