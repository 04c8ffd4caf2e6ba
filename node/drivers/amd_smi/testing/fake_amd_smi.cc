// A strict libamd_smi without a GPU. Two boards: 0 is like an MI300X (power of the moment, energy
// counter, violations), 1 like an MI210 (mean power only, no violations, four clock levels); after
// them the library lists a network card. Board 0 works at 70 %, board 1 rests. Power follows clock
// and cap; the counter is its integral. A rule of the interface that is broken ends the process.
//
// Environment: AMD_SMI_FAKE_STATE, a file that several processes share (else settings are this
// process's); AMD_SMI_FAKE_VERSION, "25.3.0"; AMD_SMI_FAKE_RIGHTS, "no": nothing may be set.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "drivers/amd_smi/amd_smi_abi.h"

namespace partita::drivers::amd_smi::abi {
namespace {

struct Board {
  const char* name;
  const char* uuid;
  std::uint64_t device, memory;
  double idle_w, cap_w, most_w, low_mhz, high_mhz, load;
  bool modern;
};
constexpr Board kBoards[] = {{"AMD Instinct MI300X", "4eff74a1-0000-1000-802d-111111111111", 0x74A1,
                              std::uint64_t{192} << 30, 140, 750, 750, 132, 2100, 0.7, true},
                             {"AMD Instinct MI210", "38ff740f-0000-1000-8035-222222222222", 0x740F,
                              std::uint64_t{64} << 30, 40, 300, 300, 500, 1700, 0, false}};
constexpr int kGpus = 2;
constexpr double kResolution = 15.259;  // microjoules
constexpr double kLevelsMhz[] = {500, 800, 1200, 1700};

// What lasts. Zero is as after a reset.
struct Settings {
  double cap_w, low_mhz, high_mhz;
  double energy_j;
  double counted_s;  // until when
};

struct Shared {
  Settings boards[kGpus];
};

struct Library {
  int initialised = 0;
  int file = -1;
  Shared own{};
  Shared* shared = &own;
};
Library& library() {
  static Library the_library;
  return the_library;
}

[[noreturn]] void broken(const char* rule) {
  std::fprintf(stderr, "fake libamd_smi: %s\n", rule);
  std::abort();
}
void must(bool holds, const char* rule) {
  if (!holds) broken(rule);
}
void must_run() { must(library().initialised > 0, "a call before amdsmi_init"); }

bool rights() {
  const char* said = std::getenv("AMD_SMI_FAKE_RIGHTS");
  return said == nullptr || std::strcmp(said, "no") != 0;
}

double now_s() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Handles: numbers that are no addresses.
AmdProcessor handle_of(int gpu) { return reinterpret_cast<AmdProcessor>(0x1000L + gpu); }
AmdSocket socket_of(int gpu) { return reinterpret_cast<AmdSocket>(0x2000L + gpu); }
int gpu_of(AmdProcessor handle) {
  must_run();
  for (int gpu = 0; gpu < kGpus; ++gpu)
    if (handle == handle_of(gpu)) return gpu;
  broken("a handle that is no GPU");
}

struct Running {
  double clock_mhz, power_w, cap_w;
  bool capped;
};

// Power goes with the cube of the clock above a third that does not move.
double power_at(const Board& board, double mhz) {
  const double f = mhz / board.high_mhz;
  return board.idle_w + board.load * (board.most_w * 1.3 - board.idle_w) * (0.3 + 0.7 * f * f * f);
}

Running running(const Board& board, const Settings& set) {
  const double cap = set.cap_w > 0 ? set.cap_w : board.cap_w;
  const double high = set.high_mhz > 0 ? set.high_mhz : board.high_mhz;
  const double low = set.low_mhz > 0 ? set.low_mhz : board.low_mhz;
  if (board.load == 0) return {low, board.idle_w, cap, false};
  double mhz = high;
  while (mhz > low && power_at(board, mhz) > cap) mhz -= 1;
  return {mhz, power_at(board, mhz), cap, mhz < high};
}

// The settings of a board, the counter brought up to now, while other processes wait.
template <class Use>
auto with(int gpu, Use use) {
  Library& lib = library();
  if (lib.file >= 0) ::flock(lib.file, LOCK_EX);
  Settings& set = lib.shared->boards[gpu];
  const Board& board = kBoards[gpu];
  const double now = now_s();
  if (set.counted_s == 0) {
    set.counted_s = now;
    set.energy_j = 1;  // a counter of 0 is taken for none
  }
  set.energy_j += running(board, set).power_w * std::max(0.0, now - set.counted_s);
  set.counted_s = now;
  const auto result = use(board, set);
  if (lib.file >= 0) ::flock(lib.file, LOCK_UN);
  return result;
}

void copy(char (&to)[kTextSize], const char* from) { std::snprintf(to, kTextSize, "%s", from); }

template <class Structure>
void must_be(const Structure* out) {
  must(out != nullptr, "a null pointer");
}

AmdStatus list(std::uint32_t* count, void** out, int have, void* (*handle)(int)) {
  must_be(count);
  const auto all = static_cast<std::uint32_t>(have);
  if (out == nullptr) {
    *count = all;
    return AmdStatus::success;
  }
  must(*count >= all, "less room than there are handles");
  for (int i = 0; i < have; ++i) out[i] = handle(i);
  *count = all;
  return AmdStatus::success;
}

}  // namespace

extern "C" {

AmdStatus amdsmi_init(std::uint64_t flags) {
  must(flags == kInitGpus, "initialised for other things than GPUs");
  Library& lib = library();
  if (lib.initialised++ > 0) return AmdStatus::success;
  const char* path = std::getenv("AMD_SMI_FAKE_STATE");
  if (path == nullptr) return AmdStatus::success;
  lib.file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lib.file < 0 || ::ftruncate(lib.file, sizeof(Shared)) != 0) return AmdStatus::init_error;
  void* map = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, lib.file, 0);
  if (map == MAP_FAILED) return AmdStatus::init_error;
  lib.shared = static_cast<Shared*>(map);
  return AmdStatus::success;
}

