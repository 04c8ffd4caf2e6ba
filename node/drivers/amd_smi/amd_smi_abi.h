// What we use of the binary interface of AMD SMI (libamd_smi.so.26, ROCm 7), declared anew from the
// published headers of 26.1.0 and 26.5.0, which agree in all that stands here. The major version
// changes when a layout does, so amd_smi_library.h takes 26 alone. Structures are given to the
// library whole; of what we read the beginning only, `rest` is the remainder of their size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace partita::drivers::amd_smi::abi {

inline constexpr std::uint32_t kMajorVersion = 26;
inline constexpr std::uint64_t kInitGpus = 1U << 1;
inline constexpr std::uint32_t kNoNumber = 0xFFFF'FFFF;  // what is not known
inline constexpr unsigned kUuidSize = 38;
inline constexpr std::size_t kTextSize = 256;
inline constexpr std::size_t kMaxFrequencies = 33;

enum class AmdStatus : std::uint32_t {
  success = 0,
  invalid = 1,
  not_supported = 2,
  not_implemented = 3,
  cannot_load = 4,
  no_symbol = 5,
  drm_error = 6,
  timeout = 8,
  no_permission = 10,
  file_error = 14,
  out_of_bounds = 17,
  init_error = 18,
  busy = 30,
  not_found = 31,
  not_initialised = 32,
  driver_not_loaded = 34,
  no_data = 40,
  insufficient_size = 41,
  no_driver = 51,
  setting_unavailable = 55
};

enum class AmdProcessorType : std::uint32_t { unknown = 0, gpu = 1 };
enum class AmdClock : std::uint32_t { graphics = 0, memory = 4 };
enum class AmdClockLimit : std::uint32_t { least = 0, most = 1 };
enum class AmdSensor : std::uint32_t { edge = 0, hotspot = 1, memory = 2 };
enum class AmdTemperature : std::uint32_t { current = 0 };
enum class AmdMemory : std::uint32_t { vram = 0 };
enum class AmdPerformance : std::uint32_t { automatic = 0, manual = 3 };

using AmdSocket = void*;
using AmdProcessor = void*;

struct AmdVersion {
  std::uint32_t major, minor, release;
  const char* build;
};

struct AmdAsicInfo {
  char market_name[kTextSize];
  std::uint32_t vendor;
  char vendor_name[kTextSize];
  std::uint32_t subvendor;
  std::uint64_t device;
  std::uint64_t rest[46];
};

struct AmdDriverInfo {
  char version[kTextSize], date[kTextSize], name[kTextSize];
  std::uint64_t rest[64];  // some releases have it; harmless where not
};

// Watts; unsupported: kNoNumber.
struct AmdPowerInfo {
  std::uint64_t socket;
  std::uint32_t current;  // MI300 and later
  std::uint32_t average;  // MI200 and before, Navi
  std::uint64_t graphics_voltage, soc_voltage, memory_voltage;
  std::uint32_t limit;  // its unit differs between releases: not used
  std::uint32_t board;
  std::uint64_t rest[18];
};

// Microwatts.
struct AmdPowerCap {
  std::uint64_t cap, usual, dpm, least, most;
  std::uint64_t rest[3];
};

// MHz.
struct AmdClockInfo {
  std::uint32_t now, least, most;
  std::uint8_t locked, deep_sleep;
  std::uint32_t rest[4];
};

// Per cent.
struct AmdEngineUsage {
  std::uint32_t graphics, memory, media;
  std::uint32_t rest[13];
};

struct AmdFrequencies {
  bool has_deep_sleep;  // then the first is that of deep sleep
  std::uint32_t count, current;
  std::uint64_t hertz[kMaxFrequencies];
};

// What slows the GPU down: 1 now, 0 not, 255 not known. MI300 and later.
struct AmdViolations {
  std::uint64_t counters[15];
  std::uint8_t processor_hot, power, socket_heat, regulator_heat, memory_heat, below_limit;
  std::uint64_t rest[736];
};

static_assert(sizeof(AmdVersion) == 24);
static_assert(sizeof(AmdAsicInfo) == 896 && offsetof(AmdAsicInfo, device) == 520);
static_assert(sizeof(AmdPowerInfo) == 192);
static_assert(sizeof(AmdPowerCap) == 64);
static_assert(sizeof(AmdClockInfo) == 32);
static_assert(sizeof(AmdEngineUsage) == 64);
static_assert(sizeof(AmdFrequencies) == 280 && offsetof(AmdFrequencies, hertz) == 16);
static_assert(sizeof(AmdViolations) == 6016 && offsetof(AmdViolations, processor_hot) == 120);

extern "C" {
AmdStatus amdsmi_init(std::uint64_t flags);
AmdStatus amdsmi_shut_down();
AmdStatus amdsmi_get_lib_version(AmdVersion* version);
AmdStatus amdsmi_status_code_to_string(AmdStatus status, const char** text);
AmdStatus amdsmi_get_socket_handles(std::uint32_t* count, AmdSocket* sockets);
AmdStatus amdsmi_get_processor_handles(AmdSocket socket, std::uint32_t* count,
                                       AmdProcessor* processors);
AmdStatus amdsmi_get_processor_type(AmdProcessor processor, AmdProcessorType* type);
AmdStatus amdsmi_get_gpu_device_uuid(AmdProcessor processor, unsigned* length, char* uuid);
AmdStatus amdsmi_get_gpu_asic_info(AmdProcessor processor, AmdAsicInfo* info);
AmdStatus amdsmi_get_gpu_driver_info(AmdProcessor processor, AmdDriverInfo* info);
AmdStatus amdsmi_get_gpu_memory_total(AmdProcessor processor, AmdMemory type, std::uint64_t* bytes);
AmdStatus amdsmi_get_power_info(AmdProcessor processor, AmdPowerInfo* info);
// Joules: counter x resolution (microjoules).
AmdStatus amdsmi_get_energy_count(AmdProcessor processor, std::uint64_t* counter, float* resolution,
                                  std::uint64_t* nanoseconds);
AmdStatus amdsmi_get_temp_metric(AmdProcessor processor, AmdSensor sensor, AmdTemperature metric,
                                 std::int64_t* celsius);
AmdStatus amdsmi_get_clock_info(AmdProcessor processor, AmdClock clock, AmdClockInfo* info);
AmdStatus amdsmi_get_gpu_activity(AmdProcessor processor, AmdEngineUsage* usage);
// Takes 0.1 s: the library reads its counters twice.
AmdStatus amdsmi_get_violation_status(AmdProcessor processor, AmdViolations* violations);
AmdStatus amdsmi_get_power_cap_info(AmdProcessor processor, std::uint32_t sensor,
                                    AmdPowerCap* info);
AmdStatus amdsmi_set_power_cap(AmdProcessor processor, std::uint32_t sensor,
                               std::uint64_t microwatts);
AmdStatus amdsmi_get_clk_freq(AmdProcessor processor, AmdClock clock, AmdFrequencies* frequencies);
AmdStatus amdsmi_set_gpu_clk_limit(AmdProcessor processor, AmdClock clock, AmdClockLimit limit,
                                   std::uint64_t mhz);
AmdStatus amdsmi_set_gpu_perf_level(AmdProcessor processor, AmdPerformance level);
}

}  // namespace partita::drivers::amd_smi::abi