AmdStatus amdsmi_shut_down() {
  must_run();
  Library& lib = library();
  if (--lib.initialised > 0) return AmdStatus::success;
  if (lib.file >= 0) {
    ::munmap(lib.shared, sizeof(Shared));
    ::close(lib.file);
  }
  lib = Library{};
  lib.shared = &lib.own;
  return AmdStatus::success;
}

AmdStatus amdsmi_get_lib_version(AmdVersion* version) {
  must_be(version);
  *version = {kMajorVersion, 5, 0, "fake"};
  if (const char* said = std::getenv("AMD_SMI_FAKE_VERSION"))
    must(std::sscanf(said, "%u.%u.%u", &version->major, &version->minor, &version->release) == 3,
         "AMD_SMI_FAKE_VERSION is no version");
  return AmdStatus::success;
}

AmdStatus amdsmi_status_code_to_string(AmdStatus status, const char** text) {
  must_be(text);
  *text = status == AmdStatus::out_of_bounds ? "AMDSMI_STATUS_INPUT_OUT_OF_BOUNDS" : "unknown";
  return AmdStatus::success;
}

AmdStatus amdsmi_get_socket_handles(std::uint32_t* count, AmdSocket* sockets) {
  must_run();
  return list(count, sockets, kGpus + 1, socket_of);
}

AmdStatus amdsmi_get_processor_handles(AmdSocket socket, std::uint32_t* count,
                                       AmdProcessor* processors) {
  must_run();
  int at = 0;
  while (at <= kGpus && socket != socket_of(at)) ++at;
  must(at <= kGpus, "a handle that is no socket");
  must_be(count);
  if (processors != nullptr) {
    must(*count >= 1, "less room than there are handles");
    processors[0] = handle_of(at);
  }
  *count = 1;
  return AmdStatus::success;
}

AmdStatus amdsmi_get_processor_type(AmdProcessor processor, AmdProcessorType* type) {
  must_run();
  must_be(type);
  const bool card = processor == handle_of(kGpus);
  if (!card) gpu_of(processor);
  *type = card ? static_cast<AmdProcessorType>(7) : AmdProcessorType::gpu;
  return AmdStatus::success;
}

AmdStatus amdsmi_get_gpu_device_uuid(AmdProcessor processor, unsigned* length, char* uuid) {
  const int gpu = gpu_of(processor);
  must(length != nullptr && uuid != nullptr, "a null pointer");
  if (*length < kUuidSize) return AmdStatus::invalid;
  std::snprintf(uuid, *length, "%s", kBoards[gpu].uuid);
  return AmdStatus::success;
}

AmdStatus amdsmi_get_gpu_asic_info(AmdProcessor processor, AmdAsicInfo* info) {
  const Board& board = kBoards[gpu_of(processor)];
  must_be(info);
  std::memset(info, 0xFF, sizeof *info);
  copy(info->market_name, board.name);
  copy(info->vendor_name, "Advanced Micro Devices");
  info->vendor = 0x1002;
  info->device = board.device;
  return AmdStatus::success;
}

AmdStatus amdsmi_get_gpu_driver_info(AmdProcessor processor, AmdDriverInfo* info) {
  gpu_of(processor);
  must_be(info);
  copy(info->version, "6.14.14");
  copy(info->date, "20250101");
  copy(info->name, "amdgpu");
  return AmdStatus::success;
}

AmdStatus amdsmi_get_gpu_memory_total(AmdProcessor processor, AmdMemory type,
                                      std::uint64_t* bytes) {
  const int gpu = gpu_of(processor);
  must_be(bytes);
  must(type == AmdMemory::vram, "a memory that is not there");
  *bytes = kBoards[gpu].memory;
  return AmdStatus::success;
}

AmdStatus amdsmi_get_power_info(AmdProcessor processor, AmdPowerInfo* info) {
  must_be(info);
  return with(gpu_of(processor), [&](const Board& board, Settings& set) {
    std::memset(info, 0xFF, sizeof *info);
    const auto power = static_cast<std::uint32_t>(std::lround(running(board, set).power_w));
    (board.modern ? info->current : info->average) = power;
    info->socket = power;
    return AmdStatus::success;
  });
}

AmdStatus amdsmi_get_energy_count(AmdProcessor processor, std::uint64_t* counter, float* resolution,
                                  std::uint64_t* nanoseconds) {
  must(counter != nullptr && resolution != nullptr && nanoseconds != nullptr, "a null pointer");
  return with(gpu_of(processor), [&](const Board&, Settings& set) {
    *counter = static_cast<std::uint64_t>(set.energy_j * 1e6 / kResolution);
    *resolution = static_cast<float>(kResolution);
    *nanoseconds = static_cast<std::uint64_t>(set.counted_s * 1e9);
    return AmdStatus::success;
  });
}

AmdStatus amdsmi_get_temp_metric(AmdProcessor processor, AmdSensor sensor, AmdTemperature metric,
                                 std::int64_t* celsius) {
  must_be(celsius);
  must(metric == AmdTemperature::current, "a temperature that is not of now");
  return with(gpu_of(processor), [&](const Board& board, Settings& set) {
    if (sensor == AmdSensor::edge && board.modern) return AmdStatus::not_supported;
    const double rise = 40 * running(board, set).power_w / board.most_w;
    const double more = sensor == AmdSensor::hotspot ? 8 : sensor == AmdSensor::memory ? 4 : 0;
    *celsius = std::lround(30 + rise + more);
    return AmdStatus::success;
  });
}

AmdStatus amdsmi_get_clock_info(AmdProcessor processor, AmdClock clock, AmdClockInfo* info) {
  must_be(info);
  return with(gpu_of(processor), [&](const Board& board, Settings& set) {
    std::memset(info, 0xFF, sizeof *info);
    const double mhz = clock == AmdClock::graphics ? running(board, set).clock_mhz : 1300;
    info->now = static_cast<std::uint32_t>(mhz);
    info->least = static_cast<std::uint32_t>(board.low_mhz);
    info->most = static_cast<std::uint32_t>(board.high_mhz);
    return AmdStatus::success;
  });
}

AmdStatus amdsmi_get_gpu_activity(AmdProcessor processor, AmdEngineUsage* usage) {
  const Board& board = kBoards[gpu_of(processor)];
  must_be(usage);
  std::memset(usage, 0xFF, sizeof *usage);
  usage->graphics = static_cast<std::uint32_t>(std::lround(board.load * 100));
  usage->memory = static_cast<std::uint32_t>(std::lround(board.load * 50));
  return AmdStatus::success;
}

AmdStatus amdsmi_get_violation_status(AmdProcessor processor, AmdViolations* violations) {
  must_be(violations);
  return with(gpu_of(processor), [&](const Board& board, Settings& set) {
    std::memset(violations, 0xFF, sizeof *violations);
    if (!board.modern) return AmdStatus::not_supported;
    violations->processor_hot = violations->socket_heat = 0;
    violations->power = running(board, set).capped ? 1 : 0;
    return AmdStatus::success;
  });
}

AmdStatus amdsmi_get_power_cap_info(AmdProcessor processor, std::uint32_t sensor,
                                    AmdPowerCap* info) {
  must_be(info);
  must(sensor == 0, "a power sensor that is not there");
  return with(gpu_of(processor), [&](const Board& board, Settings& set) {
    const auto micro = [](double watts) { return static_cast<std::uint64_t>(watts * 1e6 + 0.5); };
    *info = {micro(running(board, set).cap_w), micro(board.cap_w), 0, 0, micro(board.most_w), {}};
    return AmdStatus::success;
  });
}

AmdStatus amdsmi_set_power_cap(AmdProcessor processor, std::uint32_t sensor,
                               std::uint64_t microwatts) {
  must(sensor == 0, "a power sensor that is not there");
  return with(gpu_of(processor), [&](const Board& board, Settings& set) {
    if (!rights()) return AmdStatus::no_permission;
    const double watts = static_cast<double>(microwatts) * 1e-6;
    if (watts <= 0 || watts > board.most_w) return AmdStatus::out_of_bounds;
    set.cap_w = watts;
    return AmdStatus::success;
  });
}

AmdStatus amdsmi_get_clk_freq(AmdProcessor processor, AmdClock clock, AmdFrequencies* frequencies) {
  must_be(frequencies);
  must(clock == AmdClock::graphics, "a clock that is not there");
  return with(gpu_of(processor), [&](const Board& board, Settings& set) {
    *frequencies = {};
    const auto add = [&](double mhz) {
      frequencies->hertz[frequencies->count++] = static_cast<std::uint64_t>(mhz * 1e6);
    };
    if (board.modern) {  // deep sleep, the lowest, the present one, the highest
      frequencies->has_deep_sleep = true;
      for (const double mhz : {38.0, board.low_mhz, running(board, set).clock_mhz, board.high_mhz})
        add(mhz);
    } else {
      for (const double mhz : kLevelsMhz) add(mhz);
    }
    return AmdStatus::success;
  });
}

AmdStatus amdsmi_set_gpu_clk_limit(AmdProcessor processor, AmdClock clock, AmdClockLimit limit,
                                   std::uint64_t mhz) {
  must(clock == AmdClock::graphics, "a clock that cannot be limited");
  return with(gpu_of(processor), [&](const Board& board, Settings& set) {
    if (!rights()) return AmdStatus::no_permission;
    const auto wanted = static_cast<double>(mhz);
    const double low = set.low_mhz > 0 ? set.low_mhz : board.low_mhz;
    const double high = set.high_mhz > 0 ? set.high_mhz : board.high_mhz;
    const bool least = limit == AmdClockLimit::least;
    if (wanted < board.low_mhz || wanted > board.high_mhz || (least ? wanted > high : wanted < low))
      return AmdStatus::out_of_bounds;
    (least ? set.low_mhz : set.high_mhz) = wanted;
    return AmdStatus::success;
  });
}

AmdStatus amdsmi_set_gpu_perf_level(AmdProcessor processor, AmdPerformance level) {
  must(level == AmdPerformance::automatic, "a performance level that is not automatic");
  return with(gpu_of(processor), [&](const Board&, Settings& set) {
    if (!rights()) return AmdStatus::no_permission;
    set.low_mhz = set.high_mhz = 0;
    return AmdStatus::success;
  });
}

}  // extern "C"

}  // namespace partita::drivers::amd_smi::abi
